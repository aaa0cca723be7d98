// The client's sequence numbers, and its share in keeping to the server's window.

package gss

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxOutstanding bounds a context's concurrent calls if the server's window is larger.
const maxOutstanding = 4096

// slowest is how long an unanswered call keeps others from numbers that would move the server's
// window past its own number. Until then the call may still be on its way, and the server would
// drop it. Later it has surely arrived, and the server only takes long to answer.
const slowest = time.Second

var errSpent = errors.New("gss: the context's sequence numbers are used up")

// An outstanding gives a context's calls their sequence numbers: as many at a time as the server's
// window has (RFC 2203 §5.2.3.1), and none so far ahead that an older one would fall below it.
type outstanding struct {
	size uint32 // of the window; set once

	mu      sync.Mutex // guards all below
	next    uint32
	oldest  uint32 // lowest number in use, except those passed over as slow; equal to next: none
	count   uint32 // of numbers in use
	inUse   []uint64
	changed chan struct{} // closed when a number ends; nil: no call waits
}

func (o *outstanding) init(first, window uint32) {
	o.size = min(window, maxOutstanding)
	o.next, o.oldest = first, first
	o.inUse = make([]uint64, (o.size+63)/64)
}

// spent reports whether there are no more numbers.
func (o *outstanding) spent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next >= maxSeq
}

// begin returns the next number, as soon as the window has room. ok is false if there are no more.
func (o *outstanding) begin(ctx context.Context, until time.Time) (seq uint32, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.count >= o.size || o.next-o.oldest >= o.size {
		if err := o.wait(ctx, until); err != nil {
			return 0, false, err
		}
	}
	if o.next >= maxSeq {
		return 0, false, nil
	}
	seq = o.next
	o.next++
	o.count++
	o.inUse[seq%o.size/64] |= 1 << (seq % o.size % 64)
	return seq, true, nil
}

// wait waits until a number ends. If only the oldest is in the way for too long, it no longer
// counts as oldest. The caller holds mu, which wait unlocks meanwhile.
func (o *outstanding) wait(ctx context.Context, until time.Time) error {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	changed, oldest := o.changed, o.oldest
	o.mu.Unlock()
	limit := slowest
	if !until.IsZero() {
		limit = min(limit, time.Until(until))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	timeout := false
	select {
	case <-changed:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		if timeout = true; limit < slowest {
			err = context.DeadlineExceeded
		}
	}
	o.mu.Lock()
	if timeout && err == nil && o.oldest == oldest && o.count < o.size {
		o.clear(oldest)
		o.advance()
	}
	return err
}

// end ends the use of a number.
func (o *outstanding) end(seq uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count--
	if seq >= o.oldest {
		o.clear(seq)
		o.advance()
	}
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func (o *outstanding) clear(seq uint32) { o.inUse[seq%o.size/64] &^= 1 << (seq % o.size % 64) }

// advance moves oldest past numbers that are not in use.
func (o *outstanding) advance() {
	for o.oldest < o.next && o.inUse[o.oldest%o.size/64]&(1<<(o.oldest%o.size%64)) == 0 {
		o.oldest++
	}
}
