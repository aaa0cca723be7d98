// Server restarts, and lost connections without one.

package nlm

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// takeSome takes some locks for two owners, and returns how the model shows them.
func (b *bench) takeSome() string {
	b.Helper()
	b.want(b.lock(1, 0, 3, true), 0)
	b.want(b.lock(1, 6, 7, false), 0)
	b.want(b.lock(2, 6, 9, false), 0)
	return "xxxx--2211"
}

// After a restart all locks are back before the grace period ends; new locks wait for its end.
func TestReclaim(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		b.m.restart(45 * time.Second)
		b.held("")
		begun := time.Now()
		waits := make(chan error)
		go func() { waits <- b.lock(3, 20, 20, true) }()
		time.Sleep(2 * probeEvery)
		b.held(all)
		b.want(<-waits, 0)
		if d := time.Since(begun); d < 45*time.Second || d > 47*time.Second {
			b.Errorf("a new lock after %v", d)
		}
		if lines := b.logged(); len(lines) != 0 {
			b.Errorf("logged %q", lines)
		}
	})
}

// Locks that the server refuses are lost, with one log line, and are forgotten.
func TestReclaimTooLate(t *testing.T) {
	simulate(t, func(b *bench) {
		b.takeSome()
		b.m.restart(time.Second)
		time.Sleep(3 * time.Second)
		other := b.another()
		b.want(other.Lock(context.Background(), nil, request(9, 0, 0, true)), 0)
		time.Sleep(time.Minute)
		b.held("x")
		if lines := b.logged(); len(lines) != 1 {
			b.Errorf("logged %q", lines)
		}
		b.want(b.lock(1, 0, 3, true), syscall.EAGAIN)
		other.Close(context.Background())
		b.want(b.lock(1, 0, 3, true), 0)
	})
}

// Another server has none of the locks and no grace period. The mount takes those locks again that
// are free, and loses those that others hold. One log line reports each kind.
func TestLocksMoveToAnotherServer(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		b.m.move()
		b.held("")
		time.Sleep(2 * probeEvery)
		b.held(all)
		if lines := b.logged(); len(lines) != 1 {
			b.Errorf("logged %q", lines)
		}
		b.m.move()
		other := b.another()
		b.want(other.Lock(context.Background(), nil, request(9, 0, 0, true)), 0)
		time.Sleep(2 * probeEvery)
		b.held("x-----2211")
		if lines := b.logged(); len(lines) != 3 {
			b.Errorf("logged %q", lines)
		}
		other.Close(context.Background())
		// a restart of the new server counts as a restart, not as a failover
		b.m.restart(0)
		time.Sleep(2 * probeEvery)
		b.held("")
		b.want(b.lock(1, 0, 3, true), 0)
	})
}

// If the next server refuses a file, the locks on it are lost without delaying a program.
func TestFileThatTheNextServerRefuses(t *testing.T) {
	for _, st := range []nlm4.Status{nlm4.StaleFH, nlm4.Failed, nlm4.ROFS, nlm4.FBig, nlm4.DeniedNoLocks} {
		simulate(t, func(b *bench) {
			b.takeSome()
			b.m.set(func() { b.m.refuse = st })
			b.m.move()
			time.Sleep(2 * probeEvery)
			n := b.m.count()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			b.want(b.Release(ctx, testFH, Key{ID: 1}), 0)
			time.Sleep(probeEvery / 2)
			if more := b.m.count() - n; more > 1 {
				b.Errorf("%v: %d calls about locks that are lost", st, more)
			}
			if lines := b.logged(); len(lines) != 1 || !strings.Contains(lines[0], "lost") {
				b.Errorf("%v: logged %q", st, lines)
			}
		})
	}
}

// A failover before the first lock does not count as one: locks refused after a later restart are
// lost.
func TestRestartOfTheServerMovedTo(t *testing.T) {
	simulate(t, func(b *bench) {
		b.m.move()
		b.takeSome()
		b.m.restart(0)
		time.Sleep(2 * probeEvery)
		b.held("")
		if lines := b.logged(); len(lines) != 1 || !strings.Contains(lines[0], "lost") {
			b.Errorf("logged %q", lines)
		}
	})
}

// The previous server's locks on shared files may last a moment longer, so the mount retries.
func TestDeadServerLetsGoLate(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		b.m.move()
		dead := b.another()
		b.want(dead.Lock(context.Background(), nil, request(9, 0, 3, true)), 0)
		go func() {
			time.Sleep(checkEvery + goneMost/2)
			dead.Close(context.Background())
		}()
		time.Sleep(2 * probeEvery)
		b.held(all)
	})
}

// A refused lock belonged to another client, which releases it between the two TESTs. It is lost
// nevertheless.
func TestHolderReleasesBetweenTwoTests(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 0, 3, true), 0)
		b.m.restart(0)
		other, tests := b.another(), 0
		b.want(other.Lock(context.Background(), nil, request(9, 0, 0, true)), 0)
		b.m.set(func() {
			b.m.noObject, b.m.noSvid = true, true
			b.m.before = func(proc uint32) error {
				if proc == nlm4.ProcTest {
					if tests++; tests == 2 {
						b.m.bytes[0] = map[modelOwner]bool{}
					}
				}
				return nil
			}
		})
		time.Sleep(checkEvery + checkEvery/2)
		b.Locks.mu.Lock()
		if n := len(b.ownersWithLocks()); n != 0 {
			b.Error("the lock is believed to be held")
		}
		b.Locks.mu.Unlock()
		if lines := b.logged(); len(lines) == 0 {
			b.Error("nothing is said of the lost lock")
		}
		other.Close(context.Background())
	})
}

// If the server did not restart, it names the holders in its replies. Linux's server omits their
// object, and returns the number of one of its threads as svid.
func TestLostConnectionLosesNoLocks(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		for without := range 3 {
			b.m.set(func() {
				b.m.noObject, b.m.noSvid = without > 0, without > 1
				b.m.connects++
			})
			time.Sleep(time.Minute)
			b.held(all)
			b.compare()
		}
		if lines := b.logged(); len(lines) != 0 {
			b.Errorf("logged %q", lines)
		}
	})
}

// The first connection does not count as a restart: no lock is reclaimed or tested.
func TestFirstConnectionIsNoRestart(t *testing.T) {
	simulate(t, func(b *bench) {
		b.m.set(func() {
			b.m.connects = 0
			b.m.before = func(uint32) error {
				b.m.connects = 1
				return nil
			}
		})
		b.want(b.lock(1, 0, 3, true), 0)
		time.Sleep(probeEvery - time.Second)
		if n := b.m.count(); n != 1 {
			b.Errorf("%d calls for one lock", n)
		}
	})
}

// While an UNLOCK waits for the end of the grace period, other owners' locks are still reclaimed,
// before and after it.
func TestUnlockDuringGrace(t *testing.T) {
	for owner, left := range map[uint64]string{1: "------1111", 2: "xxxx--11"} {
		simulate(t, func(b *bench) {
			b.takeSome()
			b.m.restart(45 * time.Second)
			ended := make(chan error)
			go func() { ended <- b.Unlock(context.Background(), testFH, Key{ID: owner}, 0, lastByte) }()
			time.Sleep(2 * probeEvery)
			b.held(left)
			b.want(<-ended, 0)
			b.held(left)
			b.compare()
		})
	}
}

// An UNLOCK of a part does not delay the reclaim of the owner's other locks.
func TestUnlockOfAPartDuringGrace(t *testing.T) {
	simulate(t, func(b *bench) {
		b.takeSome()
		b.m.restart(45 * time.Second)
		ended := make(chan error)
		go func() { ended <- b.Unlock(context.Background(), testFH, Key{ID: 1}, 2, 6) }()
		time.Sleep(2 * probeEvery)
		b.held("xx----1211")
		b.want(<-ended, 0)
		time.Sleep(time.Minute)
		b.held("xx----1211")
		b.compare()
		if lines := b.logged(); len(lines) != 0 {
			b.Errorf("logged %q", lines)
		}
	})
}

// Close waits for a silent server no longer than its context.
func TestSilentServerAtTheEnd(t *testing.T) {
	simulate(t, func(b *bench) {
		b.takeSome()
		b.m.hangUp()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begun := time.Now()
		b.Close(ctx)
		if d := time.Since(begun); d != time.Minute {
			b.Errorf("the end took %v", d)
		}
	})
}

// Without locks the watch ends, and no calls are sent.
func TestNothingRunsWithoutLocks(t *testing.T) {
	simulate(t, func(b *bench) {
		b.takeSome()
		b.unlock(1, 0, lastByte)
		b.unlock(2, 0, lastByte)
		time.Sleep(2 * probeEvery)
		n := b.m.count()
		time.Sleep(time.Hour)
		if now := b.m.count(); now != n {
			b.Errorf("%d calls without locks", now-n)
		}
		if got := testing.AllocsPerRun(100, func() {
			_ = b.Release(context.Background(), testFH, Key{ID: 1})
			b.ReleaseHandle(context.Background(), testFH, 1)
		}); got != 0 {
			b.Errorf("a close without locks allocates %v times", got)
		}
	})
}
