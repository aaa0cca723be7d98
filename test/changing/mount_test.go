// A mount as a process, and changes under it: the server's address, the host's name, the FUSE
// device.

package changing

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"golang.org/x/sys/unix"
)

// A mounted is a process of nfsrdma mount.
type mounted struct {
	dir string
	clk clock
}

// mountAt mounts an export of the server, by a name or address of its host, until the test ends.
func (s *server) mountAt(host, export, options string) *mounted {
	s.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	must.Succeed(s.T, err)
	if s.rdma != "" && strings.Contains(options, "rdma") {
		options += ",port=" + s.rdma + ",mountport=" + port
	} else {
		options += ",proto=tcp,port=" + port
	}
	return s.mountWith(host, export, options)
}

// mountWith mounts like mountAt, with exactly these options.
func (s *server) mountWith(host, export, options string) *mounted {
	s.Helper()
	m := &mounted{dir: s.TempDir(), clk: newClock(s.T)}
	cmd := exec.Command(client, "mount", "-f", "-o", options, host+":"+export, m.dir)
	cmd.Env = append(os.Environ(), m.clk.env())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	must.Succeed(s.T, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.Cleanup(func() {
		_ = unix.Unmount(m.dir, unix.MNT_DETACH)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if s.Failed() {
			s.Log(said.String())
		}
	})
	s.await("the mount", func() bool {
		select {
		case err := <-ended:
			ended <- err
			s.Fatalf("the mount has ended: %v: %s", err, said.String())
		default:
		}
		b, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && bytes.Contains(b, []byte(" "+m.dir+" "))
	})
	return m
}

func flock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }

// replace bind-mounts a new file with the content over one of the machine's files, until the test
// ends.
func replace(t *testing.T, path, content string) {
	t.Helper()
	own := filepath.Join(t.TempDir(), "own")
	must.Succeed(t, os.WriteFile(own, []byte(content), 0o644))
	must.Succeed(t, unix.Mount(own, path, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

// hosts returns an /etc/hosts with a name at an address.
func hosts(addr, name string) []byte {
	return fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", addr, name)
}

// TestServerMoves: a mount goes on after its server has moved to another address for its name.
func TestServerMoves(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	replace(t, "/etc/nsswitch.conf", "hosts: files\n")
	replace(t, "/etc/hosts", string(hosts("127.0.0.2", "moves.example")))
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			must.Succeed(t, os.WriteFile("/etc/hosts", hosts("127.0.0.2", "moves.example"), 0o644))
			dir, state, port, rdma := t.TempDir(), t.TempDir(), fmt.Sprint(machine.Port(t)), fmt.Sprint(machine.Port(t))
			startAt := func(addr string) *server {
				s := start(t, "", state, "--addr", addr, "--tcp-port", port, "--rdma-port", rdma, dir)
				s.addr, s.rdma = net.JoinHostPort(addr, port), rdma
				return s
			}
			first := startAt("127.0.0.2")
			m := first.mountAt("moves.example", dir, "proto="+proto)
			must.Succeed(t, os.WriteFile(filepath.Join(m.dir, "before"), []byte("content"), 0o644))
			first.end()
			must.Succeed(t, os.WriteFile("/etc/hosts", hosts("127.0.0.3", "moves.example"), 0o644))
			startAt("127.0.0.3")
			must.Succeed(t, os.WriteFile(filepath.Join(m.dir, "after"), []byte("content"), 0o644))
			if b, err := os.ReadFile(filepath.Join(dir, "after")); err != nil || string(b) != "content" {
				t.Errorf("on the server: %q, %v, want %q", b, err, "content")
			}
		})
	}
}

// TestHostNameChanges: a mount releases its locks under the host name under which it took them.
func TestHostNameChanges(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	runtime.LockOSThread() // the thread ends with the test, as it is in its own UTS namespace
	must.Succeed(t, unix.Unshare(unix.CLONE_NEWUTS), unix.Sethostname([]byte("before.example")))
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	s := start(t, "", t.TempDir(), dir)
	tree, err := s.mount(dir)
	must.Succeed(t, err)
	n, err := s.client.Lookup(t.Context(), tree.Root(), "f")
	must.Succeed(t, err)
	m := s.mountAt("127.0.0.1", dir, "actimeo=1")
	f, err := os.Open(filepath.Join(m.dir, "f"))
	must.Succeed(t, err)
	defer f.Close()
	must.Succeed(t, flock(f))
	if got := s.lock(n.FH, "other", 1); got != nlm4.Denied {
		t.Errorf("a lock beside that of the mount: %v, want %v", got, nlm4.Denied)
	}
	must.Succeed(t, unix.Sethostname([]byte("after.example")), unix.Flock(int(f.Fd()), unix.LOCK_UN))
	s.await("release of the lock", func() bool { return s.lock(n.FH, "other", 1) == nlm4.Granted })
}

// TestFUSEGone: an existing mount needs no right to open /dev/fuse. A new mount fails without this
// right, and succeeds once the right is back.
func TestFUSEGone(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir := t.TempDir()
	s := start(t, "", t.TempDir(), dir)
	m := s.mountAt("127.0.0.1", dir, "actimeo=1")
	must.Succeed(t, unix.Mount("/dev/fuse", "/dev/fuse", "", unix.MS_BIND, ""), unix.Mount("", "/dev/fuse", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NODEV, ""))
	must.Succeed(t, os.WriteFile(filepath.Join(m.dir, "f"), []byte("content"), 0o644))
	_, port, _ := net.SplitHostPort(s.addr)
	out, err := exec.Command(client, "mount", "-o", "proto=tcp,port="+port, "127.0.0.1:"+dir, t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/dev/fuse") {
		t.Errorf("a mount without /dev/fuse: %v, %s", err, out)
	}
	must.Succeed(t, unix.Unmount("/dev/fuse", 0))
	again := s.mountAt("127.0.0.1", dir, "actimeo=1")
	if b, err := os.ReadFile(filepath.Join(again.dir, "f")); err != nil || string(b) != "content" {
		t.Errorf("mounted again: %q, %v, want %q", b, err, "content")
	}
}
