// Locking, waiting, giving up, and calls of ended programs.

package nlm

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

var errLost = errors.New("no answer")

// After many random calls by several owners, the mount's ranges equal the server's.
func TestRangesAsTheServerHasThem(t *testing.T) {
	simulate(t, func(b *bench) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			owner, start := rnd.Uint64N(3), rnd.Uint64N(bytesOfFile)
			end := start + rnd.Uint64N(bytesOfFile-start)
			if rnd.IntN(3) == 0 {
				b.unlock(owner, start, end)
			} else if err := b.lock(owner, start, end, rnd.IntN(2) == 0); err != nil {
				b.want(err, syscall.EAGAIN)
			}
			b.compare()
		}
		for owner := range uint64(3) {
			b.want(b.Release(context.Background(), testFH, Key{ID: owner}), 0)
		}
		b.held("")
		synctest.Wait() // waits for calls that continue after their callers have ended
		if n := b.ownerCount.Load(); n != 0 || len(b.files) != 0 {
			b.Errorf("%d owners of %d files are left", n, len(b.files))
		}
	})
}

// compare fails the test if the server's locks differ from the mount's.
func (b *bench) compare() {
	b.Helper()
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.Locks.mu.Lock()
	defer b.Locks.mu.Unlock()
	for i, held := range b.m.bytes {
		n := 0
		for _, f := range b.files {
			for _, o := range f.owners {
				for _, s := range o.locked.within(span{uint64(i), uint64(i), false}) {
					if x, ok := held[modelOwner{string(b.object), o.svid}]; !ok || x != s.exclusive {
						b.Fatalf("byte %d: %+v is remembered, the server has %v", i, s, held)
					}
					n++
				}
			}
		}
		if n != len(held) {
			b.Fatalf("byte %d: %d owners are remembered, the server has %v", i, n, held)
		}
	}
}

// A wait ends with the lock or a signal. A local release ends a wait at once. With maxWaiters
// waiting, a request fails at once.
func TestWaiting(t *testing.T) {
	simulate(t, func(b *bench) {
		other := b.another()
		b.want(other.Lock(context.Background(), nil, request(9, 0, 9, true)), 0)
		b.want(b.lock(1, 0, 9, false), syscall.EAGAIN)
		stop := make(chan struct{})
		interrupted, waiter := b.begin(context.Background(), stop, 1, 5, 6), b.begin(context.Background(), nil, 2, 0, 3)
		time.Sleep(time.Hour)
		if n := b.m.count(); n > 2*3700+400 {
			b.Errorf("%d calls in an hour", n)
		}
		close(stop)
		b.want(<-interrupted, syscall.EINTR)
		b.want(other.Unlock(context.Background(), testFH, Key{ID: 9}, 0, lastByte), 0)
		begun := time.Now()
		b.want(<-waiter, 0)
		if d := time.Since(begun); d > pollMost {
			b.Errorf("the lock came after %v", d)
		}
		b.held("xxxx")

		waiter = b.begin(context.Background(), nil, 3, 0, 3)
		time.Sleep(time.Hour)
		begun = time.Now()
		b.unlock(2, 0, 3)
		b.want(<-waiter, 0)
		if d := time.Since(begun); d != 0 {
			b.Errorf("a lock that was released here came after %v", d)
		}
		wait := func(n int) {
			b.Locks.mu.Lock()
			defer b.Locks.mu.Unlock()
			b.Locks.waiting = n
		}
		wait(maxWaiters)
		q := request(4, 0, 0, true)
		q.Wait = true
		b.want(b.Lock(context.Background(), nil, q), syscall.ENOLCK)
		wait(0)
		other.Close(context.Background())
	})
}

// If a program ends during its LOCK, the mount releases the lock that the reply grants, and
// restores the locks that the owner had before.
func TestProgramGoneDuringTheCall(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 2, 5, false), 0)
		hang := b.m.hangUp()
		ctx, kill := context.WithCancel(context.Background())
		ended := b.begin(ctx, nil, 1, 0, 9)
		synctest.Wait()
		kill()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Errorf("a killed program: %v", err)
		}
		close(hang)
		time.Sleep(time.Minute)
		b.held("--1111")
		b.compare()
	})
}

// After a lost reply LOCK is undone, and UNLOCK is repeated. If a connection is lost with a system
// error, the reply counts as lost too.
func TestLostReplies(t *testing.T) {
	for _, cause := range []error{errLost, &net.OpError{Op: "read", Err: syscall.ECONNRESET}} {
		simulate(t, func(b *bench) {
			b.want(b.lock(1, 2, 5, false), 0)
			lost := 3 // guarded by the model's lock
			b.m.set(func() {
				b.m.after = func(uint32) error {
					if lost--; lost >= 0 {
						return cause
					}
					return nil
				}
			})
			if err := b.lock(1, 0, 9, true); !errors.Is(err, cause) {
				b.Errorf("a lost reply: %v", err)
			}
			time.Sleep(time.Minute)
			b.held("--1111")
			b.compare()
			b.m.set(func() { lost = 2 })
			b.unlock(1, 0, 3)
			b.held("----11")
			b.m.set(func() {
				lost = 0
				b.m.before = func(proc uint32) error {
					if proc == nlm4.ProcUnlock && lost == 0 {
						lost = -1 << 10
						return cause
					}
					return nil
				}
			})
			b.unlock(1, 4, 5)
			b.held("")
		})
	}
}

// A failed downgrade to a shared lock restores the exclusive one, even if replies get lost.
func TestLostDowngrade(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 2, 5, true), 0)
		lost := 3 // guarded by the model's lock
		b.m.set(func() {
			b.m.after = func(uint32) error {
				if lost--; lost >= 0 {
					return errLost
				}
				return nil
			}
		})
		if err := b.lock(1, 2, 5, false); !errors.Is(err, errLost) {
			b.Errorf("a lost reply: %v", err)
		}
		time.Sleep(time.Minute)
		b.held("--xxxx")
		b.compare()
	})
}

// Each status is mapped to Linux's error.
func TestErrors(t *testing.T) {
	for st, want := range map[nlm4.Status]syscall.Errno{nlm4.Granted: 0, nlm4.Denied: syscall.EAGAIN, nlm4.DeniedNoLocks: syscall.ENOLCK,
		nlm4.Deadlock: syscall.EDEADLK, nlm4.ROFS: syscall.EROFS, nlm4.StaleFH: syscall.ESTALE, nlm4.FBig: syscall.EOVERFLOW, nlm4.Failed: syscall.ENOLCK} {
		var wanted error
		if want != 0 {
			wanted = want
		}
		if got := errno(st); got != wanted {
			t.Errorf("%v: got %v, want %v", st, got, wanted)
		}
	}
	simulate(t, func(b *bench) {
		b.m.set(func() { b.m.before = func(uint32) error { return syscall.ENOLCK } })
		b.want(b.lock(1, 0, 9, true), syscall.ENOLCK)
		time.Sleep(time.Hour)
		if n := b.m.count(); n != 1 {
			b.Errorf("%d calls of a server without locks", n)
		}
	})
}

// ReleaseHandle releases the locks made through a closed file, and no other locks.
func TestHandlesReleaseRemainingLocks(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 0, 1, true), 0)
		b.want(b.lock(2, 4, 5, true), 0)
		b.ReleaseHandle(context.Background(), testFH, 1)
		b.held("----xx")
		h, err := b.Test(context.Background(), request(1, 0, lastByte, false))
		b.want(err, 0)
		must.Equal(b, "there is a holder", h != nil, true)
		must.Equal(b, "the holder's process", h.Pid, 2)
		must.Equal(b, "the holder's lock is exclusive", h.Exclusive, true)
	})
}

// An expiring server accepts only the mount's own calls when the program's credentials have
// expired.
type expiring struct {
	*model
	expired atomic.Bool
}

func (s *expiring) NLM(ctx context.Context, who any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	if who != nil && s.expired.Load() {
		return syscall.EACCES
	}
	return s.model.NLM(ctx, who, proc, args, res)
}

// A program's locks end with it even if the server no longer accepts its credentials.
func TestExpiredTicket(t *testing.T) {
	simulate(t, func(b *bench) {
		s := &expiring{model: b.m}
		l := New(Options{Server: s, Name: "host"})
		q := request(1, 2, 5, true)
		q.Who = "somebody"
		b.want(l.Lock(context.Background(), nil, q), 0)
		s.expired.Store(true)
		b.want(l.Release(context.Background(), testFH, q.Key), 0)
		b.held("")
		l.Close(context.Background())
	})
}
