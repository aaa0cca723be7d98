// Calls given up by a soft mount.

package nlm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// softTime is the timeout of the soft mount's calls.
const softTime = 5 * time.Second

// silence makes calls time out after softTime, until mend. With done the server runs the calls
// nevertheless.
func (b *bench) silence(done bool) (mend func()) {
	give := func(uint32) error {
		b.m.mu.Unlock()
		time.Sleep(softTime)
		b.m.mu.Lock()
		return &transport.ConnectError{Service: "nlm", Addr: "server", Err: errLost}
	}
	b.m.set(func() {
		if b.m.before = give; done {
			b.m.before, b.m.after = nil, give
		}
	})
	return func() { b.m.set(func() { b.m.before, b.m.after = nil, nil }) }
}

// Each call of a soft mount ends after one timeout. This also holds after a LOCK without an answer,
// while UNLOCK is not answered either. Locks that a program did not get are released later, and no
// other locks.
func TestSoftCallsEnd(t *testing.T) {
	for _, done := range []bool{false, true} {
		simulate(t, func(b *bench) {
			b.want(b.lock(1, 0, 1, false), 0)
			mend := b.silence(done)
			fails := func(what string, call func(ctx context.Context) error) {
				b.Helper()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				begun := time.Now()
				err := call(ctx)
				if _, silent := errors.AsType[*transport.ConnectError](err); !silent {
					b.Errorf("%s: %v", what, err)
				}
				if took := time.Since(begun); took > softTime {
					b.Errorf("%s failed after %v", what, took)
				}
			}
			for range 4 { // the pauses between UNLOCKs grow while they get no answer
				fails("LOCK", func(ctx context.Context) error { return b.Lock(ctx, nil, request(1, 4, 9, true)) })
				time.Sleep(repeatMost)
			}
			fails("LOCK of another owner", func(ctx context.Context) error { return b.Lock(ctx, nil, request(2, 12, 13, true)) })
			fails("UNLOCK", func(ctx context.Context) error { return b.Unlock(ctx, testFH, Key{ID: 1}, 0, 0) })
			mend()
			time.Sleep(2 * softTime) // an UNLOCK in flight is given up too
			b.want(b.lock(1, 6, 9, true), 0)
			time.Sleep(2 * repeatMost)
			b.held("-1----xxxx")
			b.compare()
		})
	}
}

// Close of a soft mount waits until its locks are released, but no longer than its context.
func TestCloseOfSoftMount(t *testing.T) {
	simulate(t, func(b *bench) {
		l := b.another()
		b.want(l.Lock(context.Background(), nil, request(1, 0, 1, true)), 0)
		mend := b.silence(false)
		closed := make(chan struct{})
		go func() {
			l.Close(context.Background())
			close(closed)
		}()
		time.Sleep(2 * softTime)
		synctest.Wait()
		select {
		case <-closed:
			b.Error("it did not wait")
		default:
		}
		mend()
		<-closed
		b.held("")
	})
}

// A waiter makes UNLOCK repeat at once after the server is back.
func TestWaiterRetriesUnlockAtOnce(t *testing.T) {
	simulate(t, func(b *bench) {
		unlocks := 0 // guarded by the model's lock
		mend := b.silence(false)
		if err := b.lock(1, 0, 1, true); err == nil {
			b.Error("a server that does not answer has given a lock")
		}
		time.Sleep(20 * repeatMost) // by now UNLOCK is repeated every repeatMost
		mend()
		time.Sleep(2 * softTime)
		b.m.set(func() {
			b.m.before = func(proc uint32) error {
				if proc == nlm4.ProcUnlock {
					unlocks++
				}
				return nil
			}
		})
		begun := time.Now()
		b.want(b.lock(1, 0, 1, true), 0)
		if took := time.Since(begun); took > softTime {
			b.Errorf("the lock came after %v", took)
		}
		b.m.set(func() {
			if unlocks > 1 {
				b.Errorf("UNLOCK was made %d times", unlocks)
			}
		})
		b.held("xx")
	})
}
