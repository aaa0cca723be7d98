// Deferred SETATTR: a new file's attribute changes wait for a later call.
//
// A program that unpacks or copies a file creates it, writes it, sets times, owner and mode, and
// closes it. Each system call would be a round trip. So the mount defers times, and an owner equal
// to the file's. A change of mode sends the deferred changes in the same call. close, fsync, stat,
// read and write send them first, and deferFor bounds their delay. Other clients see nothing
// unusual, because they cannot rely on the attributes of a file still being written.
//
// A change is deferred only if the server will not refuse it. The open that made the file has not
// been closed, and trusted attributes show that the caller owns the file. An unexpected error, such
// as a full disk, is reported like a WRITE error: by the next write, fsync or close.

package fusefs

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// deferFor bounds the delay of a change while the file stays open.
const deferFor = 100 * time.Millisecond

// setIDBits are cleared by setting an owner, so such a SETATTR is never deferred.
const setIDBits = syscall.S_ISUID | syscall.S_ISGID

// A deferredSetattr is the deferred SETATTR of one node. node.mu guards it.
type deferredSetattr struct {
	who   *caller       // set once: makes the changes
	times nfs3.Sattr    // times only
	owner nfs3.Sattr    // the present user and group: setting them changes only the ctime
	under chan struct{} // closed when the call that sends the changes ends; nil: no call in flight
}

// all returns the arguments of the SETATTR to send. Setting times changes the ctime too.
func (h *deferredSetattr) all() nfs3.Sattr {
	if h.times == (nfs3.Sattr{}) {
		return h.owner
	}
	return h.times
}

// over returns a with the deferred times.
func (h *deferredSetattr) over(a nfs3.Fattr) nfs3.Fattr {
	if h.times.AtimeHow != nfs3.DontChange {
		a.Atime = h.times.Atime
	}
	if h.times.MtimeHow != nfs3.DontChange {
		a.Mtime = h.times.Mtime
	}
	return a
}

// setTimesOf copies times from t to s if s does not set them.
func setTimesOf(s, t *nfs3.Sattr) {
	if s.AtimeHow == nfs3.DontChange {
		s.AtimeHow, s.Atime = t.AtimeHow, t.Atime
	}
	if s.MtimeHow == nfs3.DontChange {
		s.MtimeHow, s.Mtime = t.MtimeHow, t.Mtime
	}
}

// deferSetattr defers a change if allowed, and reports this. It starts writing back the file's
// data, because data must not reach the server after the change.
func (r *request) deferSetattr(n *node, s *nfs3.Sattr) bool {
	if r.fs.opt.Sync || !n.deferSetattr(r.who, s) {
		return false
	}
	r.fs.deferred.add(n)
	if d := n.file(); d != nil {
		d.StartThrough()
	}
	return true
}

// deferSetattr records a change under n.mu, and reports whether it may be deferred.
func (n *node) deferSetattr(who *caller, s *nfs3.Sattr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.AtimeHow == nfs3.SetToServerTime || s.MtimeHow == nfs3.SetToServerTime
	if !n.making || s.SetMode || s.SetSize || now || n.ttl(time.Now()) <= 0 || n.attr.UID != who.uid {
		return false
	}
	owner := s.SetUID || s.SetGID
	if owner && (n.gives(s) || n.attr.Mode&setIDBits != 0) {
		return false
	}
	h := n.deferred.Load()
	switch {
	case h == nil:
		h = &deferredSetattr{who: who}
		n.deferred.Store(h)
	case h.who != who || h.under != nil:
		return false
	}
	t := nfs3.Sattr{AtimeHow: s.AtimeHow, Atime: s.Atime, MtimeHow: s.MtimeHow, Mtime: s.Mtime}
	setTimesOf(&t, &h.times)
	h.times = t
	if owner {
		h.owner = nfs3.Sattr{SetUID: s.SetUID, UID: s.UID, SetGID: s.SetGID, GID: s.GID}
	}
	return true
}

// gives reports whether s changes the user or group of n. The caller holds n.mu.
func (n *node) gives(s *nfs3.Sattr) bool {
	return s.SetUID && s.UID != n.attr.UID || s.SetGID && s.GID != n.attr.GID
}

// mergeDeferred merges the deferred times into s if one call can make all changes. It returns the
// deferred SETATTR, for endDeferred after the call, or nil. A deferred owner is left out, because
// servers clear set-id bits if a call sets mode and owner.
func (n *node) mergeDeferred(who *caller, s *nfs3.Sattr) *deferredSetattr {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.deferred.Load()
	if h == nil || h.under != nil || h.who != who || s.SetSize || n.gives(s) && who.uid != 0 {
		return nil
	}
	h.under = make(chan struct{})
	setTimesOf(s, &h.times)
	return h
}

// endDeferred ends a call with deferred changes. An interrupted call is repeated later.
func (f *fileSystem) endDeferred(n *node, h *deferredSetattr, err error) {
	n.mu.Lock()
	close(h.under)
	h.under = nil
	again := errors.Is(err, context.Canceled)
	if !again {
		n.deferred.Store(nil)
	}
	n.mu.Unlock()
	if !again {
		f.deferred.remove(n)
	}
}

// sendDeferred sends the deferred changes of n. It returns only errors of ctx; takeDeferredErr
// returns the others.
func (f *fileSystem) sendDeferred(ctx context.Context, n *node) error {
	for n.deferred.Load() != nil {
		n.mu.Lock()
		h := n.deferred.Load()
		var under chan struct{}
		var s nfs3.Sattr
		if h != nil {
			if under = h.under; under == nil {
				h.under = make(chan struct{})
				s = h.all()
			}
		}
		n.mu.Unlock()
		switch {
		case h == nil:
			return nil
		case under == nil:
			return f.callDeferred(ctx, n, h, &s)
		}
		select {
		case <-under:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// callDeferred sends s for sendDeferred, which found no call in flight.
func (f *fileSystem) callDeferred(ctx context.Context, n *node, h *deferredSetattr, s *nfs3.Sattr) (err error) {
	if d := n.file(); d != nil {
		err = d.WriteThrough(ctx)
	}
	if err == nil {
		err = f.callSetattr(ctx, h.who, n, s)
	}
	if isStale(err) {
		err = nil // the file no longer exists, and nothing has to be set
	}
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		n.mu.Lock()
		n.deferredErr = err
		n.mu.Unlock()
	}
	f.endDeferred(n, h, err)
	if interrupted {
		return err
	}
	return nil
}

// takeDeferredErr returns a deferred change's error, once.
func (n *node) takeDeferredErr() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.deferredErr
	n.deferredErr = nil
	return err
}

// beginMaking lets changes to a new file be deferred, until endMaking.
func (n *node) beginMaking() {
	n.mu.Lock()
	n.making = true
	n.mu.Unlock()
}

func (n *node) endMaking() {
	n.mu.Lock()
	n.making = false
	n.mu.Unlock()
}

// deferredNodes has the nodes with deferred changes.
type deferredNodes struct {
	fs *fileSystem // set once

	mu      sync.Mutex    // guards all below; innermost
	delay   time.Duration // delay of a change
	nodes   map[*node]struct{}
	timer   *time.Timer
	running bool // the timer or expire is running
}

// add starts the timer for the first node; later nodes share it.
func (q *deferredNodes) add(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.nodes == nil {
		q.nodes = make(map[*node]struct{})
	}
	q.nodes[n] = struct{}{}
	if q.running {
		return
	}
	q.running = true
	if q.timer == nil {
		q.timer = time.AfterFunc(q.delay, q.expire)
	} else {
		q.timer.Reset(q.delay)
	}
}

// remove drops n if it has no deferred change. With a newer deferred change n stays, or add
// follows.
func (q *deferredNodes) remove(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n.deferred.Load() == nil {
		delete(q.nodes, n)
	}
}

// expire sends all deferred changes when the timer ends, some before their time.
func (q *deferredNodes) expire() {
	q.send()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.nodes) > 0; q.running {
		q.timer.Reset(q.delay)
	}
}

// send sends all deferred changes.
func (q *deferredNodes) send() {
	q.mu.Lock()
	nodes := make([]*node, 0, len(q.nodes))
	for n := range q.nodes {
		nodes = append(nodes, n)
	}
	q.mu.Unlock()
	for _, n := range nodes {
		_ = q.fs.sendDeferred(context.Background(), n) // returns only ctx errors: ctx never ends
		q.remove(n)                                    // a call may have sent the change before add
	}
}
