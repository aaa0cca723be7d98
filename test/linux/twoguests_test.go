// Locks of two guests and of a program here, on one file.

package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A locking is who locks the file: processes of a guest, or of this machine where g is nil.
type locking struct {
	t       *testing.T
	g       *guest.Guest
	path    string // of the file
	command string
	count   *int // of the files by which processes and the test speak
}

func (l *locking) name() string {
	if l.g == nil {
		return "here"
	}
	return l.g.Guest
}

// A process is one that locks, waits where it must, and ends when it is told to.
type process struct {
	l          *locking
	says, ends string // files
	pid        string
}

// start starts a process with steps of locker(), "says" and "ends" after them.
func (l *locking) start(steps string) *process {
	l.t.Helper()
	*l.count++
	dir := "/share"
	if l.g == nil {
		dir = l.t.TempDir()
	}
	p := &process{l: l, says: fmt.Sprintf("%s/says-%d", dir, *l.count), ends: fmt.Sprintf("%s/ends-%d", dir, *l.count)}
	line := fmt.Sprintf("setsid %s %s hold %s says %s await %s > /dev/null 2>&1 < /dev/null & echo $!", l.command, l.path, steps, p.says, p.ends)
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

// here is a file of the guest's /share, as this machine has it.
func (p *process) here(path string) string {
	if p.l.g == nil {
		return path
	}
	return filepath.Join(p.l.g.Share, filepath.Base(path))
}

// has reports whether the process has all that it wants.
func (p *process) has() bool {
	_, err := os.Stat(p.here(p.says))
	return err == nil
}

// end lets the process go.
func (p *process) end() {
	p.l.t.Helper()
	if err := os.WriteFile(p.here(p.ends), nil, 0o644); err != nil {
		p.l.t.Fatal(err)
	}
}

func (p *process) kill() { p.l.run("kill -9 " + p.pid) }

// A lockingAll is all who lock the file.
type lockingAll struct {
	t    *testing.T
	here fileLock
	all  []*locking // the first is of this machine
}

// TestTwoGuestsLock: a guest over RDMA, one with another kernel over TCP, and a program here, in each order: each kind of lock beside each, on bytes
// that overlap and that do not; who waits; and two that wait for each other, until one is killed.
func TestTwoGuestsLock(t *testing.T) {
	enter(t, "6.1", "6.12")
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	dir := exportDir(t)
	path := filepath.Join(dir, "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tool, count := program(t, "test/linux/cmd/locker"), new(int)
	l := &lockingAll{t, fileLock{t, f}, []*locking{{t: t, path: path, command: tool, count: count}}}
	for i, series := range []string{"6.1", "6.12"} {
		g := client(t, series)
		if i == 0 {
			s := &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049,
				args: []string{"--addr", "0.0.0.0", "--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve", "--state-dir", t.TempDir()}}
			s.start()
			t.Cleanup(s.stop)
		}
		lockUp(t, g)
		t.Cleanup(func() { // while the server is there: what stayed mounted would be stale for tests after this one
			if t.Failed() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, _ = g.Run(ctx, "pkill -9 locker; umount -f -l /mnt")
			}
		})
		run(t, g, "mount -t nfs -o vers=3,proto="+[]string{"rdma", "tcp"}[i]+" "+g.Host+":/export /mnt")
		l.all = append(l.all, &locking{t: t, g: g, path: "/mnt/lock", command: intoGuest(t, g, tool), count: count})
	}
	l.kinds()
	l.waiters()
	l.eachOther()
	for _, one := range l.all[1:] {
		run(t, one.g, "cd /; n=0; until umount /mnt; do n=$((n + 1)); [ $n -lt 100 ] || exit 1; sleep 0.2; done; rm -f /share/says-* /share/ends-* /share/one /share/two /share/go")
		quiet(t, one.g)
	}
}

// free waits until nobody has a lock.
func (l *lockingAll) free() {
	l.t.Helper()
	comes(l.t, "all is free", func() bool { return !l.here.taken() })
}

// kinds is each kind of lock beside each.
func (l *lockingAll) kinds() {
	for _, holder := range l.all {
		for _, kind := range []string{"r", "w"} {
			p := holder.start(kind + " 10 10")
			comes(l.t, "the first lock", p.has)
			want := "denied denied granted granted"
			if kind == "r" {
				want = "granted denied granted granted"
			}
			for _, other := range l.all {
				if other == holder {
					continue
				}
				got := strings.Join(strings.Fields(other.run(other.command+" "+other.path+" try r 15 5 w 15 10 r 20 0 w 20 0")), " ")
				if got != want {
					l.t.Errorf("%s beside %s of %s: %s, want %s", other.name(), kind, holder.name(), got, want)
				}
			}
			p.end()
			l.free()
		}
	}
}

// waiters is each who waits for each.
func (l *lockingAll) waiters() {
	for _, holder := range l.all {
		for _, waiter := range l.all {
			if waiter == holder {
				continue
			}
			first := holder.start("w 0 0")
			comes(l.t, "the first lock", first.has)
			second := waiter.start("w 5 1")
			time.Sleep(time.Second) // it shall wait, for what would come at once if it did not
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

// eachOther is two guests that wait for each other: neither is told, and when one is killed the other has all.
func (l *lockingAll) eachOther() {
	a, b := l.all[1], l.all[2]
	one := a.start("w 0 1 says /share/one await /share/go w 1 1")
	two := b.start("w 1 1 says /share/two await /share/go w 0 1")
	for p, name := range map[*process]string{one: "one", two: "two"} {
		comes(l.t, "the first lock of each", func() bool {
			_, err := os.Stat(p.here(name))
			return err == nil
		})
	}
	for _, g := range []*guest.Guest{a.g, b.g} {
		if err := os.WriteFile(filepath.Join(g.Share, "go"), nil, 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // neither shall come, of what would come at once
	if one.has() || two.has() {
		l.t.Error("of two that wait for each other one has all")
	}
	one.kill()
	comes(l.t, "the other has all when one is killed", two.has)
	two.end()
	l.free()
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
