// Linux's view of faults: the server killed, connections cut, and errors that must reach programs
// unchanged.

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// reconnects are the guest kernel's messages when its calls go unanswered for long, and when they
// are answered at last. It logs nothing about a broken connection alone.
var reconnects = []string{`nfs: server [0-9.]+ (not responding, still trying|OK)$`}

// background is a script that runs while the test goes on.
type background struct {
	t    *testing.T
	g    *guest.Guest
	ctx  context.Context
	done chan struct{} // closed at its end, when the two below are set
	out  string
	err  error
}

func start(t *testing.T, g *guest.Guest, script string) *background {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	b := &background{t: t, g: g, ctx: ctx, done: make(chan struct{})}
	go func() {
		defer cancel()
		b.out, b.err = g.Run(ctx, script)
		if ctx.Err() != nil {
			b.err = errors.Join(b.err, ctx.Err())
		}
		close(b.done)
	}()
	return b
}

// wait returns the output of the script, which must succeed.
func (b *background) wait() string {
	b.t.Helper()
	<-b.done
	if errors.Is(b.err, context.DeadlineExceeded) {
		forget(b.g)
	}
	if b.err != nil {
		b.t.Fatal(b.err)
	}
	return b.out
}

// until waits for a condition on the host. It fails if the script ends first.
func (b *background) until(what string, ok func() bool) {
	b.t.Helper()
	for !ok() {
		select {
		case <-b.done:
			b.wait()
			b.t.Fatalf("the script has ended before %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestConnectionCut: the RDMA connection is cut in the middle of a READ, a WRITE and a READDIR. The
// guest connects again and its operation goes on.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			enter(t, series)
			connectionCut(t, series)
		})
	}
}

func connectionCut(t *testing.T, series string) {
	dir := exportDir(t)
	want := pattern(16<<20, 5)
	write(t, filepath.Join(dir, "big"), want)
	const names = 5000
	many := manyNames(t, dir, names)
	g := client(t, series)
	s := serve(t, g, dir)
	fscheck := intoGuest(t, g, program(t, "test/linux/cmd/fscheck"))
	write(t, filepath.Join(g.Share, "want"), want)
	for _, c := range []struct {
		name   string
		d      tap.Direction
		after  int64
		script string
	}{
		{"READ", tap.ToClient, 3_333_333, "drop_caches; cmp /mnt/big /share/want"},
		{"WRITE", tap.ToServer, 3_333_333, "dd if=/share/want of=/mnt/new bs=1M conv=fsync 2>/dev/null && drop_caches && cmp /mnt/new /share/want"},
		{"READDIR", tap.ToClient, 150_000, fmt.Sprintf("drop_caches; %s -dir /mnt/%s -names %d", fscheck, many, names)},
	} {
		t.Run(c.name, func(t *testing.T) {
			tp, check := s.tapping(t)
			run(t, g, s.mountAt(tp.Port()))
			tp.CutAfter(c.d, c.after)
			run(t, g, c.script)
			if tp.Cuts() != 1 {
				t.Errorf("%d cuts", tp.Cuts())
			}
			run(t, g, "cat /mnt/hello.txt && "+unmount)
			check(wire.Want{CRC: true, ServerOurs: true, Cut: true})
			quiet(t, g, reconnects...)
		})
	}
	sameFile(t, filepath.Join(dir, "new"), want)
}

// TestErrors: errors of the server reach the guest's programs unchanged.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { failures(t, series) })
	}
}

func failures(t *testing.T, series string) {
	enter(t, series)
	says := func(t *testing.T, g *guest.Guest, script, want string) {
		t.Helper()
		if out := run(t, g, "("+script+") 2>&1; true"); !strings.Contains(out, want) {
			t.Errorf("%s says %q, want %q", script, out, want)
		}
	}
	t.Run("EROFS", func(t *testing.T) {
		g := client(t, series)
		s := serve(t, g, exportDir(t), "--read-only")
		run(t, g, s.mount("rdma", "")+"\ncat /mnt/hello.txt")
		for _, script := range []string{"echo x > /mnt/new", "rm -f /mnt/hello.txt", "mkdir /mnt/d", "mv /mnt/hello.txt /mnt/x", "ln -s a /mnt/l", "chmod 600 /mnt/hello.txt"} {
			says(t, g, script, "Read-only file system")
		}
		run(t, g, unmount)
	})
	t.Run("EACCES", func(t *testing.T) {
		g := client(t, series)
		dir := exportDir(t)
		write(t, filepath.Join(dir, "secret"), []byte("s"))
		must.Succeed(t, os.Chmod(filepath.Join(dir, "secret"), 0o600))
		if os.Geteuid() != 0 {
			t.Skip("the server must be root to act for others")
		}
		s := serve(t, g, dir)
		run(t, g, s.mount("rdma", ""))
		says(t, g, "su u1000 -c 'cat /mnt/secret'", "Permission denied")
		run(t, g, unmount)
	})
	t.Run("ESTALE", func(t *testing.T) {
		g := client(t, series)
		dir := exportDir(t)
		write(t, filepath.Join(dir, "gone"), pattern(100_000, 6))
		s := serve(t, g, dir)
		run(t, g, s.mount("rdma", ""))
		// A process holds the file open while the host removes it.
		run(t, g, "(exec 3< /mnt/gone; echo up > /run/held; while [ -e /run/held ]; do sleep 0.1; done; drop_caches; cat <&3 > /run/stale 2>&1; echo done >> /run/stale) > /dev/null 2>&1 & \nwhile [ ! -e /run/held ]; do sleep 0.1; done")
		must.Succeed(t, os.Remove(filepath.Join(dir, "gone")))
		says(t, g, "rm /run/held; while ! grep -q done /run/stale 2>/dev/null; do sleep 0.1; done; cat /run/stale", "Stale file handle")
		run(t, g, "rm -f /run/stale; "+unmount)
	})
	t.Run("ENOSPC", func(t *testing.T) {
		g := client(t, series)
		dir := smallDisk(t)
		s := serve(t, g, dir)
		run(t, g, s.mount("rdma", ""))
		says(t, g, "dd if=/dev/zero of=/mnt/full bs=1M count=12 conv=fsync", "No space left")
		run(t, g, "rm /mnt/full && echo fits > /mnt/small && sync && cat /mnt/small && "+unmount)
	})
	quiet(t, client(t, series))
}

// smallDisk mounts a tmpfs of 4 MB, which only root can.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=777"); err != nil {
		machine.Skip(t, fmt.Sprintf("a small disk to fill cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("syscall.Unmount: %v", err)
		}
	})
	return dir
}

// TestLinuxMountsUsOnTheWire: the traffic between Linux and us is correct, message by message.
// TestFileSemantics leaves out this kernel with this CRC mode.
func TestLinuxMountsUsOnTheWire(t *testing.T) {
	enter(t, "6.12")
	g := client(t, "6.12")
	s := serve(t, g, exportDir(t), "--crc", "on")
	run(t, g, s.mount("rdma", ""))
	checks(t, g, "-dir /mnt -run 'sizes|symlinks|names|truncate|rename|parallel'")
	run(t, g, unmount)
	run(t, g, s.mount("rdma", "nordirplus")+"\nls -la /mnt > /dev/null\n"+unmount)
	quiet(t, g)
}
