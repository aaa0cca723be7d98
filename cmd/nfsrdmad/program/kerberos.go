// Kerberos of serve: the keytab, the users of principals, and contexts.

package program

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// defaultKeytab is the usual path of a host's keytab.
const defaultKeytab = "/etc/krb5.keytab"

// kerberos has the values of the flags about Kerberos.
type kerberos struct {
	keytab    string
	principal string
	realms    []string
	table     string
	unmapped  string

	live *kerberosServer // set by load
}

// A kerberosServer has the server's state for Kerberos.
type kerberosServer struct {
	flavor lateFlavor

	mu         sync.Mutex   // guards all below
	users      *idmap.Map   // nil: not started
	parsed     *idmap.Table // of table; nil: none
	principals []string     // of the keytab, once started
}

func (k *kerberos) flags(f *pflag.FlagSet) {
	f.StringVar(&k.keytab, "keytab", "", "`FILE` with the key of nfs/HOST, for exports with sec=krb5, krb5i or krb5p (default: "+defaultKeytab+")")
	f.StringVar(&k.principal, "krb5-principal", "", "accept tickets for this `NAME` of the keytab alone, such as nfs/pc1.example.org (default: for all its names)")
	f.StringSliceVar(&k.realms, "krb5-realms", nil, "local `REALMS`, with commas between them: NAME@REALM is the user NAME of this machine (default: the realms of the keytab)")
	f.StringVar(&k.table, "idmap", "", "`FILE` with lines PRINCIPAL = USER or PRINCIPAL = UID:GID, for other principals")
	f.StringVar(&k.unmapped, "idmap-unknown", "nobody", "treat principals that are no users of this machine as `nobody|refuse`")
}

// load reads the table, and forgets identities from an earlier one. Contexts keep their users until
// they end.
func (k *kerberos) load() error {
	if k.unmapped != "nobody" && k.unmapped != "refuse" {
		return fmt.Errorf("--idmap-unknown %q: must be nobody or refuse", k.unmapped)
	}
	var table *idmap.Table
	if k.table != "" {
		text, err := os.ReadFile(k.table)
		if err != nil {
			return fmt.Errorf("--idmap: %w", err)
		}
		if table, err = idmap.ParseTable(k.table, text); err != nil {
			return err
		}
	}
	if k.live == nil {
		k.live = &kerberosServer{}
	}
	s := k.live
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parsed = table
	if s.users != nil {
		s.users.Replace(k.rules())
	}
	return nil
}

// rules returns the configuration for idmap. The caller holds live.mu, and has read the keytab.
func (k *kerberos) rules() idmap.Config {
	realms := k.realms
	if len(realms) == 0 {
		for _, p := range k.live.principals {
			if _, realm, ok := strings.Cut(p, "@"); ok && !slices.Contains(realms, realm) {
				realms = append(realms, realm)
			}
		}
	}
	return idmap.Config{Realms: realms, Table: k.live.parsed, Strict: k.unmapped == "refuse", Lookup: lookupUser}
}

// start makes the server accept Kerberos contexts, unless it does already. load precedes it.
func (k *kerberos) start() error {
	s := k.live
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users != nil {
		return nil
	}
	file := k.keytab
	if file == "" {
		file = defaultKeytab
	}
	entries, err := krb5.ReadKeytab(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no keytab %s: write one with kadmin (ktadd nfs/HOST), or name another with --keytab", file)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the keytab %s cannot be read by the user who runs the server: name another with --keytab", file)
	case err != nil:
		return err
	}
	acceptor, err := krb5.NewAcceptor(krb5.AcceptorOptions{Keytab: file, Principal: k.principal})
	if err != nil {
		return err
	}
	s.principals = acceptable(entries, k.principal)
	if !slices.ContainsFunc(s.principals, func(p string) bool { return strings.HasPrefix(p, "nfs/") }) {
		logrus.Warnf("keytab %s has no key of a principal nfs/HOST, which clients ask for: add one with kadmin (ktadd nfs/HOST)", file)
	}
	s.users = idmap.New(k.rules())
	s.flavor.server.Store(gss.NewServer(gss.ServerConfig{Acceptor: acceptor, Map: userOf(s.users, logto.Standard), Logger: logto.Standard}))
	return nil
}

// acceptable returns the principals in a keytab for which the server accepts tickets.
func acceptable(entries []krb5.KeytabEntry, only string) (names []string) {
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Principal, "@")
		if (only == "" || only == name || only == e.Principal) && !slices.Contains(names, e.Principal) {
			names = append(names, e.Principal)
		}
	}
	return names
}

// userOf returns a function that looks up a principal's user; each new GSS context calls it.
func userOf(users *idmap.Map, logger *slog.Logger) func(principal string) (transport.Cred, bool) {
	var log transport.RateLog
	log.Logger = logger
	return func(principal string) (transport.Cred, bool) {
		id, err := users.Identity(principal)
		switch {
		case errors.Is(err, idmap.ErrRefused): // the flavor logs it
		case err != nil:
			log.Warn("the user of a principal cannot be looked up, so its context is refused", "principal", principal, "error", err)
		case id.UID == idmap.Anonymous:
			log.Warn("a principal has no user here, so it acts as the anonymous user: add the user, or see --idmap, and mount again", "principal", principal)
		}
		return transport.Cred{UID: id.UID, GID: id.GID, GIDs: id.GIDs}, err == nil
	}
}

// A lateFlavor is RPCSEC_GSS for a server that may have no keytab yet: a later reload can bring the
// first export that needs one. Until then it denies all contexts.
type lateFlavor struct{ server atomic.Pointer[gss.Server] }

// Flavor implements transport.SecurityFlavor.
func (f *lateFlavor) Flavor() oncrpc.Flavor { return oncrpc.FlavorGSS }

// Authenticate implements transport.SecurityFlavor.
func (f *lateFlavor) Authenticate(c *transport.Call, h *oncrpc.CallHeader, head []byte) transport.Verdict {
	if s := f.server.Load(); s != nil {
		return s.Authenticate(c, h, head)
	}
	return transport.Verdict{Action: transport.ActionDeny, Stat: oncrpc.AuthRejectedCred}
}
