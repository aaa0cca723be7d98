// A running server's state for display: clients, their exports and users, and the exports' health.

package nfsserver

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A Client is one connection of a client.
type Client struct {
	transport.ConnInfo
	Exports []string // permitted exports used since the exports were last replaced
	// Users are the connection's recent users, at most 32, newest first; OtherCalls counts the
	// calls of earlier users.
	Users      []User
	OtherCalls uint64
}

// Clients describes the present connections, ordered by address, and the traffic of ended
// connections.
func (v *Service) Clients() (list []Client, ended transport.Traffic) {
	conns, ended := v.rpc.Conns()
	for _, c := range conns {
		one := Client{ConnInfo: c}
		if m, ok := c.Memo.(*memo); ok {
			one.Exports = v.srv.table.Load().used(m.decisions.Load())
			one.Users, one.OtherCalls = m.users.list(c.Idle)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Client) int {
		x, y := addrPort(&a), addrPort(&b)
		if n := x.Compare(y); n != 0 {
			return n
		}
		return a.Opened.Compare(b.Opened)
	})
	return list, ended
}

func addrPort(c *Client) netip.AddrPort {
	if a, ok := c.Remote.(interface{ AddrPort() netip.AddrPort }); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// used returns the names of the table's exports that a connection was permitted to use.
func (t *table) used(known *decisions) (names []string) {
	if known == nil {
		return nil
	}
	for i := range known.of {
		x := known.t.entries[i].x
		if e := t.byID[x.id]; known.of[i].may != nil && e != nil && e.x == x {
			names = append(names, x.name)
		}
	}
	slices.Sort(names)
	return names
}

// Drain sets whether the server refuses connections of new clients. Connected clients continue.
func (v *Service) Drain(on bool) { v.rpc.Drain(on) }

// Draining reports whether the server refuses new clients.
func (v *Service) Draining() bool { return v.rpc.Draining() }

// An ExportInfo is the state of one export.
type ExportInfo struct {
	Name    string
	ID      uint32 // the number in the export's handles
	Open    bool   // the file system is open; with neither Open nor Err, opening is under way
	Err     error  // from the last attempt to open the file system
	Answers bool   // the file system answered just now
	Rules   []RuleInfo
	Whole   exports.Whole
}

// A RuleInfo is a client's rights in an export, from the exports file and the Server's options
// together.
type RuleInfo struct {
	Spec    string // as in the exports file; "*" for an export without rules
	Options exports.Options
}

// Exports describes the exports, in their order. It waits until their file systems have answered,
// but no longer than wait.
func (v *Service) Exports(wait time.Duration) (list []ExportInfo) {
	entries := v.srv.table.Load().entries
	end := time.After(wait)
	checks := make([]*healthCheck, len(entries))
	for i, e := range entries {
		checks[i] = e.x.check()
	}
	late := false
	for i, e := range entries {
		x, q := e.x, checks[i]
		info := ExportInfo{Name: x.name, ID: x.id, Open: q != nil, Rules: e.ruleInfos()}
		x.opening.mu.Lock()
		info.Err = x.opening.err
		x.opening.mu.Unlock()
		if e.rules != nil {
			info.Whole = e.rules.Whole
		}
		if info.Open {
			info.Answers = q.passed(end, &late)
		}
		list = append(list, info)
	}
	return list
}

// A healthCheck is one query to an export's file system.
type healthCheck struct {
	over    chan struct{} // closed when the query ends
	answers bool          // set before over is closed
}

// check queries an export's file system in the background; nil: the export is not open. Until the
// file system answers, all callers share one query.
func (x *export) check() *healthCheck {
	if !x.ready.Load() {
		return nil
	}
	q := &healthCheck{over: make(chan struct{})}
	for !x.checking.CompareAndSwap(nil, q) {
		if other := x.checking.Load(); other != nil {
			return other
		}
	}
	go func() {
		defer close(q.over)
		defer x.checking.Store(nil)
		if !x.enter() {
			return
		}
		defer x.leave()
		if x.trees != nil { // as far as anyone can know without a caller
			q.answers = true
			return
		}
		_, err := x.fs.Getattr(x.root)
		q.answers = err == nil
	}()
	return q
}

// passed waits for the result until end, and then sets late. It reports a successful query.
func (q *healthCheck) passed(end <-chan time.Time, late *bool) bool {
	if !*late {
		select {
		case <-q.over:
		case <-end:
			*late = true
		}
	}
	select { // the result can have come at the last moment
	case <-q.over:
		return q.answers
	default:
		return false
	}
}

// ruleInfos returns an entry's rules, in the order of the exports file.
func (e *entry) ruleInfos() (list []RuleInfo) {
	if e.rules == nil {
		return []RuleInfo{{"*", e.open.options()}}
	}
	for i := range e.rules.Clients {
		c := &e.rules.Clients[i]
		list = append(list, RuleInfo{c.Spec, e.of[c].options()})
	}
	return list
}

// options expresses rights as options of an exports file.
func (r *rights) options() exports.Options {
	return exports.Options{Access: exports.Access{ReadOnly: r.readOnly, Secure: r.secure, NoRootSquash: r.root, AllSquash: r.all},
		Async: r.async, NoACL: r.noACL, AnonUID: r.anon.UID, AnonGID: r.anon.GID, Security: r.security}
}
