// The port mapper's table: programs and their addresses.

package portmap

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// maxRows bounds other local programs' registrations.
const maxRows = 1024

// netids are the supported transports. A registration with any other is refused.
var netids = []string{rpcbind.NetTCP, rpcbind.NetTCP6, rpcbind.NetUDP, rpcbind.NetUDP6, rpcbind.NetRDMA, rpcbind.NetRDMA6}

// A Table maps services to addresses. Its methods may be called concurrently.
type Table struct {
	mu   sync.Mutex // guards rows
	rows map[service]row
}

type row struct {
	at    netip.AddrPort
	owner string // the registering process's user, as DUMP reports it
	own   bool   // set by the process with the Table: no caller can remove it
}

// NewTable returns a Table with the bindings own. The port mapper's callers cannot remove them.
func NewTable(own []rpcbind.Binding) *Table {
	t := &Table{rows: map[service]row{}}
	t.Add(own)
	return t
}

// Add adds bindings that callers cannot remove.
func (t *Table) Add(own []rpcbind.Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range own {
		if at, err := rpcbind.ParseUniversalAddr(own[i].Addr); err == nil {
			t.rows[serviceOf(&own[i])] = row{at, superuser, true}
		}
	}
}

// set registers a binding for another local program. It reports whether the binding is registered,
// now or already. A service registered at another address must be unset first.
func (t *Table) set(b *rpcbind.Binding, owner string) bool {
	at, err := rpcbind.ParseUniversalAddr(b.Addr)
	if err != nil || !slices.Contains(netids, b.Netid) || at.Port() == 0 || at.Addr().Is6() != strings.HasSuffix(b.Netid, "6") {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.rows[serviceOf(b)]; ok {
		return old.at == at
	}
	if len(t.rows) >= maxRows {
		return false
	}
	t.rows[serviceOf(b)] = row{at, owner, false}
	return true
}

// superuser is root's name as an owner. Root can remove all owners' registrations.
const superuser = "superuser"

// unset removes registrations made by owner: a program over one transport, or over all if netid is
// empty. It reports whether there was any.
func (t *Table) unset(prog, vers uint32, netid, owner string) (done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range netids {
		s := service{prog, vers, n}
		if r, ok := t.rows[s]; ok && !r.own && (netid == "" || netid == n) && (owner == superuser || owner == r.owner) {
			delete(t.rows, s)
			done = true
		}
	}
	return done
}

// find returns a program's address over a transport. If only other versions are registered it
// returns the lowest one's address, unless exact: the caller learns the versions from the program
// itself.
func (t *Table) find(s service, exact bool) (netip.AddrPort, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.rows[s]; ok || exact {
		return r.at, ok
	}
	best, found := row{}, false
	lowest := ^uint32(0)
	for other, r := range t.rows {
		if other.prog == s.prog && other.netid == s.netid && other.vers <= lowest {
			best, lowest, found = r, other.vers, true
		}
	}
	return best.at, found
}

// list returns all bindings, ordered by program, version and transport.
func (t *Table) list() []rpcbind.Binding {
	t.mu.Lock()
	all := make([]rpcbind.Binding, 0, len(t.rows))
	for s, r := range t.rows {
		all = append(all, rpcbind.Binding{Prog: s.prog, Vers: s.vers, Netid: s.netid, Addr: rpcbind.UniversalAddr(r.at), Owner: r.owner})
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b rpcbind.Binding) int {
		return cmp.Or(cmp.Compare(a.Prog, b.Prog), cmp.Compare(a.Vers, b.Vers), cmp.Compare(a.Netid, b.Netid))
	})
	return all
}
