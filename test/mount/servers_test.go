// Mounts of several servers of one directory, which are killed in turn.

package mount

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// startTwins starts servers of one directory with the handle key of the first.
func startTwins(t *testing.T, n int) []*server {
	t.Helper()
	twins := []*server{startServer(t)}
	for range n - 1 {
		s := startServerOn(t, twins[0].dir)
		s.end(os.Interrupt)
		key, err := os.ReadFile(filepath.Join(twins[0].state, "handle.key"))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.state, "handle.key"), key, 0o600)
		}
		if err == nil {
			err = s.start()
		}
		if err != nil {
			t.Fatal(err)
		}
		twins = append(twins, s)
	}
	return twins
}

// url returns the URL for several servers, each at its own port.
func url(twins []*server, proto string) string {
	scheme := map[string]string{"rdma": "nfsrdma", "tcp": "nfs"}[proto]
	var hosts []string
	for _, s := range twins {
		hosts = append(hosts, s.at(proto))
	}
	return scheme + "://" + strings.Join(hosts, ",") + "/export"
}

func (s *server) at(proto string) string {
	if proto == "tcp" {
		return fmt.Sprintf("127.0.0.1:%d", s.tcp)
	}
	return fmt.Sprintf("127.0.0.1:%d", s.rdma)
}

// mountTwins mounts several servers.
func mountTwins(t *testing.T, twins []*server, proto, options string) string {
	t.Helper()
	dir := tempDir(t, "mnt")
	if out, code := nfsrdma(t, "mount", "-o", options, url(twins, proto), dir); code != 0 {
		t.Fatalf("mount: %s", out)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// inUse returns the index of a mount's current server in twins; -1: another server.
func inUse(t *testing.T, twins []*server, proto, dir string) int {
	t.Helper()
	at := figures(t, dir).Connections[0].Addr
	for i, s := range twins {
		if at == s.at(proto) {
			return i
		}
	}
	return -1
}

// TestServersKilledInTurn: a mount's server is killed under a writer, again and again, and started
// again when the mount has gone on with the other one. The writer sees no error, and all data
// acknowledged by fsync is on the disk.
func TestServersKilledInTurn(t *testing.T) {
	t.Parallel()
	needMounts(t)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			twins := startTwins(t, 2)
			dir := mountTwins(t, twins, proto, "nconnect=2")
			w := startWorker(t, "writer", filepath.Join(dir, "killed"))
			for range scaled(4, 50) {
				w.progress(t, 5+rand.IntN(20))
				now := inUse(t, twins, proto, dir)
				if now < 0 {
					t.Fatal("the mount uses a server that is none")
				}
				twins[now].end(os.Kill)
				for inUse(t, twins, proto, dir) != 1-now { // some earlier lines are not read yet
					w.progress(t, 1)
				}
				w.progress(t, 5)
				if err := twins[now].start(); err != nil {
					t.Fatalf("start: %v", err)
				}
			}
			w.progress(t, 10)
			w.check(t, twins[0], "killed")
		})
	}
}

// TestSilentServerIsLeft: a mount goes on with another server when its own sends nothing any more,
// and does not refuse connections either.
func TestSilentServerIsLeft(t *testing.T) {
	t.Parallel()
	needMounts(t)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			twins := startTwins(t, 2)
			dir := mountTwins(t, twins, proto, "timeo=30")
			w := startWorker(t, "writer", filepath.Join(dir, "silent"))
			w.progress(t, 5)
			now := inUse(t, twins, proto, dir)
			if err := twins[now].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatalf("Signal: %v", err)
			}
			defer func() { _ = twins[now].cmd.Process.Signal(syscall.SIGCONT) }()
			for inUse(t, twins, proto, dir) != 1-now {
				w.progress(t, 1)
			}
			w.progress(t, 10)
			w.check(t, twins[0], "silent")
		})
	}
}

// TestLocksFollowTheMount: a program has a lock by a mount whose server is killed: the next server
// then has it, and excludes others.
func TestLocksFollowTheMount(t *testing.T) {
	t.Parallel()
	needMounts(t)
	need(t, "flock")
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			twins := startTwins(t, 2)
			dir := mountTwins(t, twins, proto, "timeo=50")
			r := &lockRig{T: t}
			var err error
			if r.onDisk, err = os.Create(filepath.Join(twins[0].dir, "file")); err != nil {
				t.Fatalf("os.Create: %v", err)
			}
			defer r.onDisk.Close()
			release := r.hold(dir)
			for range scaled(1, 4) {
				now := inUse(t, twins, proto, dir)
				twins[now].end(os.Kill)
				waitFor(t, "the lock at the other server", func() bool { return inUse(t, twins, proto, dir) == 1-now && !r.free() })
				lock := unix.Flock_t{Type: unix.F_WRLCK}
				if err := unix.FcntlFlock(r.onDisk.Fd(), unix.F_OFD_SETLK, &lock); err != unix.EAGAIN {
					t.Errorf("another program has the lock: %v", err)
				}
				if err := twins[now].start(); err != nil {
					t.Fatalf("start: %v", err)
				}
			}
			release()
			waitFor(t, "the lock to be free", r.free)
		})
	}
}

// TestCommandsPassDeadServers: cp, ls and cat work while one of three servers is alive, whichever
// that is.
func TestCommandsPassDeadServers(t *testing.T) {
	t.Parallel()
	needMounts(t)
	twins := startTwins(t, 3)
	source := filepath.Join(tempDir(t, "source"), "file")
	must.Succeed(t, os.WriteFile(source, []byte("content\n"), 0o644))
	for alive := range twins {
		for i, s := range twins {
			if s.end(os.Kill); i == alive {
				if err := s.start(); err != nil {
					t.Fatalf("start: %v", err)
				}
			}
		}
		for _, proto := range []string{"rdma", "tcp"} {
			name := fmt.Sprintf("/%d-%s", alive, proto)
			at := url(twins, proto)
			for _, c := range []struct {
				args []string
				want string
			}{
				{[]string{"cp", source, at + name}, ""},
				{[]string{"cat", at + name}, "content"},
				{[]string{"ls", at + name}, at + name},
				{[]string{"mv", at + name, at + name + "-moved"}, ""},
			} {
				if out, code := nfsrdma(t, c.args...); code != 0 || out != c.want {
					t.Errorf("%q: status %d, %q, want %q", c.args, code, out, c.want)
				}
			}
		}
	}
}

// TestServersOfTwoVolumes: a mount from servers with two volumes is refused, whichever is found
// first. With both servers down, the error names both.
func TestServersOfTwoVolumes(t *testing.T) {
	t.Parallel()
	needMounts(t)
	twins := []*server{startServer(t), startServer(t)} // of two directories, with two keys
	dir := tempDir(t, "mnt")
	for range 4 {
		out, code := nfsrdma(t, "mount", url(twins, "tcp"), dir)
		if code != 32 || strings.Count(out, "\n") != 0 || !strings.Contains(out, "does not serve the same volume by the same handles") {
			t.Errorf("status %d: %s", code, out)
		}
	}
	twins[0].end(os.Kill)
	twins[1].end(os.Kill)
	out, code := nfsrdma(t, "mount", url(twins, "tcp"), dir)
	if code != 32 || strings.Count(out, "\n") != 0 || !strings.Contains(out, "none of the servers can be used") ||
		!strings.Contains(out, twins[0].at("tcp")) || !strings.Contains(out, twins[1].at("tcp")) {
		t.Errorf("status %d: %s", code, out)
	}
}
