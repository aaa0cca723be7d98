// Locks by Linux's client at our server, beside a local program's.

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// fromHost puts a program of this machine into the guest, and returns the command.
func fromHost(t *testing.T, g *guest.Guest, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	command, err := g.FromHost(ctx, name)
	if errors.Is(err, exec.ErrNotFound) {
		machine.Skip(t, "needs "+name+" (Debian: nfs-common, util-linux)")
	}
	if err != nil {
		t.Fatalf("FromHost: %v", err)
	}
	return command
}

// lockUp starts rpcbind and rpc.statd in a guest, unless an earlier test has.
func lockUp(t *testing.T, g *guest.Guest) {
	t.Helper()
	statd := fromHost(t, g, "rpc.statd")
	run(t, g, "ip link set lo up; mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak; pidof rpcbind > /dev/null || rpcbind -w; [ -e /tmp/host/runs ] || { "+statd+" --no-notify && : > /tmp/host/runs; }")
}

// fileLock is an open file description of this machine, as an owner of locks.
type fileLock struct {
	t *testing.T
	f *os.File
}

func (l fileLock) set(typ int16, start, n int64) {
	l.t.Helper()
	must.Succeed(l.t, unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ, Start: start, Len: n}))
}

// taken reports whether another process has locked any part of the file.
func (l fileLock) taken() bool { return l.has(0, 0) }

// has reports whether another process has locked any of n bytes.
func (l fileLock) has(start, n int64) bool {
	k := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: n}
	must.Succeed(l.t, unix.FcntlFlock(l.f.Fd(), unix.F_OFD_GETLK, &k))
	return k.Type != unix.F_UNLCK
}

// TestLinuxLocks: guest processes, which mount without nolock, and a local program exclude one
// another. A waiter is granted its lock. Linux reclaims a lock after the server was killed. The
// lock is freed when Linux reports that it has started again.
func TestLinuxLocks(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		for _, proto := range []string{"rdma", "tcp"} {
			t.Run(series+"-"+proto, func(t *testing.T) { linuxLocks(t, series, proto) })
		}
	}
}

func linuxLocks(t *testing.T, series, proto string) {
	enter(t, series)
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	g := client(t, series)
	smNotify, flock := fromHost(t, g, "sm-notify"), fromHost(t, g, "flock")
	dir := exportDir(t)
	path := filepath.Join(dir, "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	here := fileLock{t, f}
	s := &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049,
		args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve"}}
	s.start()
	t.Cleanup(s.stop)
	lockUp(t, g)
	run(t, g, "mount -t nfs -o vers=3,proto="+proto+" "+g.Host+":/export /mnt")
	exists := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(g.Share, name))
			return err == nil
		}
	}
	for _, name := range []string{"first", "second", "release", "end"} {
		os.Remove(filepath.Join(g.Share, name))
	}
	signal := func(name string) {
		must.Succeed(t, os.WriteFile(filepath.Join(g.Share, name), nil, 0o644))
	}
	here.set(unix.F_WRLCK, 5, 10)
	if out := run(t, g, flock+" -n /mnt/lock true && echo locked || echo refused"); !strings.Contains(out, "refused") {
		t.Errorf("beside a lock of a program here: %s", out)
	}
	// A guest process with the lock reports it in a host file, and goes on until another file
	// appears.
	hold := func(says, until string) {
		run(t, g, fmt.Sprintf("setsid %s /mnt/lock sh -c ': > /share/%s; while [ ! -e /share/%s ]; do sleep 0.1; done' > /dev/null 2>&1 < /dev/null &", flock, says, until))
	}
	hold("first", "release")
	time.Sleep(2 * time.Second) // it must wait; without waiting, the lock would arrive at once
	if exists("first")() {
		t.Error("a guest has the lock of a program here")
	}
	began := time.Now()
	here.set(unix.F_UNLCK, 0, 0)
	comes(t, "the guest has what the program here has released", exists("first"))
	t.Logf("the guest had the lock after %v", time.Since(began).Round(time.Millisecond))
	if !here.taken() {
		t.Error("a program here can lock what the guest has")
	}
	hold("second", "end")
	time.Sleep(2 * time.Second)
	if exists("second")() {
		t.Error("two processes of the guest have the lock")
	}
	began = time.Now()
	signal("release")
	comes(t, "the second process has what the first has released", exists("second"))
	t.Logf("the second process had the lock after %v", time.Since(began).Round(time.Millisecond))

	s.kill()
	if here.taken() {
		t.Error("a server that was killed has a lock")
	}
	s.start()
	comes(t, "Linux has reclaimed the lock", here.taken)

	run(t, g, smNotify+" -f; true")
	comes(t, "the lock is free after NOTIFY", func() bool { return !here.taken() })
	signal("end")
	run(t, g, "cd /; n=0; until umount /mnt; do n=$((n + 1)); [ $n -lt 3000 ] || exit 1; sleep 0.2; done")
	quiet(t, g, reconnects...)
}

// comes waits until a condition holds.
func comes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(scriptTime); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
