// The export table, and its atomic replacement.

package nfsserver

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A table is an immutable set of exports. A call finds its export and its rights in one table, so
// both match even during a Replace.
type table struct {
	entries []*entry // in the order of Options
	byID    map[uint32]*entry
}

// An entry is an export in a table. The next table may hold the same export with other rules.
type entry struct {
	x       *export
	t       *table
	slot    int                         // index in entries
	rules   *exports.Export             // nil: all clients have the rights in open
	open    rights                      // for an export without rules
	of      map[*exports.Client]*rights // with rules: each client's rights
	crosses bool                        // crossmnt
	nested  []*entry                    // inner exports for the entry's clients (crossmnt.go)
}

// newTable makes the table for a list. An Export without FS, Open and Trees stands for old's export
// with the same name. The caller opens the exports in opens once the table is in use. After an
// error the server is unchanged.
func (s *Server) newTable(list []Export, old *table) (_ *table, opens map[*export]func() (FS, error), err error) {
	if len(list) == 0 {
		return nil, nil, errors.New("nothing to export")
	}
	t := &table{byID: map[uint32]*entry{}}
	opens = map[*export]func() (FS, error){}
	free, lanes := slices.Clone(s.free), s.lanes
	for i := range list {
		e := &list[i]
		if !strings.HasPrefix(e.Name, "/") || path.Clean(e.Name) != e.Name {
			return nil, nil, fmt.Errorf("export name %q: must be a clean absolute path such as /data", e.Name)
		}
		id := exportID(e)
		if other := t.byID[id]; other != nil {
			return nil, nil, fmt.Errorf("export name %q is too like %q: choose another", e.Name, other.x.name)
		}
		x := &export{id: id, name: e.Name, linked: e.ByPath, opening: opening{end: make(chan struct{})}}
		switch {
		case e.Trees != nil && (e.FS != nil || e.Open != nil):
			return nil, nil, fmt.Errorf("export %s has Trees beside FS or Open", e.Name)
		case e.FS == nil && e.Open == nil && e.Trees == nil:
			if old == nil || old.byID[id] == nil {
				return nil, nil, fmt.Errorf("export %s has no file system", e.Name)
			}
			x = old.byID[id].x
		case len(free) > 0:
			x.lane, free = free[0], free[1:]
		default:
			x.lane = lanes
			lanes++
		}
		if e.Trees != nil {
			x.trees = newTreeTable(x, e, &s.log)
			x.ready.Store(true)
		}
		if e.Open != nil && e.FS == nil {
			opens[x] = e.Open
		}
		t.add(s.newEntry(x, e))
	}
	// Take lanes and publish file systems only now, so an earlier error leaves both unchanged.
	s.free, s.lanes = free, lanes
	for i, e := range t.entries {
		if list[i].FS != nil {
			e.x.written.renew()
			e.x.served(list[i].FS)
		} else if opens[e.x] != nil {
			e.x.written.renew()
		}
	}
	t.nest()
	return t, opens, nil
}

// add appends an entry while the table is being built.
func (t *table) add(e *entry) {
	e.t, e.slot = t, len(t.entries)
	t.entries = append(t.entries, e)
	t.byID[e.x.id] = e
}

// newEntry returns an entry for export x with the rights in e.
func (s *Server) newEntry(x *export, e *Export) *entry {
	n := &entry{x: x, rules: e.Rules, open: s.openRights(x, e.ReadOnly)}
	if e.Rules == nil {
		return n
	}
	n.crosses = e.Rules.Whole.CrossMounts
	n.of = map[*exports.Client]*rights{}
	for i := range e.Rules.Clients {
		c := &e.Rules.Clients[i]
		n.of[c] = s.clientRights(x, &c.Options, e.ReadOnly)
	}
	return n
}

// exportID returns an export's number in handles, which is the same in each run.
func exportID(e *Export) uint32 {
	of := e.Name
	if e.Rules != nil && e.Rules.Whole.HasFSID {
		// This string never equals a name, because names begin with a slash.
		of = fmt.Sprintf("fsid=%d", e.Rules.Whole.FSID)
	}
	return uint32(sipKey{}.sum([]byte(of)))
}

// An exportPath is an export at one of its paths.
type exportPath struct {
	e  *entry
	at string
}

// above returns the exports at path p or above, the longest path first. Of equal paths, an export's
// name comes before another export's link target.
func (t *table) above(p string) (found []exportPath) {
	for _, e := range t.entries {
		for _, at := range e.x.paths() {
			if p == at || strings.HasPrefix(p, strings.TrimSuffix(at, "/")+"/") {
				found = append(found, exportPath{e, at})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b exportPath) int {
		return cmp.Or(len(b.at)-len(a.at), strings.Compare(a.other(), b.other()))
	})
	return found
}

// other returns the path, or "" if the path is the export's name.
func (p *exportPath) other() string {
	if p.at == p.e.x.name {
		return ""
	}
	return p.at
}

// paths returns an export's paths: its name, and the link target if the name is a symbolic link.
func (x *export) paths() []string {
	if x.linked && x.ready.Load() && path.IsAbs(x.info.Path) && x.info.Path != x.name {
		return []string{x.name, x.info.Path}
	}
	return []string{x.name}
}

// enter finds the export with an id and keeps the export open until leave; nil: no such export.
func (s *Server) enter(id uint32) *entry {
	for {
		e := s.table.Load().byID[id]
		if e == nil || e.x.enter() {
			return e
		}
		// The export was retired after the table was read: look again in the new table.
	}
}

// enter counts a call that uses the export, unless the export is retired. It counts before it
// checks retired, and retire works in reverse order, so either the call sees the retirement or
// retire sees the call.
func (x *export) enter() bool {
	x.calls.Add(1)
	if x.retired.Load() {
		x.calls.Add(-1)
		return false
	}
	return true
}

// leave ends a call's use of the export, begun by enter.
func (x *export) leave() {
	x.calls.Add(-1)
	if x.of != nil {
		x.of.leave()
	}
}

// retirePoll is the interval at which retire checks for calls that still use the export.
const retirePoll = 20 * time.Millisecond

// retire ends the use of an export that left the table. Once the export's calls have ended, retire
// closes the FS, so the file system can be unmounted, and frees the lane.
func (s *Server) retire(x *export) {
	x.retired.Store(true)
	if x.giveUp() {
		x.closing.Store(true) // the export was never open
	}
	for x.calls.Load() > 0 {
		time.Sleep(retirePoll)
	}
	if x.closing.CompareAndSwap(false, true) {
		if err := x.close(); err != nil {
			s.log.Warn("closing an export", "export", x.name, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided.AddAll(x.mechanisms())
	s.retired = slices.DeleteFunc(s.retired, func(o *export) bool { return o == x })
	s.free = append(s.free, x.lane)
}

// Replace replaces the served exports in one step: a call sees either the old list or the new. An
// Export without FS, Open and Trees stands for the served export with its name and fsid, which
// continues with the new Rules, unnoticed by its clients. If an export is missing from the list,
// its handles become stale (NFS3ERR_STALE), and its FS is closed once its last call has ended. An
// error changes nothing.
func (v *Service) Replace(list []Export) error {
	s := v.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	t, opens, err := s.newTable(list, old)
	if err != nil {
		return err
	}
	stays := map[*export]bool{}
	for _, e := range t.entries {
		stays[e.x] = true
		v.rpc.NameLane(e.x.lane, e.x.name)
	}
	s.table.Store(t)
	for x, open := range opens {
		go x.openLater(open, s.log.Logger)
	}
	for _, e := range old.entries {
		if !stays[e.x] {
			s.retired = append(s.retired, e.x)
			go s.retire(e.x)
		}
	}
	return nil
}
