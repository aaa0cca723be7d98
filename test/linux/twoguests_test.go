// Locks of two guests and of a program here, on one file.

package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A locking is a machine that locks the file: a guest, or this machine where g is nil.
type locking struct {
	t       *testing.T
	g       *guest.Guest
	mounted bool   // this machine locks through a mount of ours
	server  bool   // the guest runs the server
	path    string // of the file
	command string
	count   *int // counts the files for signals between processes and the test
}

func (l *locking) name() string {
	switch {
	case l.mounted:
		return "our mount"
	case l.g == nil:
		return "here"
	}
	return l.g.Guest
}

// onServer reports whether it locks the served file itself, and is no client.
func (l *locking) onServer() bool { return l.g == nil && !l.mounted || l.server }

// A process locks, waits for a lock if needed, and ends on request.
type process struct {
	l          *locking
	says, ends string // files: the process makes says when it has the lock, and awaits ends
	tells      string // the file for an error
	pid        string
}

// mark returns the path of a new file for signals between a process and the test.
func (l *locking) mark(name string) string {
	l.t.Helper()
	dir := "/share"
	if l.g == nil {
		dir = l.t.TempDir()
	}
	*l.count++
	return fmt.Sprintf("%s/mark-%d-%s", dir, *l.count, name)
}

// start starts locker with these steps. After them the process makes the file says, and waits for
// the file ends.
func (l *locking) start(steps string) *process {
	l.t.Helper()
	p := &process{l: l, says: l.mark("says"), ends: l.mark("ends"), tells: l.mark("tells")}
	line := fmt.Sprintf("setsid %s %s hold tells %s %s says %s await %s > /dev/null 2>&1 < /dev/null & echo $!", l.command, l.path, p.tells, steps, p.says, p.ends)
	p.pid = strings.TrimSpace(l.run(line))
	return p
}

func (l *locking) run(line string) string {
	l.t.Helper()
	if l.g == nil {
		return shell(l.t, line)
	}
	return run(l.t, l.g, line)
}

// here returns the path on this machine of a file in the guest's /share.
func (p *process) here(path string) string {
	if p.l.g == nil {
		return path
	}
	return filepath.Join(p.l.g.Share, filepath.Base(path))
}

// has reports whether the process has all its locks.
func (p *process) has() bool {
	_, err := os.Stat(p.here(p.says))
	return err == nil
}

// told returns the error that has ended the process; "": none.
func (p *process) told() string {
	b, _ := os.ReadFile(p.here(p.tells))
	return string(b)
}

// end makes the process end.
func (p *process) end() {
	p.l.t.Helper()
	must.Succeed(p.l.t, os.WriteFile(p.here(p.ends), nil, 0o644))
}

// A lockingAll is all machines that lock the file.
type lockingAll struct {
	t    *testing.T
	here interface { // the others' locks, as a program on the server's machine sees them
		taken() bool
		has(start, n int64) bool
	}
	all []*locking // the first is of this machine
}

// TestTwoGuestsLock: a guest over RDMA, one with another kernel over TCP, and a local program lock
// a file, in each order. Each kind of lock is tried beside each other kind, on overlapping and
// separate bytes, with waiters, and with two that wait for each other. Then a guest is killed, the
// server is, and a guest permanently.
func TestTwoGuestsLock(t *testing.T) {
	enter(t, "6.1", "6.12")
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	if peerName() != "" {
		lockAtForeign(t)
		return
	}
	dir := exportDir(t)
	path := filepath.Join(dir, "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	tool, count := program(t, "test/linux/cmd/locker"), new(int)
	l := &lockingAll{t, fileLock{t, f}, []*locking{{t: t, path: path, command: tool, count: count}}}
	var s *server
	for i, series := range []string{"6.1", "6.12"} {
		g := client(t, series)
		if i == 0 {
			s = &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049, control: filepath.Join(t.TempDir(), "control")}
			s.args = []string{"--addr", "0.0.0.0", "--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve", "--control", s.control}
			s.start()
			t.Cleanup(s.stop)
		}
		lockUp(t, g)
		endLocks(t, g)
		run(t, g, "mount -t nfs -o vers=3,proto="+[]string{"rdma", "tcp"}[i]+" "+g.Host+":/export /mnt")
		l.all = append(l.all, &locking{t: t, g: g, path: "/mnt/lock", command: intoGuest(t, g, tool), count: count})
	}
	l.kinds()
	l.waiters()
	l.eachOther()
	l.crash(s)
	l.all[2].command = intoGuest(t, l.all[2].g, tool)
	// Only from now on, because a guest in a restart can be silent for longer.
	s.args = append(s.args, "--locks-gone", "20s")
	l.tooLate(s)
	l.gone(s)
	for _, one := range l.all[1:] {
		unmountLocked(t, one.g)
	}
}

// endLocks ends, after a failure, the locking processes in a guest while the server is there: a
// remaining mount would be stale for later tests.
func endLocks(t *testing.T, g *guest.Guest) {
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, _ = g.Run(ctx, "pkill -9 locker; umount -f -l /mnt")
		}
	})
}

// unmountLocked unmounts in a guest whose processes have just ended.
func unmountLocked(t *testing.T, g *guest.Guest) {
	t.Helper()
	run(t, g, "cd /; n=0; until umount /mnt; do n=$((n + 1)); [ $n -lt 3000 ] || exit 1; sleep 0.2; done; rm -f /share/mark-*")
	quiet(t, g, reconnects...)
}

// free waits until no lock is left.
func (l *lockingAll) free() {
	l.t.Helper()
	comes(l.t, "all is free", func() bool { return !l.here.taken() })
}

// kinds tries each kind of lock beside each other kind. For clients a flock(2) lock covers all
// bytes. Clients do not see flock(2) locks of programs on this machine.
func (l *lockingAll) kinds() {
	const tries = " try r 15 5 w 15 10 r 20 0 w 20 0 R 0 0 W 0 0"
	wants := map[string]string{
		"r": "granted denied granted granted granted denied", "w": "denied denied granted granted denied denied",
		"R": "granted denied granted denied granted denied", "W": "denied denied denied denied denied denied",
	}
	for _, holder := range l.all {
		for _, kind := range []string{"r", "w", "R", "W"} {
			if holder.onServer() && kind < "a" {
				continue
			}
			p := holder.start(kind + " 10 10")
			comes(l.t, "the first lock", p.has)
			for _, other := range l.all {
				if other == holder {
					continue
				}
				want := strings.Fields(wants[kind])
				if other.onServer() {
					want[4], want[5] = "granted", "granted"
				}
				if got := strings.Fields(other.run(other.command + " " + other.path + tries)); !slices.Equal(got, want) {
					l.t.Errorf("%s beside %s of %s: %s, want %s", other.name(), kind, holder.name(), got, want)
				}
			}
			p.end()
			l.free()
		}
	}
}

// waiters makes each machine wait for a lock of each other machine.
func (l *lockingAll) waiters() {
	for _, holder := range l.all {
		for _, waiter := range l.all {
			if waiter == holder {
				continue
			}
			first := holder.start("w 0 0")
			comes(l.t, "the first lock", first.has)
			second := waiter.start("w 5 1")
			time.Sleep(time.Second) // it must wait; without waiting, the lock would arrive at once
			if second.has() {
				l.t.Errorf("%s has what %s has locked", waiter.name(), holder.name())
			}
			began := time.Now()
			first.end()
			comes(l.t, waiter.name()+" has what "+holder.name()+" has released", second.has)
			l.t.Logf("%s had it %v after %s was told to end", waiter.name(), time.Since(began).Round(time.Millisecond), holder.name())
			second.end()
			l.free()
		}
	}
}

// shell runs a line here.
func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}
