// nfsrdmad status: the server's state in a few lines.

package program

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// A statusReport is the answer to status.
type statusReport struct {
	Program  string    `json:"program"`        // nfsrdmad, or the program that serves with it
	Version  string    `json:"version"`        // of the program
	Revision string    `json:"revision"`       // of its source
	PID      int       `json:"pid"`            // of the process
	Started  time.Time `json:"started"`        // when the server started
	Uptime   float64   `json:"uptime_seconds"` // time since then
	State    string    `json:"state"`          // serving, or draining
	Grace    float64   `json:"grace_seconds"`  // in which clients may only reclaim locks

	Listeners   []listenerReport `json:"listeners"`   // addresses that are served
	Connections map[string]int   `json:"connections"` // by transport
	Calls       uint64           `json:"calls"`       // since the start, as are the bytes
	BytesIn     uint64           `json:"bytes_in"`    // from clients
	BytesOut    uint64           `json:"bytes_out"`   // to clients

	BudgetLimit      int64  `json:"budget_limit_bytes"` // of data under way
	BudgetUsed       int64  `json:"budget_used_bytes"`  // of these, in use
	DescriptorsLimit uint64 `json:"descriptors_limit"`  // open files that the process can have
	DescriptorsUsed  int    `json:"descriptors_used"`   // of these, in use

	// decisions of the mechanisms of the data path, by name
	Mechanisms map[string]rnic.Decisions `json:"mechanisms"`

	TLS      *tlsStatus      `json:"tls,omitempty"`      // absent without --tls-cert
	Kerberos *kerberosStatus `json:"kerberos,omitempty"` // absent if no export needs it

	ExportsFile string     `json:"exports_file"`           // "": none
	ExportsRead *time.Time `json:"exports_read,omitempty"` // when the file was last read without a mistake
	// the last reload, if it was refused
	Refused *refusedReport `json:"refused_reload,omitempty"`
}

// A listenerReport is an address that is served.
type listenerReport struct {
	Address   string `json:"address"`   // address and port
	Transport string `json:"transport"` // tcp, rdma/iwarp or rdma/roce
}

// A refusedReport is a reload that was refused.
type refusedReport struct {
	Time  time.Time `json:"time"`  // of the attempt
	Error string    `json:"error"` // the first mistake
}

// The names of transports.
const (
	overTCP   = "tcp"
	overIWARP = "rdma/iwarp"
	overRoCE  = "rdma/roce"
)

// transportOf returns the transport for an RDMA provider; "" stands for TCP.
func transportOf(provider string) string {
	if provider == "" {
		return overTCP
	}
	return "rdma/" + provider
}

func newStatus(k *Kind) *cobra.Command {
	return newView(k, &cobra.Command{
		Use:   "status",
		Short: "Show the state of the running server",
		Long: `Show the state of the server on this machine: its age, its addresses, connections,
calls, bytes, memory and file descriptors. It also reports whether the present
exports file is in use, when certificates expire, and the contexts of Kerberos.`,
		Example: `  nfsrdmad status
  nfsrdmad status --json | jq .connections`,
	}, showStatus)
}

// status returns the report on the server.
func (r *running) status() *statusReport {
	s := &statusReport{Program: r.o.kind.name(), PID: os.Getpid(), Started: r.started, Uptime: time.Since(r.started).Seconds(), State: "serving",
		Connections: map[string]int{overTCP: 0, overIWARP: 0, overRoCE: 0}, ExportsFile: r.set.file}
	s.Version, s.Revision = cli.Build()
	if r.service.Draining() {
		s.State = "draining"
	}
	if r.o.locks.svc != nil {
		s.Grace = r.o.locks.svc.Grace().Seconds()
	}
	for _, l := range []struct {
		addr net.Addr
		over string
	}{{r.service.TCPAddr, overTCP}, {r.service.RDMAAddr, overIWARP}, {r.service.RoCEAddr, overRoCE}} {
		if l.addr != nil && (l.over != overRoCE || r.service.RoCEServed()) {
			s.Listeners = append(s.Listeners, listenerReport{l.addr.String(), l.over})
		}
	}
	clients, ended := r.service.Clients()
	s.Calls, s.BytesIn, s.BytesOut = ended.Calls, ended.In, ended.Out
	for i := range clients {
		c := &clients[i]
		s.Connections[transportOf(c.Provider)]++
		s.Calls, s.BytesIn, s.BytesOut = s.Calls+c.Calls, s.BytesIn+c.In, s.BytesOut+c.Out
	}
	for _, b := range r.service.Budgets() {
		s.BudgetLimit, s.BudgetUsed = s.BudgetLimit+b.Max, s.BudgetUsed+b.Used
	}
	s.DescriptorsUsed, s.DescriptorsLimit = descriptors()
	s.Mechanisms = r.service.Mechanisms()
	s.TLS, s.Kerberos = r.o.security.tlsStatus(), r.o.security.kerberos.status()
	s.ExportsRead, s.Refused = r.set.history.last()
	return s
}

// descriptors returns the number of the process's open files, and its limit.
func descriptors() (used int, limit uint64) {
	if d, err := os.Open("/proc/self/fd"); err == nil {
		names, _ := d.Readdirnames(-1)
		d.Close()
		used = max(0, len(names)-1) // without the descriptor of d
	}
	var l unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return used, l.Cur
}

// showStatus prints a report.
func showStatus(w io.Writer, s *statusReport) error {
	state := s.State
	if s.Grace > 0 {
		state += fmt.Sprintf(", for %s clients may only reclaim locks", formatAge(s.Grace))
	}
	fmt.Fprintf(w, "%s %s, pid %d, up %s: %s\n", cmp.Or(s.Program, "nfsrdmad"), s.Version, s.PID, formatAge(s.Uptime), state)
	var at, conns []string
	for _, l := range s.Listeners {
		at = append(at, fmt.Sprintf("%s (%s)", l.Address, l.Transport))
	}
	total := 0
	for _, over := range []string{overTCP, overIWARP, overRoCE} {
		if n := s.Connections[over]; n > 0 {
			conns = append(conns, fmt.Sprintf("%d %s", n, over))
			total += n
		}
	}
	fmt.Fprintf(w, "  listening    %s\n", strings.Join(at, ", "))
	fmt.Fprintf(w, "  connections  %d", total)
	if total > 0 {
		fmt.Fprintf(w, ": %s", strings.Join(conns, ", "))
	}
	fmt.Fprintf(w, "\n  calls        %d, %s in, %s out\n", s.Calls, text.Size(s.BytesIn), text.Size(s.BytesOut))
	fmt.Fprintf(w, "  memory       %s of %s for data under way\n", text.Size(uint64(s.BudgetUsed)), text.Size(uint64(s.BudgetLimit)))
	fmt.Fprintf(w, "  descriptors  %d of %d\n", s.DescriptorsUsed, s.DescriptorsLimit)
	showSecurity(w, s.TLS, s.Kerberos)
	if s.ExportsFile != "" && s.ExportsRead != nil {
		fmt.Fprintf(w, "  exports      %s, taken in %s\n", s.ExportsFile, s.ExportsRead.Local().Format(time.DateTime))
	}
	if s.Refused != nil {
		fmt.Fprintf(w, "  reload       refused %s: %s\n", s.Refused.Time.Local().Format(time.DateTime), s.Refused.Error)
	}
	return nil
}
