// What goes on in a server that is served: its clients, what they use, and how its exports are.

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
	Exports []string // that it has used since the exports were last replaced, and may use
	// Users are those that it has called as lately, 32 at most, the newest first; OtherCalls are
	// the calls of those before.
	Users      []User
	OtherCalls uint64
}

// Clients describes the connections that there are, by address, and what those have moved that have
// ended.
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

// used is the exports of the table of which a connection has been told that it may use them.
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

// Drain has the server take no connections of new clients (on), or again those of all. Clients that
// are connected go on.
func (v *Service) Drain(on bool) { v.rpc.Drain(on) }

// Draining reports whether the server takes no new clients.
func (v *Service) Draining() bool { return v.rpc.Draining() }

// An ExportInfo is an export at one moment.
type ExportInfo struct {
	Name    string
	ID      uint32 // in its handles
	Open    bool   // its file system has been opened; else, without Err, that is under way
	Err     error  // why it cannot be opened
	Answers bool   // its file system has just answered
	Rules   []RuleInfo
	Whole   exports.Whole
}

// A RuleInfo is what clients may do in an export, as it is in force: the exports file and the
// options of the Server together.
type RuleInfo struct {
	Spec    string // as in the exports file; "*" of an export without rules
	Options exports.Options
}

// Exports describes the exports, in their order, once their file systems have answered or wait has
// passed.
func (v *Service) Exports(wait time.Duration) (list []ExportInfo) {
	entries := v.srv.table.Load().entries
	end := time.After(wait)
	asked := make([]*question, len(entries))
	for i, e := range entries {
		asked[i] = e.x.ask()
	}
	late := false
	for i, e := range entries {
		x, q := e.x, asked[i]
		info := ExportInfo{Name: x.name, ID: x.id, Open: q != nil, Rules: e.ruleInfos()}
		x.opening.mu.Lock()
		info.Err = x.opening.err
		x.opening.mu.Unlock()
		if e.rules != nil {
			info.Whole = e.rules.Whole
		}
		if info.Open {
			info.Answers = q.answered(end, &late)
		}
		list = append(list, info)
	}
	return list
}

// A question is one that the file system of an export is asked.
type question struct {
	over    chan struct{} // closed at the end
	answers bool          // set before
}

// ask asks the file system of an export for something; nil: it is not open. Of one that does not
// answer one question waits, for all callers.
func (x *export) ask() *question {
	if !x.ready.Load() {
		return nil
	}
	q := &question{over: make(chan struct{})}
	for !x.asked.CompareAndSwap(nil, q) {
		if other := x.asked.Load(); other != nil {
			return other
		}
	}
	go func() {
		defer close(q.over)
		defer x.asked.Store(nil)
		if !x.enter() {
			return
		}
		defer x.leave()
		_, err := x.fs.Getattr(x.root)
		q.answers = err == nil
	}()
	return q
}

// answered reports whether there was an answer before end, which sets late.
func (q *question) answered(end <-chan time.Time, late *bool) bool {
	if !*late {
		select {
		case <-q.over:
		case <-end:
			*late = true
		}
	}
	select { // it may have answered all the same
	case <-q.over:
		return q.answers
	default:
		return false
	}
}

// ruleInfos is the rules of an entry, in the order of the exports file.
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

// options are rights in the words of an exports file.
func (r *rights) options() exports.Options {
	return exports.Options{ReadOnly: r.readOnly, Async: r.async, Secure: r.secure, NoRootSquash: r.root, AllSquash: r.all, NoACL: r.noACL,
		AnonUID: r.anon.UID, AnonGID: r.anon.GID}
}
