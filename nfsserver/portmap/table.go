// What a port mapper knows: which program is where.

package portmap

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// maxRows bounds what programs of this machine can register.
const maxRows = 1024

// netids are the transports that a Table knows. A registration of any other is refused.
var netids = []string{rpcbind.NetTCP, rpcbind.NetTCP6, rpcbind.NetUDP, rpcbind.NetUDP6, rpcbind.NetRDMA, rpcbind.NetRDMA6}

// A Table is what a port mapper knows. All methods may be called at once.
type Table struct {
	mu   sync.Mutex // guards rows
	rows map[service]row
}

type row struct {
	at    netip.AddrPort
	owner string // of the process that has set it, as DUMP tells
	own   bool   // set by the program that has the Table: nobody else takes it out
}

// NewTable returns a Table of the bindings, which only the caller can take out again.
func NewTable(own []rpcbind.Binding) *Table {
	t := &Table{rows: map[service]row{}}
	t.Add(own)
	return t
}

// Add adds bindings that only the caller can take out again.
func (t *Table) Add(own []rpcbind.Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range own {
		if at, err := rpcbind.ParseUniversalAddr(own[i].Addr); err == nil {
			t.rows[serviceOf(&own[i])] = row{at, superuser, true}
		}
	}
}

// set registers what another program of this machine asks for. It reports whether that is
// registered, now or already: one that stands elsewhere has to be taken out first.
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

// superuser is the owner of what root has set, who can take out all that others have set.
const superuser = "superuser"

// unset takes out what owner has set: a program over one transport, or over each where netid is
// empty. It reports whether there was anything.
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

// find returns where a program is over a transport. Of one that is served in other versions alone
// it returns the lowest of those, unless exact: its caller learns from the program itself which
// there are.
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

// list returns all, in order of program, version and transport.
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
