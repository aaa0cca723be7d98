// Trouble around a mount in use: servers that are killed, stopped or full, connections that are
// cut, mount processes that end.

package mount

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A running worker writes lines, and ends with its standard input.
type running struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner

	mu   sync.Mutex // guards last
	last string     // the last line
}

// startWorker starts a worker, and returns when it has written its first line.
func startWorker(t *testing.T, name string, args ...string) *running {
	t.Helper()
	r := &running{cmd: workerCmd(context.WithoutCancel(t.Context()), name, args...)}
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.lines = bufio.NewScanner(out)
	if !r.next() {
		t.Fatalf("worker %s wrote nothing: %v", name, r.cmd.Wait())
	}
	return r
}

// next waits for a line.
func (r *running) next() bool {
	ok := r.lines.Scan()
	if ok {
		r.mu.Lock()
		r.last = r.lines.Text()
		r.mu.Unlock()
	}
	return ok
}

// stop ends the worker, and returns its last line and how it ended.
func (r *running) stop() (string, error) {
	r.stdin.Close()
	for r.next() {
	}
	return r.last, r.cmd.Wait()
}

// progress reads lines until the worker is n records further: the server answers again.
func (r *running) progress(t *testing.T, n int) {
	t.Helper()
	for range n {
		if !r.next() || strings.HasPrefix(r.last, "FAIL") {
			t.Fatalf("the writer ended: %s", r.last)
		}
	}
}

// check stops the writer. It checks that all data that the writer knows to be stable is on the
// server's own disk.
func (r *running) check(t *testing.T, s *server, file string) {
	t.Helper()
	last, err := r.stop()
	if err != nil {
		t.Fatalf("the writer: %v, %s", err, last)
	}
	mustWork(t, "written", filepath.Join(s.dir, file), last)
}

// TestServerKilled: a server killed under a writer and started again loses nothing that fsync has
// acknowledged. The writer sees no error.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		w := startWorker(t, "writer", filepath.Join(dir, "killed"))
		for range scaled(2, 50) {
			w.progress(t, 5+rand.IntN(20))
			s.end(os.Kill)
			if err := s.start(); err != nil {
				t.Fatalf("start: %v", err)
			}
		}
		w.progress(t, 10)
		w.check(t, s, "killed")
	})
}

// TestServerStopped: programs wait for a stopped server. They can be killed meanwhile, and the
// others go on afterwards.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		w := startWorker(t, "writer", filepath.Join(dir, "stopped"))
		w.progress(t, 5)
		if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatalf("Signal: %v", err)
		}
		defer func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }()
		stuck := exec.Command("ls", "-l", dir+"/no-such-name")
		if err := stuck.Start(); err != nil {
			t.Fatalf("stuck.Start: %v", err)
		}
		// the server is away; nothing is measured
		time.Sleep(time.Duration(scaled(1, 60)) * time.Second)
		_ = stuck.Process.Kill()
		if err := stuck.Wait(); err == nil {
			t.Error("a program had an answer while the server was stopped")
		}
		if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatalf("Signal: %v", err)
		}
		w.progress(t, 20)
		w.check(t, s, "stopped")
	})
}

// TestSoft: with soft a program gets an error when the server does not answer in time.
func TestSoft(t *testing.T) {
	needMounts(t)
	for _, c := range []struct{ option, proto, want string }{{"soft", "rdma", "EIO"}, {"softerr", "tcp", "ETIMEDOUT"}} {
		t.Run(c.option, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			dir := s.mount(t, c.proto, "/export", c.option, "timeo=100", "retrans=1", "actimeo=0")
			mustWork(t, "touch", dir, "OK")
			s.end(os.Kill)
			mustWork(t, "touch", dir, c.want)
			if err := s.start(); err != nil {
				t.Fatalf("start: %v", err)
			}
		})
	}
}

// TestConnectionsCut: connections that break at random, also in the middle of a transfer, are made
// again. Programs do not notice.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			to := s.rdma
			if proto == "tcp" {
				to = s.tcp
			}
			p := newProxy(t, to)
			dir := s.mountBy(t, fmt.Sprintf("proto=%s,port=%d,mountport=%d", proto, p.port, s.tcp), "/export")
			w := startWorker(t, "writer", filepath.Join(dir, "cut-"+proto))
			for range scaled(5, 100) {
				w.progress(t, 1+rand.IntN(30))
				p.cut()
			}
			w.progress(t, 10)
			w.check(t, s, "cut-"+proto)
		})
	}
}

// TestMountProcessKilled: after its process is killed, a mount gives errors to its users and to a
// mount on top. Then umount clears it, and the directory can be mounted on again.
func TestMountProcessKilled(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		hold := startWorker(t, "hold", filepath.Join(dir, "held"))
		onServer, err := os.Create(filepath.Join(s.dir, "locked-"+filepath.Base(dir)))
		if err != nil {
			t.Fatalf("os.Create: %v", err)
		}
		defer onServer.Close()
		free := func() bool {
			lock := unix.Flock_t{Type: unix.F_WRLCK}
			err := unix.FcntlFlock(onServer.Fd(), unix.F_OFD_GETLK, &lock)
			return err == nil && lock.Type == unix.F_UNLCK
		}
		locker := exec.Command("flock", "--no-fork", filepath.Join(dir, filepath.Base(onServer.Name())), "sleep", "1000")
		if err := locker.Start(); err != nil {
			t.Fatalf("locker.Start: %v", err)
		}
		waitFor(t, "a lock of the mount", func() bool { return !free() })
		must.Succeed(t, syscall.Kill(processOf(t, dir), syscall.SIGKILL))
		_, _ = hold.stop() // its close fails
		_ = locker.Process.Kill()
		_ = locker.Wait()
		mustWork(t, "touch", dir, "ENOTCONN")
		options := s.options("tcp")
		if out, code := nfsrdma(t, "mount", "-o", options, "127.0.0.1:/export", dir); code != 32 || !strings.Contains(out, "nfsrdma umount "+dir) {
			t.Errorf("mounted over it: status %d, %s", code, out)
		}
		if out, _ := nfsrdma(t, "mount"); !strings.Contains(out, dir+" type fuse.nfsrdma (rw,nodev,relatime) - its process is gone") {
			t.Errorf("list: %s", out)
		}
		if out, code := nfsrdma(t, "umount", dir); code != 0 || !strings.Contains(out, "gone already") {
			t.Errorf("umount: status %d, %s", code, out)
		}
		if out, code := nfsrdma(t, "mount", "-o", options, "127.0.0.1:/export", dir); code != 0 {
			t.Errorf("mounted again: status %d, %s", code, out)
		}
		mustWork(t, "touch", dir, "OK")
		waitFor(t, "what the killed process had locked is free", free)
	})
}

// TestMountProcessTerminated: SIGTERM writes back the programs' unsynced data, although they still
// have the file open, and unmounts.
func TestMountProcessTerminated(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		name := "held-" + filepath.Base(dir)
		hold := startWorker(t, "hold", filepath.Join(dir, name))
		pid := processOf(t, dir)
		must.Succeed(t, syscall.Kill(pid, syscall.SIGTERM))
		waitFor(t, "the end of the mount", func() bool { return !isMounted(dir) && syscall.Kill(pid, 0) != nil })
		if st, err := os.Stat(filepath.Join(s.dir, name)); err != nil || st.Size() != heldSize {
			t.Errorf("on the server: %v, %v", st, err)
		}
		_, _ = hold.stop()
	})
}

// TestDiskFull: a full disk is reported to the writing program, and to no other.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	small := filepath.Join(s.dir, "small")
	must.Succeed(t, os.Mkdir(small, 0o777))
	must.Succeed(t, syscall.Mount("none", small, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	full := startServerOn(t, small)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			dir := full.mount(t, proto, "/export")
			mustWork(t, "fill", filepath.Join(dir, "big"), strconv.Itoa(16<<20), "ENOSPC")
			mustWork(t, "fill", filepath.Join(dir, "fits"), strconv.Itoa(1<<20), "OK")
		})
	}
}

// TestUnmountBusy: unmounting a mount in use is refused, and --lazy waits for its users.
func TestUnmountBusy(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		hold := startWorker(t, "hold", filepath.Join(dir, "busy"))
		if out, code := nfsrdma(t, "umount", dir); code != 32 || !strings.Contains(out, "busy") || !strings.Contains(out, "--lazy") {
			t.Errorf("status %d, %s", code, out)
		}
		pid := processOf(t, dir)
		if out, code := nfsrdma(t, "umount", "--lazy", dir); code != 0 || isMounted(dir) {
			t.Errorf("lazy: status %d, %s", code, out)
		}
		if syscall.Kill(pid, 0) != nil {
			t.Error("the process ended before the last file was closed")
		}
		if _, err := hold.stop(); err != nil {
			t.Errorf("the last user: %v", err)
		}
		waitFor(t, "the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
	})
}

// waitFor waits for a condition, for as long as the test may run.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A proxy is a TCP port in front of a server's, whose connections can be cut.
type proxy struct {
	port int
	mu   sync.Mutex // guards open
	open map[net.Conn]bool
}

func newProxy(t *testing.T, to int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port, open: make(map[net.Conn]bool)}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c, to)
		}
	}()
	return p
}

// serve copies both ways, until either ends or the connection is cut.
func (p *proxy) serve(c net.Conn, to int) {
	defer c.Close()
	d, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(to)))
	if err != nil {
		return
	}
	defer d.Close()
	p.mu.Lock()
	p.open[c] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(d, c)
		d.Close()
		c.Close()
	}()
	_, _ = io.Copy(c, d)
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}
