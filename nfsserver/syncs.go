// Shared syncs: calls that sync the same object share one result.

package nfsserver

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An FS reports a failed write-back once, to the first caller of Sync. So two calls that sync one
// object MUST NOT call Sync separately: the second would get nil, and its client would take lost
// data to be safe. In a syncTable the calls that arrive during a sync wait for its end, share one
// further sync, and share that sync's error. Sharing also saves syncs.
type syncTable struct {
	// Guards the other fields, and each syncing. mu is released while a file system syncs, so a
	// hanging disk delays only the calls for the same object.
	mu   sync.Mutex
	busy map[Ref]*syncing
	free []*syncing // for reuse
}

// A syncing is an object being synced by calls; syncTable.mu guards it.
type syncing struct {
	ended       sync.Cond // signals the end of a sync
	calls       int
	running     bool
	full        bool   // the next sync includes attributes
	begun, done uint64 // syncs begun and completed so far
	failed      uint64 // number of the last failed sync
	err         error  // the last failed sync's error
}

const spareSyncs = 64

// sync makes at least one call of run for key that begins after sync does, and returns that call's
// error. dataOnly is passed on only if all sharing calls set it.
func (t *syncTable) sync(key Ref, dataOnly bool, run func(dataOnly bool) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.enter(key)
	defer t.leave(key, s)
	s.full = s.full || !dataOnly
	mine := s.begun + 1 // the next sync: a running sync may have begun too early
	// The first call that finds no running sync leads a sync for all waiting calls, including those
	// that arrived later.
	for s.done < mine {
		if s.running {
			s.ended.Wait()
		} else {
			t.lead(s, run)
		}
	}
	if s.failed >= mine {
		return s.err
	}
	return nil
}

// lead runs the next sync, with mu unlocked.
func (t *syncTable) lead(s *syncing, run func(dataOnly bool) error) {
	// The error stays if run panics, so waiting calls do not take a panic for success.
	var err error = nfs3.ErrIO // until run returns
	dataOnly := !s.full
	s.running, s.full = true, false
	s.begun++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		s.running = false
		s.done++
		if err != nil {
			s.failed, s.err = s.done, err
		}
		s.ended.Broadcast()
	}()
	err = run(dataOnly)
}

// enter returns key's syncing, and counts one more call in it; mu is held.
func (t *syncTable) enter(key Ref) *syncing {
	s := t.busy[key]
	if s == nil {
		if n := len(t.free); n > 0 {
			s, t.free = t.free[n-1], t.free[:n-1]
		} else {
			s = &syncing{}
			s.ended.L = &t.mu
		}
		if t.busy == nil {
			t.busy = map[Ref]*syncing{}
		}
		t.busy[key] = s
	}
	s.calls++
	return s
}

// leave undoes enter. The last call returns s to free; mu is held.
func (t *syncTable) leave(key Ref, s *syncing) {
	if s.calls--; s.calls > 0 {
		return
	}
	delete(t.busy, key)
	s.begun, s.done, s.failed, s.err, s.full = 0, 0, 0, nil, false
	if len(t.free) < spareSyncs {
		t.free = append(t.free, s)
	}
}

// stable brings an object to stable storage. A failure may have lost data of earlier UNSTABLE
// writes, by any client. So stable stores a new verifier, which makes the clients resend that data,
// before any call that shared the sync, or came later, returns its result.
func (x *export) stable(r *Ref, dataOnly bool) error {
	return x.syncs.sync(*r, dataOnly, func(dataOnly bool) error {
		err := x.fs.Sync(*r, dataOnly)
		if err != nil && status(err) != nfs3.ErrStale {
			x.written.renew()
		}
		return err
	})
}
