// A mount that the kernel requests when a program first enters its directory, as with
// x-systemd.automount.

package mount

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// Messages from and to the kernel's autofs (linux/auto_fs.h).
const (
	autofsPacket  = 304 // bytes of an autofs_v5_packet, its padding included
	autofsToken   = 8   // offset of the number of the request
	autofsMissing = 5   // type of a packet: the directory is waited for (direct mount)
	autofsReady   = 0x9360
	autofsFail    = 0x9361
	autofsEnd     = 0x9362
	autoLimit     = 2 * time.Minute // for each mount
)

// An autoPoint is a directory that nothing is mounted on until a program enters it.
type autoPoint struct {
	dir   string
	pipe  *os.File // of requests
	root  int      // the directory under the future mount
	token int      // of the last request
}

// newAutoPoint does systemd's work for an automount unit. Processes in this process's group do not
// trigger it, and do not wait for the mount: systemd has mount(8) in its own.
func newAutoPoint(t *testing.T) *autoPoint {
	t.Helper()
	a := &autoPoint{dir: tempDir(t, "auto")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	a.pipe = r
	t.Cleanup(func() { r.Close() })
	err = unix.Mount("systemd-1", a.dir, "autofs", 0, fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", w.Fd(), unix.Getpgrp()))
	w.Close()
	if errors.Is(err, unix.ENODEV) {
		machine.Skip(t, "this kernel has no autofs")
	}
	if err != nil {
		t.Fatalf("unix.Mount: %v", err)
	}
	t.Cleanup(func() {
		unmount(t, a.dir)
		if err := unix.Unmount(a.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unix.Unmount: %v", err)
		}
	})
	if a.root, err = unix.Open(a.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatalf("unix.Open: %v", err)
	}
	t.Cleanup(func() { a.release(); unix.Close(a.root) })
	return a
}

// request waits until a program enters the directory.
func (a *autoPoint) request(t *testing.T) {
	t.Helper()
	p := make([]byte, autofsPacket)
	if n, err := a.pipe.Read(p); n != len(p) {
		t.Fatalf("%d bytes of autofs, %v", n, err)
	}
	if kind := binary.NativeEndian.Uint32(p[4:]); kind != autofsMissing {
		t.Fatalf("autofs asks for %d", kind)
	}
	a.token = int(binary.NativeEndian.Uint32(p[autofsToken:]))
}

// answer lets the waiters go on.
func (a *autoPoint) answer(t *testing.T, how uint) {
	t.Helper()
	if err := unix.IoctlSetInt(a.root, how, a.token); err != nil {
		t.Errorf("unix.IoctlSetInt: %v", err)
	}
}

// release ends all waiting for the mount.
func (a *autoPoint) release() { _ = unix.IoctlSetInt(a.root, autofsEnd, 0) }

// outside returns a command in another process group, which triggers the mount like any program.
func outside(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestAutomount: the first program that enters an automount point waits for the mount, and is then
// in it. Neither the helper nor the process that it leaves in the background waits for the mount
// that they make.
func TestAutomount(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("served"), 0o644))
	a := newAutoPoint(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	helper := func(options string) (string, int) {
		line := []string{"127.0.0.1:/export", a.dir, "-o", "rw,noauto,nofail,_netdev,x-systemd.automount,x-systemd.idle-timeout=60," + options}
		// programs that wait for autofs can hardly be killed
		stuck := time.AfterFunc(autoLimit, a.release)
		defer stuck.Stop()
		return command(t, "", nil, filepath.Join(rig.bin, "mount.nfsrdma"), line...)
	}
	enter := func() (read func() (string, error)) {
		var out strings.Builder
		cmd := outside(ctx, "cat", filepath.Join(a.dir, "f"))
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatalf("cmd.Start: %v", err)
		}
		return func() (string, error) { err := cmd.Wait(); return out.String(), err }
	}

	read := enter()
	a.request(t)
	if out, code := helper("retry=0,port=1"); code != 32 {
		t.Errorf("a port that nobody listens on: status %d, %s", code, out)
	}
	a.answer(t, autofsFail)
	if out, err := read(); err == nil {
		t.Errorf("entered a mount that could not be made: %s", out)
	}

	read = enter()
	a.request(t)
	if out, code := helper(s.options("rdma")); code != 0 {
		t.Fatalf("status %d, %s", code, out)
	}
	a.answer(t, autofsReady)
	if out, err := read(); err != nil || out != "served" {
		t.Errorf("read %q, %v", out, err)
	}
}
