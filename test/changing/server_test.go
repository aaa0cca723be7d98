// Directories, mounts, addresses, state and descriptors that come and go under a server. Only the
// export or service without them is affected.

package changing

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// exportsFile writes an exports file with these directories, each exported to all hosts, and
// returns its path.
func exportsFile(t *testing.T, dirs ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exports")
	must.Succeed(t, os.WriteFile(file, []byte(strings.Join(dirs, " *(rw,insecure,no_root_squash)\n")+" *(rw,insecure,no_root_squash)\n"), 0o600))
	return file
}

// TestDirectoryAppears: a missing directory affects no other export, is logged once, and is served
// when it exists.
func TestDirectoryAppears(t *testing.T) {
	base := t.TempDir()
	there, late := filepath.Join(base, "there"), filepath.Join(base, "late")
	must.Succeed(t, os.Mkdir(there, 0o777))
	s := start(t, "", t.TempDir(), "--exports", exportsFile(t, there, late))
	s.mustWrite(there, "f")
	if _, err := s.mount(late); err == nil {
		t.Error("a missing directory is served")
	}
	must.Succeed(t, os.Mkdir(late, 0o777), os.WriteFile(filepath.Join(late, "f"), nil, 0o644))
	s.await("export of the directory", func() bool { return s.has(late, "f") })
	if n := strings.Count(s.said(), late+" does not exist"); n != 1 {
		t.Errorf("the log has the missing directory %d times, want once", n)
	}
}

// TestMountedOver: a file system mounted at an export's directory after the start is served, and
// nothing is written below it.
func TestMountedOver(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir := t.TempDir()
	s := start(t, "", t.TempDir(), "--exports", exportsFile(t, dir, t.TempDir()))
	s.mustWrite(dir, "below")
	before, err := s.mount(dir)
	must.Succeed(t, err)
	sh(t, "mount", "-t", "tmpfs", "disk", dir)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	s.await("export of the mounted file system", func() bool { return s.has(dir, "f") })
	s.mustWrite(dir, "above")
	if _, err := os.Stat(filepath.Join(dir, "above")); err != nil {
		t.Errorf("written elsewhere: %v", err)
	}
	if err := before.WriteFile(context.Background(), "late", []byte("x"), 0o644); err == nil {
		t.Error("a handle of the directory below still writes")
	}
}

// TestUnmountedByForce: nothing is written to a file system after a forced unmount, nor to the
// directory below. Clients wait, and go on when it is mounted again, or when a reload accepts that
// directory.
func TestUnmountedByForce(t *testing.T) {
	if !machine.Apart(t, "mkfs.ext4") {
		return
	}
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	must.Succeed(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20))
	sh(t, "mkfs.ext4", "-q", image)
	sh(t, "mount", "-o", "loop", image, dir)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s := start(t, "", t.TempDir(), "--exports", exportsFile(t, dir, t.TempDir()))
	s.mustWrite(dir, "f")
	open, err := s.mount(dir)
	must.Succeed(t, err)
	sh(t, "umount", "-l", dir)
	s.await("end of the export", func() bool { _, err := s.mount(dir); return err != nil })
	s.await("end of the file system", func() bool {
		out, err := exec.Command("losetup", "-j", image).Output()
		return err == nil && len(out) == 0
	})
	written := make(chan error, 1)
	go func() { written <- open.WriteFile(context.Background(), "waited", []byte("content"), 0o644) }()
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("below the file system: %v, %v, want nothing", list, err)
	}
	sh(t, "mount", "-o", "loop", image, dir)
	s.await("export of the file system", func() bool { return s.has(dir, "f") })
	if err := <-written; err != nil {
		t.Errorf("a call that has waited: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "waited")); err != nil {
		t.Errorf("the call that has waited wrote elsewhere: %v", err)
	}

	sh(t, "umount", "-l", dir)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "instead"), nil, 0o644))
	s.await("end of the export", func() bool { _, err := s.mount(dir); return err != nil })
	s.reload()
	s.await("export of the directory below", func() bool { return s.has(dir, "instead") })
}

// TestReloadAfterARefusedOne: a refused reload leaves an export from the command line as it was, so
// the next reload accepts the directory below its unmounted file system.
func TestReloadAfterARefusedOne(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir, other := t.TempDir(), t.TempDir()
	sh(t, "mount", "-t", "tmpfs", "disk", dir)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	file := exportsFile(t, other)
	s := start(t, "", t.TempDir(), "--exports", file, dir)
	s.mustWrite(dir, "f")
	sh(t, "umount", "-l", dir)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "instead"), nil, 0o644))
	s.await("end of the export", func() bool { _, err := s.mount(dir); return err != nil })
	good, err := os.ReadFile(file)
	must.Succeed(t, err)
	wrong, err := os.ReadFile(exportsFile(t, other, filepath.Join(other, "missing")))
	must.Succeed(t, err, os.WriteFile(file, wrong, 0o600))
	if out, err := exec.Command(program, "reload", "--control", filepath.Join(s.dir, "control")).CombinedOutput(); err == nil {
		t.Errorf("reload of a missing directory: %s, want an error", out)
	}
	if s.has(dir, "instead") {
		t.Error("after a refused reload the directory below is served")
	}
	must.Succeed(t, os.WriteFile(file, good, 0o600))
	s.reload()
	s.await("export of the directory below", func() bool { return s.has(dir, "instead") })
}

// TestHangupsWhileTheServerEnds: SIGHUP does not kill a server that SIGTERM ends.
func TestHangupsWhileTheServerEnds(t *testing.T) {
	for range 10 {
		s, ended := start(t, "", t.TempDir(), t.TempDir()), make(chan struct{})
		go func() {
			s.end()
			close(ended)
		}()
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			default:
				_ = s.cmd.Process.Signal(syscall.SIGHUP)
			}
		}
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the server ended with %v, want 0", s.cmd.ProcessState)
		}
	}
}

// TestAddressAppears: a server starts at an address that does not exist yet, and serves it when it
// exists.
func TestAddressAppears(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir := t.TempDir()
	s := start(t, "", t.TempDir(), "--addr", "192.0.2.1", dir)
	s.addr = strings.Replace(s.addr, "127.0.0.1", "192.0.2.1", 1)
	if n := strings.Count(s.said(), "192.0.2.1 is not an address of this machine"); n != 1 {
		t.Errorf("the log has the missing address %d times, want once", n)
	}
	sh(t, "ip", "address", "add", "192.0.2.1/32", "dev", "lo")
	s.mustWrite(dir, "f")
}

// TestStateDamaged: an empty or damaged file of clients with locks affects only the clients in it.
func TestStateDamaged(t *testing.T) {
	for _, content := range []string{"", "{", "null", `{"State":-5}`} {
		state, dir := t.TempDir(), t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(state, "locks.json"), []byte(content), 0o600))
		start(t, "", state, dir).mustWrite(dir, "f")
	}
}

// TestStateDirectoryFull: a server with a key starts without room for state. A server without a key
// does not start, because it cannot store a new one.
func TestStateDirectoryFull(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir, state := t.TempDir(), t.TempDir()
	sh(t, "mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "state", state)
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	full := filepath.Join(state, "full")
	fill := func() {
		f, err := os.Create(full)
		must.Succeed(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		must.Succeed(t, f.Close())
	}
	fill()
	out, err := exec.Command(program, "serve", "--rdma-port", "0", "--tcp-port", fmt.Sprint(machine.Port(t)), "--rpcbind", "off", "--state-dir", state,
		"--control", filepath.Join(t.TempDir(), "control"), dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "handle key") || !strings.Contains(string(out), "--ephemeral-key") {
		t.Errorf("without a key: %v, %s", err, out)
	}
	must.Succeed(t, os.Remove(full), os.WriteFile(filepath.Join(state, "handle.key"), make([]byte, 16), 0o600))
	fill()
	s := start(t, "", state, dir)
	s.mustWrite(dir, "f")
	s.end()
	if n := strings.Count(s.said(), "no client gets locks until"); n != 1 {
		t.Errorf("the log has the full directory %d times, want once: %s", n, s.said())
	}
	sh(t, "mount", "-o", "remount,ro", state)
	s = start(t, "", state, dir)
	s.mustWrite(dir, "g")
}

// TestDescriptorsRunOut: exports without descriptors fail alone, for that reason. They are served
// once other exports have released descriptors.
func TestDescriptorsRunOut(t *testing.T) {
	base, dirs := t.TempDir(), []string{}
	for i := range 300 {
		dir := filepath.Join(base, fmt.Sprint(i))
		must.Succeed(t, os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
		dirs = append(dirs, dir)
	}
	file := exportsFile(t, dirs...)
	s := start(t, "ulimit -n 512;", t.TempDir(), "--exports", file)
	var mounted, left []string
	for _, dir := range dirs {
		if _, err := s.mount(dir); err == nil {
			mounted = append(mounted, dir)
		} else {
			left = append(left, dir)
		}
	}
	if len(mounted) < 20 || len(left) < 50 {
		t.Fatalf("%d of %d exports are served", len(mounted), len(dirs))
	}
	log := s.said()
	if !strings.Contains(log, "no file descriptors are left") || strings.Contains(log, "by handle") || strings.Contains(log, "does not answer") {
		t.Errorf("the log gives other reasons: %s", log)
	}
	few := left[:min(len(left), len(mounted))/2]
	b, err := os.ReadFile(exportsFile(t, few...))
	must.Succeed(t, err, os.WriteFile(file, b, 0o600)) // removed exports release descriptors
	for range 64 {                                     // of the 128 that the exports leave
		conn, err := net.Dial("tcp", s.addr)
		must.Succeed(t, err)
		defer conn.Close()
	}
	s.reload()
	for _, dir := range few {
		s.await("export of "+dir, func() bool { return s.has(dir, "f") })
	}
}
