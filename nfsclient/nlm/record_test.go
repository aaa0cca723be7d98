// Crashes of this machine, and the mounts after them.

package nlm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A teller is who the server is told by.
type teller struct {
	b   *bench
	dir string

	mu    sync.Mutex // guards all below
	told  []record   // without Boot
	early bool       // all was told before any call of locks
	fail  error
	hold  chan struct{} // not nil: it takes until its end
}

// mount is a mount in one start of the machine.
func (r *teller) mount(boot string) *Locks {
	l := New(Options{Server: r.b.m, Name: "host", Log: r.b.log, Stable: &Stable{Dir: r.dir, Peer: "server", Boot: boot,
		Restarted: func(ctx context.Context, name string, state int32) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.hold != nil {
				select {
				case <-r.hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			r.told = append(r.told, record{Name: name, State: state})
			r.early = r.b.m.count() == 0
			return r.fail
		}}})
	synctest.Wait()
	return l
}

// crash ends a mount as the machine does.
func (l *Locks) crash() {
	l.end()
	l.work.Wait()
	if l.record != nil {
		l.record.Close()
	}
}

func (r *teller) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.told)
}

func (r *teller) take(l *Locks, at uint64) {
	r.b.Helper()
	r.b.want(l.Lock(context.Background(), nil, request(1, at, at, true)), 0)
}

// left fails the test unless the directory has want files.
func (r *teller) left(want int) {
	r.b.Helper()
	if list, err := os.ReadDir(r.dir); err != nil || len(list) != want {
		r.b.Errorf("%d files, %v, want %d", len(list), err, want)
	}
}

func simulateCrashes(t *testing.T, test func(r *teller)) {
	dir := t.TempDir()
	simulate(t, func(b *bench) { test(&teller{b: b, dir: dir}) })
}

// TestServerIsToldOfACrash once, by the first mount of the next start, with a number that grows; and neither of the end of a process
// nor of a mount.
func TestServerIsToldOfACrash(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		idle := r.mount("1")
		r.left(0) // nothing was locked
		killed := r.mount("1")
		r.take(killed, 0)
		r.left(1)
		killed.crash()
		again := r.mount("1")
		r.take(again, 1)
		if n := r.count(); n != 0 {
			r.b.Errorf("told %d times in one start", n)
		}
		again.crash()
		idle.crash()

		r.b.m.set(func() { r.b.m.calls = 0 })
		first, second := r.mount("2"), r.mount("2")
		if r.count() != 1 || r.told[0].Name != "host" || r.told[0].State%2 != 1 || !r.early {
			r.b.Fatalf("told %+v, before any call: %v", r.told, r.early)
		}
		r.take(first, 2)
		r.take(second, 3)
		first.Close(context.Background())
		r.left(1)
		second.crash()
		third := r.mount("3")
		if r.count() != 2 || r.told[1].State <= r.told[0].State || r.told[1].State%2 != 1 {
			r.b.Errorf("told %+v", r.told)
		}
		r.take(third, 4)
		third.Close(context.Background())
		r.left(0)
		last := r.mount("4")
		r.take(last, 5)
		last.Close(context.Background())
		if n := r.count(); n != 2 {
			r.b.Errorf("told %d times, the last after a mount that ended", n)
		}
	})
}

// TestNoLockBeforeTheServerIsTold: it would be freed as well. Who is interrupted does not wait for that.
func TestNoLockBeforeTheServerIsTold(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		l := r.mount("1")
		r.take(l, 0)
		l.crash()
		r.hold = make(chan struct{})
		first, second := r.mount("2"), r.mount("2")
		before, stop := r.b.m.count(), make(chan struct{})
		interrupted := waitFor(context.Background(), first, stop, request(1, 7, 7, true))
		taken := waitFor(context.Background(), second, nil, request(1, 8, 8, true))
		time.Sleep(notifyMost / 2)
		close(stop)
		r.b.want(<-interrupted, syscall.EINTR)
		if n := r.b.m.count(); n != before {
			r.b.Errorf("%d calls before the server is told", n-before)
		}
		close(r.hold)
		r.b.want(<-taken, 0)
		if n := r.count(); n != 1 {
			r.b.Errorf("told %d times", n)
		}
		first.Close(context.Background())
		second.Close(context.Background())
	})
}

// TestServerThatCannotBeTold: locks work, the log has a line, and the next mount that is alone tries again; one beside others
// with locks does not.
func TestServerThatCannotBeTold(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		l := r.mount("1")
		r.take(l, 0)
		l.crash()
		r.fail = errors.New("no answer")
		first := r.mount("2")
		r.take(first, 1)
		if lines := r.b.logged(); len(lines) != 1 {
			r.b.Errorf("logged %q", lines)
		}
		begun := time.Now()
		second := r.mount("2")
		r.take(second, 2)
		if d := time.Since(begun); d > time.Second {
			r.b.Errorf("the lock took %v", d)
		}
		if n := r.count(); n != 1 {
			r.b.Errorf("told %d times while there are locks", n)
		}
		first.Close(context.Background())
		second.Close(context.Background())
		r.left(1)
		r.fail = nil
		third := r.mount("2")
		if n := r.count(); n != 2 {
			r.b.Errorf("told %d times", n)
		}
		r.take(third, 3)
		third.Close(context.Background())
		r.left(0)
	})
}

// TestRecordThatWasNotWritten to its end is of a mount that had no lock yet; and without a directory locks work.
func TestRecordThatWasNotWritten(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		path := filepath.Join(r.dir, "server-server")
		for _, text := range []string{"", `{"Name":"ho`} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				r.b.Fatal(err)
			}
			l := r.mount("2")
			r.take(l, 1)
			if n := r.count(); n != 0 {
				r.b.Errorf("%q: told %d times", text, n)
			}
			l.Close(context.Background())
		}
		r.dir = filepath.Join(r.dir, "none")
		l := r.mount("2")
		r.take(l, 1)
		r.take(l, 2)
		if lines := r.b.logged(); len(lines) != 1 {
			r.b.Errorf("logged %q", lines)
		}
		l.Close(context.Background())
	})
}
