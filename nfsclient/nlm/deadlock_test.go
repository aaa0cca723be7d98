// Deadlocks between programs of one mount.

package nlm

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// A deadlock is reported at once: between two owners, three owners, and two with a shared lock. The
// other owners get their locks after it has ended.
func TestDeadlockIsReported(t *testing.T) {
	simulate(t, func(b *bench) {
		soon, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		for owner := range uint64(3) {
			b.want(b.lock(owner, 4*owner, 4*owner, true), 0)
		}
		first := b.begin(context.Background(), nil, 0, 4, 4)
		second := b.begin(context.Background(), nil, 1, 8, 8)
		time.Sleep(time.Minute)
		b.want(<-b.begin(soon, nil, 2, 0, 0), syscall.EDEADLK)
		b.want(b.lock(2, 0, 0, true), syscall.EAGAIN)
		// no other owner waits for a lock of this owner
		third := b.begin(context.Background(), nil, 3, 0, 0)
		b.unlock(2, 8, 8)
		b.want(<-second, 0)
		b.unlock(1, 4, 8)
		b.want(<-first, 0)
		b.unlock(0, 0, 4)
		b.want(<-third, 0)
		b.unlock(3, 0, 0)

		b.want(b.lock(0, 0, 3, false), 0)
		b.want(b.lock(1, 0, 3, false), 0)
		alone := b.begin(context.Background(), nil, 0, 0, 3)
		time.Sleep(time.Minute)
		b.want(<-b.begin(soon, nil, 1, 0, 3), syscall.EDEADLK)
		b.held("2222")
		b.unlock(1, 0, 3)
		b.want(<-alone, 0)
		b.held("xxxx")
	})
}

// A wait that has been given up is part of no deadlock. A lock by flock(2) is part of none either,
// because flock(2) has no such error.
func TestGivenUpWaitIsInNoDeadlock(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(0, 0, 0, true), 0)
		b.want(b.lock(1, 4, 4, true), 0)
		stop := make(chan struct{})
		given := b.begin(context.Background(), stop, 0, 4, 4)
		time.Sleep(time.Minute)
		close(stop)
		b.want(<-given, syscall.EINTR)
		waits := b.begin(context.Background(), nil, 1, 0, 0)
		time.Sleep(time.Minute)
		b.unlock(0, 0, 0)
		b.want(<-waits, 0)

		b.unlock(1, 0, 4)
		flock := func(id, at uint64) *Request {
			q := request(id, at, at, true)
			q.Key.Flock = true
			return q
		}
		b.want(b.Lock(context.Background(), nil, flock(7, 0)), 0)
		b.want(b.Lock(context.Background(), nil, flock(8, 4)), 0)
		first := waitFor(context.Background(), b.Locks, nil, flock(7, 4))
		stop = make(chan struct{})
		second := waitFor(context.Background(), b.Locks, stop, flock(8, 0))
		time.Sleep(time.Minute)
		close(stop)
		b.want(<-second, syscall.EINTR)
		b.want(b.Release(context.Background(), testFH, flock(8, 0).Key), 0)
		b.want(<-first, 0)
	})
}
