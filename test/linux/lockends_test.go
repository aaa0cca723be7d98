// Locks of two guests that end without their release: in a deadlock, with the server, or with a
// guest, which comes back or does not.

package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// marks reports whether a process has made this file: in the guest's share, or on this machine.
func (p *process) marks(name string) bool {
	_, err := os.Stat(p.here(name))
	return err == nil
}

// eachOther makes two processes wait for each other: on two guests, on one guest, and on a guest
// and this machine. One gets EDEADLK. The other has all its locks after that one has ended.
func (l *lockingAll) eachOther() {
	here, a, b := l.all[0], l.all[1], l.all[2]
	for _, pair := range [][2]*locking{{a, b}, {b, a}, {a, a}, {here, a}, {here, b}} {
		var both [2]*process
		var names [2]string
		for j, one := range pair {
			names[j] = one.mark("go")
			first := one.mark("first")
			both[j] = one.start(fmt.Sprintf("w %d 1 says %s await %s w %d 1", j, first, names[j], 1-j))
			comes(l.t, "the first lock of each", func() bool { return both[j].marks(first) })
		}
		for j, p := range both {
			must.Succeed(l.t, os.WriteFile(p.here(names[j]), nil, 0o644))
			if pair[j].onServer() { // a local process gets no error: the guest must be the second
				comes(l.t, "the program here waits", func() bool { return waits(l.t, p.pid) })
			}
		}
		comes(l.t, "one of two that wait for each other is told", func() bool { return both[0].told()+both[1].told() != "" })
		told, other := both[0], both[1]
		if told.told() == "" {
			told, other = other, told
		}
		if got := told.told(); got != "resource deadlock avoided" {
			l.t.Errorf("%s is told %q", told.l.name(), got)
		}
		comes(l.t, "the other has all", other.has)
		l.t.Logf("%s and %s: %s was told", pair[0].name(), pair[1].name(), told.l.name())
		other.end()
		l.free()
	}
}

// waits reports whether a process here waits for a lock (proc_locks(5)).
func waits(t *testing.T, pid string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 5 && f[1] == "->" && f[5] == pid {
			return true
		}
	}
	return false
}

// tooLate kills a server. One guest reclaims its lock in time. The other is not notified and comes
// too late: another client keeps the lock that it has taken meanwhile.
func (l *lockingAll) tooLate(s *server) {
	a, b := l.all[1], l.all[2]
	first, second := a.start("w 0 10"), b.start("w 20 10")
	comes(l.t, "the first lock", first.has)
	comes(l.t, "the second lock", second.has)
	b.run("kill -STOP $(cat /run/rpc.statd.pid)")
	s.kill()
	if l.here.taken() {
		l.t.Error("a server that was killed has a lock")
	}
	s.start()
	comes(l.t, "what is reclaimed", func() bool { return l.here.has(0, 10) })
	began := time.Now()
	third := a.start("w 20 10")
	comes(l.t, "another has, after the period of grace, what was not reclaimed", third.has)
	l.t.Logf("it had it after %v", time.Since(began).Round(time.Second))
	if third.told() != "" || !l.here.has(0, 10) {
		l.t.Error("what was reclaimed is not there after the period of grace")
	}
	b.run("kill -CONT $(cat /run/rpc.statd.pid)")
	comes(l.t, "the server logs who is too late", func() bool { return strings.Contains(s.log.String(), "too late") })
	comes(l.t, "the kernel logs that its lock is lost", func() bool {
		return strings.Contains(b.run("dmesg"), "lockd: failed to reclaim lock")
	})
	second.end() // also releases the lock that it does not have
	first.end()
	comes(l.t, "what was reclaimed is released", func() bool { return !l.here.has(0, 10) })
	if !l.here.has(20, 10) {
		l.t.Error("who was too late has released another's lock")
	}
	third.end()
	l.free()
}

// crash kills a guest. Its locks stay until it has started again, when its sm-notify reports that.
func (l *lockingAll) crash(s *server) {
	a, b := l.all[1], l.all[2]
	before, series := b.g, "6.12"
	b.start("w 0 10")
	comes(l.t, "the lock of who will crash", func() bool { return l.here.has(0, 10) })
	b.run("tar -c -f /share/nsm.tar -C /var/lib nfs/sm nfs/state")
	state, err := os.ReadFile(filepath.Join(before.Share, "nsm.tar"))
	if err != nil {
		l.t.Fatalf("os.ReadFile: %v", err)
	}
	before.Kill()
	forget(before)
	waiter := a.start("w 5 1")
	b.g = clientOn(l.t, series, before.Device)
	if b.g.Guest != before.Guest {
		l.t.Fatalf("the guest had address %s, and has %s", before.Guest, b.g.Guest)
	}
	if !l.here.has(0, 10) || waiter.has() {
		l.t.Error("what a guest has locked is free before it says that it has started again")
	}
	must.Succeed(l.t, os.WriteFile(filepath.Join(b.g.Share, "nsm.tar"), state, 0o644))
	lockUp(l.t, b.g)
	notify := fromHost(l.t, b.g, "sm-notify")
	b.run("tar -x -f /share/nsm.tar -C /var/lib; rm /share/nsm.tar; " + notify)
	began := time.Now()
	comes(l.t, "who waited has what the guest had before its crash", waiter.has)
	l.t.Logf("who waited had the lock %v after the guest had started again", time.Since(began).Round(time.Millisecond))
	if !strings.Contains(s.log.String(), "locks lost: their client has started again") {
		l.t.Error("the server has not logged it")
	}
	waiter.end()
	l.free()
	run(l.t, b.g, "mount -t nfs -o vers=3,proto=tcp "+b.g.Host+":/export /mnt")
}

// gone tests a guest that has sent no call for many times --locks-gone, while others wait for its
// locks. While its machine answers, it keeps its lock, with a connection and without. Killed
// permanently, so that nothing answers at its address, it loses the lock to the waiter.
func (l *lockingAll) gone(s *server) {
	a, b := l.all[1], l.all[2]
	b.start("w 0 10")
	comes(l.t, "the lock of who will be gone", func() bool { return l.here.has(0, 10) })
	waiter := a.start("w 5 1")
	connected := func() bool {
		return strings.Contains(shell(l.t, program(l.t, "cmd/nfsrdmad")+" clients --json --control "+s.control), `"`+b.g.Guest+`:`)
	}
	if !connected() {
		l.t.Error("the server has no connection of who has just locked something")
	}
	began := time.Now()
	// Its connections end. With NFSRDMA_FULL=1 Linux ends them as idle after 5 minutes. Otherwise
	// none of their packets reaches the server any more, which gives the connections up after 150
	// s. Until then the server does not probe the machine, because a connection proves enough.
	if !full {
		// ip alone would be busybox's
		b.run("/bin/ip rule add to " + b.g.Host + " dport 2049 prohibit")
	}
	comes(l.t, "the connections of who is idle have ended", func() bool {
		time.Sleep(time.Second)
		return !connected()
	})
	// meanwhile the server probes the machine three times, and would free the lock without an
	// answer
	time.Sleep(100 * time.Second)
	if waiter.has() || !l.here.has(0, 10) || strings.Contains(s.log.String(), lostToGone) {
		l.t.Error("a client whose machine answers has lost its lock")
	}
	l.t.Logf("a client that is idle has had its lock for %v", time.Since(began).Round(time.Second))
	if full { // now with connections that are there when the machine ends
		b.run("cat /mnt/lock")
	}
	b.g.Kill()
	began = time.Now()
	comes(l.t, "who waited has the lock of a guest that is gone", waiter.has)
	l.t.Logf("who waited had the lock %v after the guest was gone", time.Since(began).Round(time.Second))
	if !strings.Contains(s.log.String(), lostToGone) {
		l.t.Error("the server has not logged that a client that is gone has lost its lock")
	}
	forget(b.g)
	l.all = l.all[:2]
	waiter.end()
	l.free()
}

// lostToGone is the server's log line.
const lostToGone = "locks lost: others wait for them, and their client does not answer"
