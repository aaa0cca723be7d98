// nfsrdmad clients: the connections, their parameters, and their activity.

package program

import (
	"crypto/tls"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/spf13/cobra"
)

// A clientsReport is the answer to clients: the connections by address.
type clientsReport struct {
	Clients []clientReport `json:"clients"` // the connections, by address
}

// A clientReport is one connection.
type clientReport struct {
	Address   string       `json:"address"`           // address and port
	Transport string       `json:"transport"`         // tcp, rdma/iwarp or rdma/roce
	Exports   []string     `json:"exports"`           // in use since the last reload
	Users     []userReport `json:"users"`             // the 32 most recent, the newest first
	Others    uint64       `json:"other_users_calls"` // calls of earlier users
	Calls     uint64       `json:"calls"`             // since the connection was made
	BytesIn   uint64       `json:"bytes_in"`          // from the client
	BytesOut  uint64       `json:"bytes_out"`         // to the client
	Age       float64      `json:"age_seconds"`       // time since the connection was made
	Idle      float64      `json:"idle_seconds"`      // time since the last call
	XprtSec   string       `json:"xprtsec"`           // none, tls, or mtls: both ends have certificates
	TLS       *tlsReport   `json:"tls,omitempty"`     // of connections with TLS
	RDMA      *rdmaReport  `json:"rdma,omitempty"`    // of connections over RDMA
}

// A userReport is a user of a client, before any squashing: by the client's word (sys), or proven
// (krb5).
type userReport struct {
	Sec       string  `json:"sec"`                 // security flavor: none, sys, krb5, krb5i or krb5p
	UID       *uint32 `json:"uid"`                 // null: flavor none, or a principal that is no user here
	Principal string  `json:"principal,omitempty"` // for krb5 flavors
	Calls     uint64  `json:"calls"`               // calls of the user
	Idle      float64 `json:"idle_seconds"`        // since the user's last call
}

// A tlsReport has a connection's TLS parameters.
type tlsReport struct {
	Version string `json:"version"`           // such as TLS 1.3
	Cipher  string `json:"cipher"`            // such as TLS_AES_128_GCM_SHA256
	Kernel  bool   `json:"kernel"`            // the kernel encrypts, not the server's process
	Client  string `json:"client,omitempty"`  // subject of the client's verified certificate
	Expires string `json:"expires,omitempty"` // when that certificate does
}

// A rdmaReport has a connection's RDMA parameters and its current credits.
type rdmaReport struct {
	InlineSend     int  `json:"inline_send_bytes"`    // threshold for messages to the client
	InlineReceive  int  `json:"inline_receive_bytes"` // threshold for messages from the client
	CreditsGranted int  `json:"credits_granted"`      // calls that can be under way
	CreditsUsed    int  `json:"credits_used"`         // calls that are under way
	IRD            int  `json:"ird"`                  // concurrent RDMA Reads by the client
	ORD            int  `json:"ord"`                  // concurrent RDMA Reads by the server
	CRC            bool `json:"crc"`                  // messages have CRCs
	PrivateData    bool `json:"private_data"`         // the client has sent its sizes (RFC 8797)
	// Sends invalidate the memory of the client
	RemoteInvalidation bool `json:"remote_invalidation"`
}

func newClients(k *Kind) *cobra.Command {
	return newView(k, &cobra.Command{
		Use:   "clients",
		Short: "Show the clients of the running server",
		Long: `Show the connections to the server on this machine, one per line, by address:

  CALLS IN OUT  calls, and the bytes of their messages
  AGE IDLE      the age, and the time without a call
  SECURITY      TLS (tls, or mtls if both ends have certificates; with "(kernel)" the
                kernel encrypts: see --tls-kernel of serve), and the flavors of the
                calls: sys (claimed users), krb5, krb5i, krb5p (proven users)
  USERS         the users, the newest first; --json has their calls and names
  EXPORTS       the exports in use since the last reload
  CREDITS       over RDMA, credits in use and granted
  INLINE        inline thresholds in bytes, to the client and from it
  AGREED        CRCs (crc), sizes in private data (pd), remote invalidation (inv)`,
		Example: `  nfsrdmad clients
  watch nfsrdmad clients
  nfsrdmad clients --json |
      jq '.clients[] | select(.idle_seconds > 3600)'
  nfsrdmad clients --json |
      jq '.clients[] | select(any(.users[]; .uid == 0))'`,
	}, showClients)
}

// clients returns the report on all connections.
func (r *running) clients() *clientsReport {
	list, _ := r.service.Clients()
	report := &clientsReport{Clients: []clientReport{}}
	for i := range list {
		c := &list[i]
		row := clientReport{Address: c.Remote.String(), Transport: transportOf(c.Provider), Exports: append([]string{}, c.Exports...),
			XprtSec: c.Channel.Level().String(), TLS: tlsOf(c.Channel), Users: userReports(c.Users), Others: c.OtherCalls, Calls: c.Calls, BytesIn: c.In, BytesOut: c.Out, Age: time.Since(c.Opened).Seconds(), Idle: c.Idle.Seconds()}
		if i := c.RDMA; i != nil {
			row.RDMA = &rdmaReport{InlineSend: i.Thresholds.Send, InlineReceive: i.Thresholds.Recv, CreditsGranted: i.Granted, CreditsUsed: i.InUse,
				IRD: i.IRD, ORD: i.ORD, CRC: i.CRC, PrivateData: i.PrivateData, RemoteInvalidation: i.Thresholds.Invalidate}
		}
		report.Clients = append(report.Clients, row)
	}
	return report
}

// userReports converts the users of a connection.
func userReports(users []nfsserver.User) []userReport {
	list := []userReport{}
	for _, u := range users {
		row := userReport{Sec: exports.FlavorName(u.Flavor), Principal: u.Principal, Calls: u.Calls, Idle: u.Idle.Seconds()}
		if !u.Anonymous {
			row.UID = &u.UID
		}
		list = append(list, row)
	}
	return list
}

// tlsOf returns a connection's TLS parameters; nil: it is in clear.
func tlsOf(c transport.Channel) *tlsReport {
	if c.TLS == nil {
		return nil
	}
	r := &tlsReport{Version: tls.VersionName(c.TLS.Version), Cipher: c.Cipher(), Kernel: c.Kernel}
	if c.Level() == transport.XprtMTLS {
		cert := c.TLS.VerifiedChains[0][0]
		r.Client, r.Expires = cert.Subject.String(), cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return r
}

// securityCell formats a connection's TLS level and its users' flavors, the newest first.
func securityCell(c *clientReport) string {
	var words []string
	if c.TLS != nil {
		word := c.XprtSec
		if c.TLS.Kernel {
			word += "(kernel)"
		}
		words = append(words, word)
	}
	for _, u := range c.Users {
		if !slices.Contains(words, u.Sec) {
			words = append(words, u.Sec)
		}
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, ",")
}

// usersShown is the number of users in a row of the table.
const usersShown = 4

// userCell formats the most recent users of a connection, and the number of others.
func userCell(users []userReport) string {
	var words []string
	for i, u := range users {
		switch {
		case i == usersShown:
			return strings.Join(words, ",") + fmt.Sprintf(",+%d", len(users)-i)
		case u.UID == nil && u.Principal != "":
			words = append(words, cell(u.Principal))
		case u.UID == nil:
			words = append(words, "none")
		default:
			words = append(words, strconv.FormatUint(uint64(*u.UID), 10))
		}
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, ",")
}

// showClients prints a report.
func showClients(w io.Writer, r *clientsReport) error {
	t := newTable(w, "ADDRESS\tTRANSPORT\tCALLS\tIN\tOUT\tAGE\tIDLE\tSECURITY\tUSERS\tCREDITS\tINLINE\tAGREED\tEXPORTS")
	for i := range r.Clients {
		c := &r.Clients[i]
		credits, inline, agreed := "-", "-", "-"
		if d := c.RDMA; d != nil {
			credits, inline = fmt.Sprintf("%d/%d", d.CreditsUsed, d.CreditsGranted), fmt.Sprintf("%d/%d", d.InlineSend, d.InlineReceive)
			var words []string
			for _, a := range []struct {
				on   bool
				word string
			}{{d.CRC, "crc"}, {d.PrivateData, "pd"}, {d.RemoteInvalidation, "inv"}} {
				if a.on {
					words = append(words, a.word)
				}
			}
			if words != nil {
				agreed = strings.Join(words, ",")
			}
		}
		var names []string
		for _, name := range c.Exports {
			names = append(names, cell(name))
		}
		if names == nil {
			names = []string{"-"}
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Address, c.Transport, c.Calls, text.HumanSize(c.BytesIn), text.HumanSize(c.BytesOut),
			formatAge(c.Age), formatAge(c.Idle), securityCell(c), userCell(c.Users), credits, inline, agreed, strings.Join(names, ","))
	}
	return t.Flush()
}
