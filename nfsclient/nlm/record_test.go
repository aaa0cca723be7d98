// Crashes of this machine, and the mounts after them.

package nlm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A teller records the crash notices that mounts send to servers.
type teller struct {
	b   *bench
	dir string

	mu    sync.Mutex // guards the fields below
	told  []record   // the notices' records, without Boot
	peers []string   // the servers that received notices
	early bool       // all notices came before any lock call
	fail  error
	only  string        // the server whose notices fail; "": any
	hold  chan struct{} // not nil: a notice waits until hold is closed
}

// mount returns a mount that is made in one boot of the machine.
func (r *teller) mount(boot string) *Locks { return r.mountAt(boot, "server") }

// mountAt is like mount, with one of the server's addresses.
func (r *teller) mountAt(boot, address string) *Locks { return r.mountIn("net", boot, address) }

// mountIn is like mountAt, in the network namespace net.
func (r *teller) mountIn(net, boot, address string) *Locks {
	return r.mountOf(net, boot, func() string { return address })
}

// mountOf is like mountIn, for a server whose address changes.
func (r *teller) mountOf(net, boot string, peer func() string) *Locks {
	l := New(Options{Server: r.b.m, Name: "host", Log: r.b.log, Stable: &Stable{Dir: r.dir, Peer: peer, Boot: boot, Net: net,
		Restarted: func(ctx context.Context, peer, name string, state int32) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.hold != nil {
				select {
				case <-r.hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			r.told, r.peers = append(r.told, record{Name: name, State: state}), append(r.peers, peer)
			r.early = r.b.m.count() == 0
			if r.only != "" && r.only != peer {
				return nil
			}
			return r.fail
		}}})
	synctest.Wait()
	return l
}

// crash ends a mount as a crash of the machine does.
func (l *Locks) crash() {
	l.end()
	l.work.Wait()
	for _, file := range l.records {
		file.Close()
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

// left fails the test unless the directory has want records. The gate, a file for locking, does not
// count.
func (r *teller) left(want int) {
	r.b.Helper()
	if n := len((&Stable{Dir: r.dir}).records()); n != want {
		r.b.Errorf("%d files, want %d", n, want)
	}
}

func simulateCrashes(t *testing.T, test func(r *teller)) {
	dir := t.TempDir()
	simulate(t, func(b *bench) { test(&teller{b: b, dir: dir}) })
}

// The first mount after a reboot sends a crash notice once, with a growing number. The end of a
// process or of a mount sends none.
func TestCrashNoticeIsSentOnce(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		idle := r.mount("1")
		r.left(0) // no locks yet
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
		must.Equal(r.b, "number of notices", r.count(), 1)
		must.Equal(r.b, "name of the notice", r.told[0].Name, "host")
		must.Equal(r.b, "the notice's state is odd", r.told[0].State%2, 1)
		must.Equal(r.b, "the notice is before any call", r.early, true)
		r.take(first, 2)
		r.take(second, 3)
		first.Close(context.Background())
		r.left(1)
		second.crash()
		third := r.mount("3")
		must.Equal(r.b, "number of notices", r.count(), 2)
		if first, second := r.told[0].State, r.told[1].State; second <= first {
			r.b.Errorf("state %d after %d, want a higher one", second, first)
		}
		must.Equal(r.b, "the second notice's state is odd", r.told[1].State%2, 1)
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

// No lock comes before the crash notice, because the notice would free that lock. An interrupted
// program does not wait for the notice.
func TestNoLockBeforeTheCrashNotice(t *testing.T) {
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

// If the notice fails, locks work without it, and the log has a line. A later mount retries if no
// other mount has locks.
func TestServerWithoutCrashNotice(t *testing.T) {
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

// The first mount after a crash notifies all addresses before its first lock, and later mounts
// notify none.
func TestServerWithSeveralAddresses(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		for i, address := range []string{"one", "two", "three"} {
			l := r.mountAt("1", address)
			r.take(l, uint64(i))
			l.crash()
		}
		r.b.m.set(func() { r.b.m.calls = 0 })
		first := r.mountAt("2", "two")
		slices.Sort(r.peers)
		if !slices.Equal(r.peers, []string{"one", "three", "two"}) || !r.early {
			r.b.Errorf("told %v, before any call: %v", r.peers, r.early)
		}
		r.left(1) // the file of the mount's own server
		r.take(first, 10)
		for i, address := range []string{"one", "two", "three", "four"} {
			l := r.mountAt("2", address)
			r.take(l, uint64(12+i))
			l.Close(context.Background())
		}
		if n := r.count(); n != 3 {
			r.b.Errorf("told %d times, although there are locks", n)
		}
		first.Close(context.Background())
		r.left(0)
	})
}

// An address that did not answer is notified once no mount has locks any more, not while a mount
// has locks through another address.
func TestAddressThatDidNotAnswer(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		for i, address := range []string{"one", "two"} {
			l := r.mountAt("1", address)
			r.take(l, uint64(i))
			l.crash()
		}
		r.fail, r.only = errors.New("no answer"), "two"
		first := r.mountAt("2", "one")
		r.take(first, 10)
		r.fail = nil
		second := r.mountAt("2", "two")
		r.take(second, 11)
		if n := r.count(); n != 2 {
			r.b.Errorf("told %d times, although there are locks", n)
		}
		if lines := r.b.logged(); len(lines) != 2 {
			r.b.Errorf("logged %q", lines)
		}
		first.Close(context.Background())
		second.Close(context.Background())
		r.left(1)
		last := r.mountAt("2", "three")
		if n := r.count(); n != 3 || r.peers[2] != "two" {
			r.b.Errorf("told %v", r.peers)
		}
		last.Close(context.Background())
		r.left(0)
	})
}

// Mounts in other networks have no locks that a notice from this network would free.
func TestMountsOfOtherNetworks(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		l := r.mountAt("1", "one")
		r.take(l, 0)
		l.crash()
		other := r.mountIn("other", "2", "two")
		r.take(other, 1)
		for want, net := range []string{"other", "net"} {
			next := r.mountIn(net, "2", "one")
			if n := r.count(); n != want {
				r.b.Errorf("told %d times in network %s, want %d", n, net, want)
			}
			next.Close(context.Background())
		}
		third := r.mountAt("2", "two") // adds its network to the file of the other network's mount
		r.take(third, 2)
		if !third.sharesNet(other.records[0].Name()) || !other.sharesNet(other.records[0].Name()) {
			r.b.Error("a file does not say that mounts of both networks have it")
		}
		other.Close(context.Background())
		third.Close(context.Background())
	})
}

// A record that was written only in part belongs to a mount without locks. Without a directory for
// records, locks still work.
func TestRecordThatWasNotWritten(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		path := filepath.Join(r.dir, "server-server")
		for _, text := range []string{"", `{"Name":"ho`} {
			must.Succeed(r.b, os.WriteFile(path, []byte(text), 0o600))
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

// After a failover both servers are notified of the crash: the first may still have the locks, and
// the second has them now.
func TestServersOfAMountThatMoved(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		var at atomic.Pointer[string]
		be := func(address string) { at.Store(&address) }
		be("a")
		moving := r.mountOf("net", "1", func() string { return *at.Load() })
		r.take(moving, 0)
		r.left(1)
		be("b")
		r.b.m.move()
		time.Sleep(2 * probeEvery) // time to take existing locks again; no program takes a lock
		r.left(2)
		be("c")
		r.b.m.move()
		r.take(moving, 1)
		r.left(3)
		moving.crash()
		r.mountAt("2", "d").crash()
		if slices.Sort(r.peers); !slices.Equal(r.peers, []string{"a", "b", "c"}) {
			r.b.Errorf("told are %q", r.peers)
		}
		r.left(0)

		be("a")
		r.b.m.move() // the new server has no locks of the crashed mount
		ends := r.mountOf("net", "2", func() string { return *at.Load() })
		r.take(ends, 0)
		be("b")
		r.b.m.move()
		r.take(ends, 1)
		ends.Close(context.Background())
		r.left(1) // locks possibly left at the previous server
	})
}

// Mounts in many networks, as on a machine with many containers, are all in the file, and the whole
// file is read.
func TestMountsOfManyNetworks(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		stays := r.mount("1")
		r.take(stays, 0)
		for i := range 300 {
			l := r.mountIn(fmt.Sprintf("net:[%d]", 1<<32+i), "1", "server")
			r.take(l, 1)
			l.Close(context.Background())
		}
		stays.crash()
		r.mount("2").crash()
		if n := r.count(); n != 1 {
			r.b.Errorf("told %d times", n)
		}
	})
}

// However many servers do not answer, they delay the first lock for the same time, even if the
// mount's own server is among them.
func TestServersThatDoNotAnswer(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		const servers = 3 * notifyAtOnce
		for i := range servers {
			l := r.mountAt("1", fmt.Sprint("dead", i))
			r.take(l, uint64(i))
			l.crash()
		}
		var mu sync.Mutex
		now, most, told := 0, 0, map[string]bool{}
		mount := func() *Locks {
			return New(Options{Server: r.b.m, Name: "host", Log: r.b.log, Stable: &Stable{Dir: r.dir, Peer: func() string { return "dead0" }, Boot: "2", Net: "net",
				Restarted: func(ctx context.Context, peer, _ string, _ int32) error {
					mu.Lock()
					now++
					most = max(most, now)
					if ctx.Err() == nil {
						told[peer] = true
					}
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					now--
					mu.Unlock()
					return ctx.Err()
				}}})
		}
		l := mount()
		begun := time.Now()
		r.take(l, servers)
		if d := time.Since(begun); d > notifyOthers+notifyMost+time.Second {
			r.b.Errorf("the first lock took %v", d)
		}
		mu.Lock()
		first := len(told)
		if first < notifyAtOnce || most > notifyAtOnce {
			r.b.Errorf("%d servers are told, %d at once", first, most)
		}
		mu.Unlock()
		l.Close(context.Background())
		r.left(servers)

		// a second mount must reach the later servers, which silent ones would otherwise hide
		l = mount()
		r.take(l, servers)
		l.Close(context.Background())
		mu.Lock()
		defer mu.Unlock()
		if len(told) <= first {
			r.b.Errorf("of %d servers the same %d are told each time", servers, first)
		}
	})
}
