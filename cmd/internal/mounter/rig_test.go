// The rig for tests of mounts: a server in memory, children of this program, and FUSE mounts whose
// requests the test answers.

package mounter

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// TestMain also runs the process of a mount, in the part named by its first argument.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Environ(), child.Env) {
		noticeDelay = 10 * time.Minute
		os.Exit(m.Run())
	}
	parts["serve"] = serveMount
	part := parts[os.Args[1]]
	if part == nil {
		fmt.Fprintf(os.Stderr, "there is no part %q\n", os.Args[1])
		os.Exit(99)
	}
	os.Exit(part(os.Args[2:]))
}

// says fails unless err is one line that begins with name and contains all words.
func says(t testing.TB, err error, name string, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one about %s with %q", name, words)
		return
	}
	text := err.Error()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %q", w, text)
		}
	}
	if !strings.HasPrefix(text, name+": ") || strings.Count(text, name+": "+name) > 0 || strings.Contains(text, "\n") {
		t.Errorf("%q is not one line about %s", text, name)
	}
}

// serveOn exports memory as /mem over TCP at an address.
func serveOn(t *testing.T, addr string) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must.Succeed(t, err)
	serveMemory(t, 0o777, func(rpc *transport.Server) { rpc.ServeTCP(l) })
	return l.Addr()
}

// serveMemory exports memory as /mem until the test ends. Its root directory belongs to root and
// has the given mode. Root is squashed.
func serveMemory(t *testing.T, mode uint32, serve func(*transport.Server)) {
	t.Helper()
	serveTree(t, nfsserver.Export{Name: "/mem", FS: memfs.New(memfs.Options{Mode: mode})}, serve)
}

// serveTree serves one export until the test ends.
func serveTree(t *testing.T, x nfsserver.Export, serve func(*transport.Server)) {
	t.Helper()
	srv, err := nfsserver.New(nfsserver.Options{AsyncNames: true, Exports: []nfsserver.Export{x}})
	must.Succeed(t, err)
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	done := make(chan struct{})
	go func() { serve(rpc); close(done) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		rpc.Shutdown(ctx)
		<-done
		srv.Close()
	})
}

// closedPort returns an address on loopback where nothing listens, and that no other test takes.
func closedPort(t *testing.T) *net.TCPAddr {
	t.Helper()
	return &net.TCPAddr{IP: net.IPv4(127, 83, 20, 49), Port: machine.Port(t)}
}

// target returns a Target for the export /mem at an address.
func target(by nfsclient.Transport, addr net.Addr) nfsclient.Target {
	a := addr.(*net.TCPAddr)
	return nfsclient.Target{Transport: by, TransportSet: true, Host: a.IP.String(), Port: a.Port, Path: "/mem"}
}

// requestOf returns a Request with the given options and targets.
func requestOf(t *testing.T, options string, targets ...nfsclient.Target) *Request {
	t.Helper()
	r := request(t, options)
	r.Source.Targets = targets
	return r
}

// requestFlags has the command line's defaults.
var requestFlags = session.Flags{NConnect: 1, CRC: "on", ConnectTimeout: time.Minute}

// newSession returns a session with the command line's defaults.
func newSession(t *testing.T) *session.Session {
	s := &session.Session{Stderr: new(strings.Builder), Flags: requestFlags}
	t.Cleanup(s.Close)
	return s
}

// A fuseMount is a FUSE mount without a file system: the test acts as its process.
type fuseMount struct {
	dir  string
	fd   int
	once sync.Once     // closes fd once
	gone chan struct{} // closed when the kernel has released the mount
}

// openFUSE returns a connection to the kernel, or skips the test.
func openFUSE(t *testing.T) (fd int) {
	t.Helper()
	machine.NeedRoot(t, "mounts: needs root")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		machine.Skip(t, fmt.Sprintf("needs /dev/fuse: %v", err))
	}
	return fd
}

// mountFUSE makes a mount on a new directory. fstype is the type of our mounts, or another one.
func mountFUSE(t *testing.T, fstype, source string) *fuseMount {
	t.Helper()
	fd := openFUSE(t)
	dir, err := mountctl.Resolve(t.TempDir())
	must.Succeed(t, err)
	m := &fuseMount{dir: dir, fd: fd, gone: make(chan struct{})}
	t.Cleanup(m.kill)
	must.Succeed(t, unix.Mount(source, dir, fstype, unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return m
}

// kill ends the connection to the kernel, as the death of the mount's process does.
func (m *fuseMount) kill() { m.once.Do(func() { unix.Close(m.fd) }) }

// drain reads the kernel's requests without answering until the mount is gone.
func (m *fuseMount) drain() {
	defer close(m.gone)
	buf := make([]byte, 1<<20)
	for {
		_, err := unix.Read(m.fd, buf)
		if err != nil && err != unix.EINTR && err != unix.ENOENT {
			// ENOENT: the kernel has withdrawn the request
			return
		}
	}
}

// serving makes the test answer requests about the mount, as its process would. The caller closes
// the server.
func (m *fuseMount) serving(t *testing.T, figures any) *mountctl.Server {
	t.Helper()
	at, ok, err := mountctl.At(m.dir)
	if err != nil || !ok {
		t.Fatalf("%s is not mounted: %v", m.dir, err)
	}
	s, err := mountctl.Serve(at, func() any { return figures }, func(context.Context) (bool, error) {
		select {
		case <-m.gone:
			return false, nil
		default:
			return true, nil
		}
	})
	must.Succeed(t, err)
	go m.drain()
	return s
}

// mounted reports whether the mount is still in the tree.
func mounted(t *testing.T, dir string) bool {
	t.Helper()
	_, ok, err := mountctl.At(dir)
	must.Succeed(t, err)
	return ok
}

// holdOpen keeps a directory in use, without a request to its mount's process.
func holdOpen(t *testing.T, dir string) (release func()) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Succeed(t, err)
	return sync.OnceFunc(func() { syscall.Close(fd) })
}
