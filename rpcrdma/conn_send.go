// Outbound, for both roles: posting, and the line of work that waits for room in the send queue.

package rpcrdma

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A sendWork is what is posted in one batch: a call, or the work of a Request. One of
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

// A sendLine is the work that waits for room in the send queue, which both roles share: replies can
// fill it while a call in the reverse direction is made. Every batch that is posted ends in a
// completion, after which the line is tried again, so nothing stays in it: those of calls are told
// later, but calls alone never fill the queue (depths). Whoever comes while there is a line joins
// it: else a large batch would wait for ever while small ones pass it.
type sendLine struct {
	mu   sync.Mutex   // held while work of the line is posted, so that it can be withdrawn
	work []sendWork   // guarded by mu; in order of arrival
	n    atomic.Int32 // len(work), to look at without the lock
}

// post posts w, now or when the send queue has room. When it returns nil, w belongs
// to its completion.
func (c *Conn) post(w sendWork) error {
	c.posted.Add(1)
	if c.line.n.Load() == 0 {
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
	// w is not the caller's any more once it is in line: whoever posts the line may be done with
	// it before this returns.
	l := &c.line
	l.mu.Lock()
	l.work = append(l.work, w)
	l.n.Add(1)
	l.mu.Unlock()
	c.postWaiting() // the queue may have been emptied, and its last completion handled, meanwhile
	return nil
}

// postWaiting posts what waits, as far as there is room. It is called after completions, which
// make room, and by whoever has just joined the line. Work that cannot be posted at all is
// given to its owner: a call at once, with the lock, so that it is not withdrawn meanwhile and
// used again; a Request afterwards.
func (c *Conn) postWaiting() {
	l := &c.line
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
	for _, r := range lost { // not with the lock: what takes their place may post
		r.discard()
	}
}

// withdraw takes a call out of the line, and reports whether it was there. If so the
// call is the caller's again, and has not been posted.
func (c *Conn) withdraw(k *Call) bool {
	l := &c.line
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

// empty takes all out of the line.
func (l *sendLine) empty() (calls []*Call, requests []*Request) {
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
