// The exports of one moment, and how one set of them takes the place of another.

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

// A table is the exports of one moment. It does not change: a call finds its export, and its rights
// there, in one table, whatever is set up meanwhile.
type table struct {
	entries []*entry // in the order of the Options
	byID    map[uint32]*entry
}

// An entry is an export in a table. The same export may be in the next one, too, with other rules.
type entry struct {
	x       *export
	t       *table
	slot    int                         // in its entries
	rules   *exports.Export             // nil: all clients have the rights open
	open    rights                      // without rules
	of      map[*exports.Client]*rights // with rules: what each client may do
	crosses bool                        // crossmnt
	nested  []*entry                    // those below this one that clients of it enter (crossmnt.go)
}

// newTable makes the table of a list, in which an Export with neither FS nor Open stands for the
// one of that name in old. The caller starts to open those of opens once the table is used. Nothing
// has changed after an error.
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
		case e.FS == nil && e.Open == nil:
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
		if e.Open != nil && e.FS == nil {
			opens[x] = e.Open
		}
		t.add(s.newEntry(x, e))
	}
	// Only now is anything taken or made ready: an error leaves all as it was.
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

func (t *table) add(e *entry) {
	e.t, e.slot = t, len(t.entries)
	t.entries = append(t.entries, e)
	t.byID[e.x.id] = e
}

// newEntry is export x with the rights that e gives.
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

// exportID is the number of an export in handles: the same in each run.
func exportID(e *Export) uint32 {
	of := e.Name
	if e.Rules != nil && e.Rules.Whole.HasFSID {
		of = fmt.Sprintf("fsid=%d", e.Rules.Whole.FSID) // is no name, which begins with a slash
	}
	return uint32(sipKey{}.sum([]byte(of)))
}

// A place is an export at one of its paths.
type place struct {
	e  *entry
	at string
}

// above returns the exports with path p or one above it, the longest path first. Of the same path,
// an export with that name comes before one with that link target.
func (t *table) above(p string) (found []place) {
	for _, e := range t.entries {
		for _, at := range e.x.paths() {
			if p == at || strings.HasPrefix(p, strings.TrimSuffix(at, "/")+"/") {
				found = append(found, place{e, at})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b place) int {
		return cmp.Or(len(b.at)-len(a.at), strings.Compare(a.other(), b.other()))
	})
	return found
}

// other is the path of a place, or "" if that is the name of its export.
func (p *place) other() string {
	if p.at == p.e.x.name {
		return ""
	}
	return p.at
}

// paths are the paths of an export: its name, and the target of the name if that is a symbolic
// link.
func (x *export) paths() []string {
	if x.linked && x.ready.Load() && path.IsAbs(x.info.Path) && x.info.Path != x.name {
		return []string{x.name, x.info.Path}
	}
	return []string{x.name}
}

// enter finds the export of an id and has it stay open until leave; nil: there is none.
func (s *Server) enter(id uint32) *entry {
	for {
		e := s.table.Load().byID[id]
		if e == nil || e.x.enter() {
			return e
		}
		// It was retired after the table had been read: there is another one by now.
	}
}

// enter counts a call that uses the export, unless it is retired. The order of the two steps is
// that of retire, reversed: either the call sees that the export is retired, or retire sees the
// call.
func (x *export) enter() bool {
	x.calls.Add(1)
	if x.retired.Load() {
		x.calls.Add(-1)
		return false
	}
	return true
}

func (x *export) leave() { x.calls.Add(-1) }

// retirePoll is how often it is looked whether a retired export is still used.
const retirePoll = 20 * time.Millisecond

// retire takes an export that is in no table any more out of use: once the calls on it have ended
// its FS is closed, so that the file system can be unmounted, and its lane is free for another.
func (s *Server) retire(x *export) {
	x.retired.Store(true)
	if x.giveUp() {
		x.closing.Store(true) // was never open
	}
	for x.calls.Load() > 0 {
		time.Sleep(retirePoll)
	}
	if x.closing.CompareAndSwap(false, true) {
		if err := x.fs.Close(); err != nil {
			s.log.Warn("closing an export", "export", x.name, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided.AddAll(x.mechanisms())
	s.retired = slices.DeleteFunc(s.retired, func(o *export) bool { return o == x })
	s.free = append(s.free, x.lane)
}

// Replace puts a list of exports in the place of those that are served, in one step: a call is
// under the old ones or under the new. An Export with neither FS nor Open stands for the one with
// its name, and fsid, that is served: it goes on, with other Rules, and its clients notice nothing.
// Handles of one that is not in the list are stale from now on (NFS3ERR_STALE); its FS is closed
// when the last call on it has ended. After an error all is as it was.
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
