// Outbound, for both roles: posting, and the waitlist for room in the send queue.

package rpcrdma

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A sendWork is the work of one batch: a call, or the work requests of a Request. Exactly one of
// the two is set.
type sendWork struct {
	call    *Call
	request *Request
}

func (w sendWork) requests() []rnic.SendWR {
	if w.call != nil {
		return w.call.wr[:]
	}
	return w.request.wrs
}

// A sendWaitlist is the work waiting for room in the send queue. Both roles share that queue:
// replies can fill it while a call in the reverse direction is made. Every posted batch ends in a
// completion, and completions retry the waitlist, so nothing stays in it. Completions of calls are
// deferred, which is harmless because calls alone never fill the queue (depths). New work joins a
// waitlist that is not empty; otherwise a large batch would wait forever while small ones pass it.
type sendWaitlist struct {
	mu   sync.Mutex   // held while listed work is posted, so that it can be withdrawn
	work []sendWork   // guarded by mu; in order of arrival
	n    atomic.Int32 // len(work), read without the lock
}

// post posts w, now or when the send queue has room. After nil, w belongs to its completion.
func (c *Conn) post(w sendWork) error {
	c.posted.Add(1)
	if c.waitlist.n.Load() == 0 {
		err := c.qp.PostSend(w.requests()...)
		if err == nil {
			c.promptSends()
			return nil
		}
		if !errors.Is(err, rnic.ErrSQFull) {
			c.posted.Add(-1)
			return err
		}
	}
	// Once listed, w is no longer the caller's: another goroutine may post and finish it before
	// this one returns.
	l := &c.waitlist
	l.mu.Lock()
	l.work = append(l.work, w)
	l.n.Add(1)
	l.mu.Unlock()
	c.postWaiting() // meanwhile the queue may have emptied and its last completion been handled
	return nil
}

// postWaiting posts the waiting work as far as there is room. It is called after completions, which
// make room, and after work has joined the waitlist. Work that cannot be posted goes back to its
// owner: a call at once, under the lock, so that the call is not withdrawn and reused meanwhile; a
// Request afterwards.
func (c *Conn) postWaiting() {
	l := &c.waitlist
	if l.n.Load() == 0 {
		return
	}
	var lost []*Request
	l.mu.Lock()
	for len(l.work) > 0 {
		w := l.work[0]
		err := c.qp.PostSend(w.requests()...)
		if errors.Is(err, rnic.ErrSQFull) {
			break
		}
		if err != nil {
			c.posted.Add(-1)
			if w.call != nil {
				c.requester.unsendable(w.call, c.postError(err))
			} else {
				lost = append(lost, w.request)
			}
		}
		l.work[0] = sendWork{}
		l.work = l.work[1:]
		l.n.Add(-1)
	}
	l.mu.Unlock()
	c.promptSends()
	for _, r := range lost { // without the lock: a freed Request may serve a call that posts
		r.discard()
	}
}

// withdraw takes a call off the waitlist and reports whether it was there. If so it has not been
// posted, and belongs to the caller again.
func (c *Conn) withdraw(k *Call) bool {
	l := &c.waitlist
	if l.n.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.work {
		if l.work[i].call == k {
			l.work = append(l.work[:i], l.work[i+1:]...)
			l.n.Add(-1)
			c.posted.Add(-1)
			return true
		}
	}
	return false
}

func (l *sendWaitlist) empty() (calls []*Call, requests []*Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.work {
		if w.call != nil {
			calls = append(calls, w.call)
		} else {
			requests = append(requests, w.request)
		}
	}
	l.work = nil
	l.n.Store(0)
	return calls, requests
}
