// Changes of attributes that wait for the next call: what is set of a file that a program is just
// making.
//
// Who unpacks or copies a file makes it, writes it, sets its times, its owner and its mode, each by
// a system call of its own, and closes it. Each would be a round trip. Times, and an owner that the
// file has already, are held here instead. A change of the mode takes them along; close, fsync,
// stat, read and write have them sent first, and so does holdFor. What another client sees of a
// file that is being written was never more than that.
//
// Only what nobody refuses is held: the file was made by an open whose first close is still to
// come, the caller is its owner, and the attributes that say so are trusted. An error that comes
// nevertheless, such as a full disk, is told as that of a WRITE is: by the next write, fsync or
// close.

package fusefs

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// holdFor bounds how long a change is held while the file stays open.
const holdFor = 100 * time.Millisecond

const setIDBits = syscall.S_ISUID | syscall.S_ISGID

// A held is changes of one node that the server has not been told of. node.mu guards it.
type held struct {
	who   *caller       // set once: who makes them
	times nfs3.Sattr    // times alone
	owner nfs3.Sattr    // user and group alone, those that the file has: all that is left to be changed is the ctime
	under chan struct{} // closed when the call that makes them has ended; nil: there is none yet
}

// all is what one SETATTR has to set. Times change the ctime, too.
func (h *held) all() nfs3.Sattr {
	if h.times == (nfs3.Sattr{}) {
		return h.owner
	}
	return h.times
}

// over is attributes with the times that are held.
func (h *held) over(a nfs3.Fattr) nfs3.Fattr {
	if h.times.AtimeHow != nfs3.DontChange {
		a.Atime = h.times.Atime
	}
	if h.times.MtimeHow != nfs3.DontChange {
		a.Mtime = h.times.Mtime
	}
	return a
}

// setTimesOf has s set the times that t sets and s does not.
func setTimesOf(s, t *nfs3.Sattr) {
	if s.AtimeHow == nfs3.DontChange {
		s.AtimeHow, s.Atime = t.AtimeHow, t.Atime
	}
	if s.MtimeHow == nfs3.DontChange {
		s.MtimeHow, s.Mtime = t.MtimeHow, t.Mtime
	}
}

// hold keeps a change for a later call, and reports whether it does. Written data, which must not
// come after it, is on its way then.
func (r *request) hold(n *node, s *nfs3.Sattr) bool {
	if r.fs.opt.Sync || !n.hold(r.who, s) {
		return false
	}
	r.fs.holds.add(n)
	if d := n.file(); d != nil {
		d.StartThrough()
	}
	return true
}

// hold is the decision on the node.
func (n *node) hold(who *caller, s *nfs3.Sattr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.AtimeHow == nfs3.SetToServerTime || s.MtimeHow == nfs3.SetToServerTime
	if !n.making || s.SetMode || s.SetSize || now || n.left(time.Now()) <= 0 || n.attr.UID != who.uid {
		return false
	}
	owner := s.SetUID || s.SetGID
	if owner && (n.gives(s) || n.attr.Mode&setIDBits != 0) {
		return false
	}
	h := n.held.Load()
	switch {
	case h == nil:
		h = &held{who: who}
		n.held.Store(h)
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

// gives reports whether s gives n to another user or group. The caller holds mu.
func (n *node) gives(s *nfs3.Sattr) bool {
	return s.SetUID && s.UID != n.attr.UID || s.SetGID && s.GID != n.attr.GID
}

// takeAlong has s set what is held, where both can be one call: endHeld is to follow then. An owner
// that is held is not set again, since servers take set-id bits from a mode that comes with one.
func (n *node) takeAlong(who *caller, s *nfs3.Sattr) *held {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held.Load()
	if h == nil || h.under != nil || h.who != who || s.SetSize || n.gives(s) && who.uid != 0 {
		return nil
	}
	h.under = make(chan struct{})
	setTimesOf(s, &h.times)
	return h
}

// endHeld ends a call that should have set what was held. A call that was interrupted is made again
// later.
func (f *fileSystem) endHeld(n *node, h *held, err error) {
	n.mu.Lock()
	close(h.under)
	h.under = nil
	again := errors.Is(err, context.Canceled)
	if !again {
		n.held.Store(nil)
	}
	n.mu.Unlock()
	if !again {
		f.holds.remove(n)
	}
}

// sendHeld has the server told of what is held of n. Its error is that of ctx alone: others are for
// tellHeld.
func (f *fileSystem) sendHeld(ctx context.Context, n *node) error {
	for n.held.Load() != nil {
		n.mu.Lock()
		h := n.held.Load()
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
			return f.setHeld(ctx, n, h, &s)
		}
		select {
		case <-under:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// setHeld is sendHeld for who has found that no call is under way.
func (f *fileSystem) setHeld(ctx context.Context, n *node, h *held, s *nfs3.Sattr) (err error) {
	if d := n.file(); d != nil {
		err = d.WriteThrough(ctx)
	}
	if err == nil {
		err = f.callSetattr(ctx, h.who, n, s)
	}
	if isStale(err) {
		err = nil // the file is gone, and with it what should have been set
	}
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		n.mu.Lock()
		n.heldErr = err
		n.mu.Unlock()
	}
	f.endHeld(n, h, err)
	if interrupted {
		return err
	}
	return nil
}

// tellHeld returns, once, the error of what was held.
func (n *node) tellHeld() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.heldErr
	n.heldErr = nil
	return err
}

// made has changes of a file that was just made be held from now on, and closing ends that.
func (n *node) made() {
	n.mu.Lock()
	n.making = true
	n.mu.Unlock()
}

func (n *node) closing() {
	n.mu.Lock()
	n.making = false
	n.mu.Unlock()
}

// holds is the nodes of which something is held.
type holds struct {
	fs *fileSystem // set once

	mu      sync.Mutex    // guards all below; innermost
	most    time.Duration // for which a change is held
	nodes   map[*node]struct{}
	timer   *time.Timer
	running bool // the timer, or what it has begun
}

func (q *holds) add(n *node) {
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
		q.timer = time.AfterFunc(q.most, q.expire)
	} else {
		q.timer.Reset(q.most)
	}
}

// remove is for who has found nothing held; what was held since then stays, or is about to be
// added.
func (q *holds) remove(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n.held.Load() == nil {
		delete(q.nodes, n)
	}
}

// expire sends what is held when the timer ends, some of it before its time.
func (q *holds) expire() {
	q.send()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.nodes) > 0; q.running {
		q.timer.Reset(q.most)
	}
}

// send has the server told of all that is held.
func (q *holds) send() {
	q.mu.Lock()
	nodes := make([]*node, 0, len(q.nodes))
	for n := range q.nodes {
		nodes = append(nodes, n)
	}
	q.mu.Unlock()
	for _, n := range nodes {
		_ = q.fs.sendHeld(context.Background(), n) // which does not end; other errors are for tellHeld
		q.remove(n)                                // others may have sent it before it was added
	}
}
