// Syncs of the same object that share what the file system says.

package nfsserver

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An FS tells of a failed write-back once, to whoever asks first. So two calls
// that sync one object MUST NOT ask apart: the second would hear that all is
// well and tell its client that lost data is safe. In a syncTable those that
// come while a sync runs wait for its end, have one more for all of them
// together, and share its error; that also makes fewer syncs.
type syncTable struct {
	// Guards all below and every syncing. It is not held while a file system syncs, so a disk that
	// hangs holds up the calls that sync the same object, and no other.
	mu   sync.Mutex
	busy map[Ref]*syncing
	free []*syncing // some to use again
}

// A syncing is an object with calls that sync it; syncTable.mu guards it.
type syncing struct {
	ended       sync.Cond // a sync has
	calls       int
	running     bool
	full        bool   // the next sync is for attributes too
	begun, done uint64 // syncs so far
	failed      uint64 // the last that failed
	err         error  // how
}

const spareSyncs = 64

// sync has run called for key at least once after it was itself called, and
// returns its error. dataOnly is false for run when any of those that share it wants more.
func (t *syncTable) sync(key Ref, dataOnly bool, run func(dataOnly bool) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.enter(key)
	defer t.leave(key, s)
	s.full = s.full || !dataOnly
	mine := s.begun + 1 // the next to begin: one that runs may have begun too early for us
	// The first to find none running does it for all, those that come meanwhile included: they are
	// after mine.
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
	// It stays that if run panics: those that wait must not take silence for success.
	var err error = nfs3.ErrIO // unless run returns
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

// stable brings an object to stable storage. A failure may have cost data that
// other writes were told is safe until COMMIT, whoever wrote it: a new verifier
// makes them send it again. It stands before any call that shared the sync, or
// came later, hears how its own went.
func (x *export) stable(r *Ref, dataOnly bool) error {
	return x.syncs.sync(*r, dataOnly, func(dataOnly bool) error {
		err := x.fs.Sync(*r, dataOnly)
		if err != nil && status(err) != nfs3.ErrStale {
			x.written.renew()
		}
		return err
	})
}
