// Work that finds the send queue full, of both roles, and waits for room in it.

package rpcrdma

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A sendWork is what is posted in one batch: a call, or the work of a Request.
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

// A sendLine is the work that waits for room in the send queue. Every batch that is
// posted ends in a completion, after which the line is tried again, so nothing
// stays in it. Whoever comes while there is a line joins it: else a large batch would
// wait for ever while small ones pass it.
type sendLine struct {
	mu   sync.Mutex // held while work of the line is posted, so that it can be withdrawn
	work []sendWork
	n    atomic.Int32 // len(work), to look at without the lock
}

// post posts w, now or when the send queue has room. When it returns nil, w belongs
// to its completion.
func (c *Conn) post(w sendWork) error {
	c.posted.Add(1)
	if c.line.n.Load() == 0 {
		err := c.qp.PostSend(w.requests()...)
		if err == nil {
			return nil
		}
		if !errors.Is(err, rnic.ErrSQFull) {
			c.posted.Add(-1)
			return err
		}
	}
	l := &c.line
	l.mu.Lock()
	l.work = append(l.work, w)
	l.n.Add(1)
	l.mu.Unlock()
	c.postWaiting() // the queue may have been emptied, and its last completion handled, meanwhile
	return nil
}

// postWaiting posts what waits, as far as there is room.
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
				c.callLost(w.call, err)
			} else {
				lost = append(lost, w.request)
			}
		}
		l.work[0] = sendWork{}
		l.work = l.work[1:]
		l.n.Add(-1)
	}
	l.mu.Unlock()
	for _, r := range lost { // not with the lock: what takes their place may post
		r.lose()
	}
}

// withdraw takes a call out of the line, and reports whether it was there.
func (l *sendLine) withdraw(k *Call) bool {
	if l.n.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.work {
		if l.work[i].call == k {
			l.work = append(l.work[:i], l.work[i+1:]...)
			l.n.Add(-1)
			return true
		}
	}
	return false
}

// empty takes all out of the line, and returns the Requests: the calls are found
// among the pending ones.
func (l *sendLine) empty() (requests []*Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.work {
		if w.request != nil {
			requests = append(requests, w.request)
		}
	}
	l.work = nil
	l.n.Store(0)
	return requests
}
