// A disk that does not answer, exported beside one that does: a FUSE file system whose server is
// stopped.

package hostile

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// hangWait limits each wait, so that a hung test ends. It is long, because a busy machine is slow;
// no test measures time by it.
const hangWait = 5 * time.Minute

// A fuseMount is a directory through a FUSE server that can be stopped.
type fuseMount struct {
	dir string
	pid int
}

// mountFuse mounts a new directory through bindfs, which keeps nothing in the kernel's cache,
// until the test ends.
func mountFuse(t *testing.T) *fuseMount {
	t.Helper()
	machine.NeedRoot(t, "not root: a hung disk (FUSE) beside a healthy export is not tested")
	if _, err := exec.LookPath("bindfs"); err != nil {
		machine.Skip(t, "bindfs is missing: a hung disk (FUSE) beside a healthy export is not tested")
	}
	below, m := t.TempDir(), &fuseMount{dir: t.TempDir()}
	cmd := exec.Command("bindfs", "-f", "-o", "attr_timeout=0,entry_timeout=0", below, m.dir)
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	m.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		m.resume(t)
		unix.Unmount(m.dir, unix.MNT_DETACH)
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(hangWait):
			t.Error("bindfs does not end")
		}
	})
	for {
		var st unix.Statfs_t
		if unix.Statfs(m.dir, &st) == nil && st.Type == unix.FUSE_SUPER_MAGIC {
			return m
		}
		select {
		case <-ended:
			machine.Skip(t, "bindfs cannot mount here: a hung disk (FUSE) beside a healthy export is not tested")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (m *fuseMount) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(m.pid, s); err != nil {
		t.Errorf("syscall.Kill: %v", err)
	}
}

// stop stops the disk: when it returns, the disk no longer answers.
func (m *fuseMount) stop(t *testing.T) {
	t.Helper()
	m.signal(t, syscall.SIGSTOP)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if strings.HasPrefix(rest, "T") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (m *fuseMount) resume(t *testing.T) { m.signal(t, syscall.SIGCONT) }

// A hungServer exports a fuseMount as /hung and its own directory as /ok.
type hungServer struct {
	*testing.T
	fuse *fuseMount
	srv  *nfsserver.Server
	svc  *nfsserver.Service
}

func serveHung(t *testing.T) *hungServer {
	t.Helper()
	h := &hungServer{T: t, fuse: mountFuse(t)}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	var exports []nfsserver.Export
	for name, dir := range map[string]string{"/hung": h.fuse.dir, "/ok": t.TempDir()} {
		fs, err := osfs.New(dir, osfs.Options{})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		exports = append(exports, nfsserver.Export{Name: name, FS: fs})
	}
	var err error
	h.srv, err = nfsserver.New(nfsserver.Options{Exports: exports, Squash: nfsserver.Squash{All: true, UID: uid, GID: gid}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if h.svc, err = h.srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"}); err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	return h
}

// end shuts the server down while its disks answer.
func (h *hungServer) end() {
	ctx, cancel := context.WithTimeout(bg, hangWait)
	defer cancel()
	if err := h.svc.Shutdown(ctx); err != nil {
		h.Errorf("Shutdown: %v", err)
	}
	if err := h.srv.Close(); err != nil {
		h.Errorf("Close: %v", err)
	}
}

// dial returns a new client, over TCP or RDMA, that waits for the server for as long as it takes.
func (h *hungServer) dial(rdma bool) *nfsclient.Client {
	h.Helper()
	opt := nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: transport.Hard,
		Dial: (&net.Dialer{}).DialContext} // not from a reserved port: there are too few
	addr := h.svc.TCPAddr.String()
	if rdma {
		opt.Transport, addr = nfsclient.RDMA, h.svc.RDMAAddr.String()
	}
	c, err := nfsclient.Dial(bg, addr, opt)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { c.Close() })
	return c
}

// A place is a directory of an export with files in it.
type place struct {
	dir   nfs3.FH
	files []nfs3.FH
}

// place makes n files in an export.
func (h *hungServer) place(c *nfsclient.Client, export string, n int) (p place) {
	h.Helper()
	dir, err := c.MountHandle(bg, export)
	if err != nil {
		h.Fatal(err)
	}
	p.dir = dir
	for i := range n {
		node, err := c.Create(bg, dir, fmt.Sprint("f", i), nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
		if err != nil {
			h.Fatal(err)
		}
		if _, err := c.Write(bg, node.FH, pattern(70_000), 0, nfs3.FileSync); err != nil {
			h.Fatal(err)
		}
		p.files = append(p.files, node.FH)
	}
	return p
}

// do makes call number i: one of several procedures, on one of the files.
func (p *place) do(ctx context.Context, c *nfsclient.Client, i int) error {
	fh, err := p.files[i%len(p.files)], error(nil)
	switch i % 7 {
	case 0:
		_, err = c.Fsstat(ctx, p.dir)
	case 1:
		_, err = c.Getattr(ctx, fh)
	case 2:
		err = c.Setattr(ctx, fh, nfs3.Sattr{SetMode: true, Mode: 0o600})
	case 3:
		var n int
		if n, _, err = c.Read(ctx, fh, make([]byte, 60_000), 5); err == nil && n != 60_000 {
			err = fmt.Errorf("READ of %d bytes", n)
		}
	case 4:
		_, err = c.Write(ctx, fh, pattern(60_000), 7, nfs3.FileSync)
	case 5:
		_, err = c.Lookup(ctx, p.dir, "f0")
	case 6:
		_, err = c.Create(ctx, p.dir, fmt.Sprint("new", i%50), nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
	}
	if err != nil {
		err = fmt.Errorf("procedure %d of the mix: %w", i%7, err)
	}
	return err
}

// within fails the test at once if f does not return within hangWait.
func (h *hungServer) within(what string, f func()) {
	h.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(hangWait):
		h.fuse.resume(h.T) // or nothing could be cleaned up
		h.Fatalf("%s stands still", what)
	}
}

// threads returns how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(list) == 0 {
		t.Fatalf("threads: %v", err)
	}
	return len(list)
}

// A load makes many concurrent calls on each of n connections, in one place, until wait is called.
type load struct {
	clients []*nfsclient.Client
	calls   sync.WaitGroup
	ended   atomic.Int64
	failed  atomic.Pointer[error]
}

func (h *hungServer) load(p place, conns, each int) *load {
	l := &load{}
	for n := range conns {
		l.clients = append(l.clients, h.dial(n%3 == 0))
	}
	for n, c := range l.clients {
		for i := range each {
			l.calls.Go(func() {
				if err := p.do(bg, c, n+i); err != nil {
					l.failed.CompareAndSwap(nil, &err)
				}
				l.ended.Add(1)
			})
		}
	}
	return l
}

// TestHungDisk: many connections have many calls each on a disk that does not answer. Meanwhile
// users of another export are served, on their own connections and on the same connections. The
// calls take a bounded number of threads, and all are answered when the disk answers again.
func TestHungDisk(t *testing.T) {
	conns, each := 24, 150 // more than a connection may have at once
	if full {
		conns = 165
	}
	h := serveHung(t)
	first := h.dial(false)
	hung, ok := h.place(first, "/hung", 60), h.place(first, "/ok", 60)
	before := threads(t)
	h.fuse.stop(t)
	l := h.load(hung, conns, each)

	healthy := []*nfsclient.Client{h.dial(false), h.dial(true)}
	h.within("the healthy export", func() {
		var users sync.WaitGroup
		for _, c := range healthy {
			for i := range 8 {
				users.Go(func() {
					for round := range 70 {
						if err := ok.do(bg, c, i+round); err != nil {
							t.Errorf("on the healthy export: %v", err)
							return
						}
					}
				})
			}
		}
		users.Wait()
	})
	h.within("a connection with calls on the hung export", func() {
		var users sync.WaitGroup
		for _, c := range l.clients {
			users.Go(func() {
				if err := c.Null(bg); err != nil {
					t.Errorf("NULL: %v", err)
				}
				for i := range 7 {
					if err := ok.do(bg, c, i); err != nil {
						t.Errorf("on a connection with calls that hang: %v", err)
					}
				}
			})
		}
		users.Wait()
	})
	if n := threads(t) - before; n > 256+64 {
		t.Errorf("%d more threads than before", n)
	}
	if n := l.ended.Load(); n != 0 {
		t.Errorf("%d calls on the hung export have ended: it does not hang", n)
	}
	h.fuse.resume(t)
	h.within("the hung export, which answers again", l.calls.Wait)
	if err := l.failed.Load(); err != nil {
		t.Errorf("a call that hung: %v", *err)
	}
	h.within("the end", h.end)
}

// TestHungDiskShutdown: with calls that hang, a server ends in bounded time, reports where they
// hang, and closes the file system that answers.
func TestHungDiskShutdown(t *testing.T) {
	h := serveHung(t)
	first := h.dial(false)
	hung, ok := h.place(first, "/hung", 4), h.place(first, "/ok", 4)
	h.fuse.stop(t)
	l := h.load(hung, 4, 40)
	for i := range 7 {
		if err := ok.do(bg, first, i); err != nil {
			t.Errorf("do: %v", err)
		}
	}
	h.within("the end", func() {
		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		for what, err := range map[string]error{"Shutdown": h.svc.Shutdown(ctx), "Close": h.srv.Close()} {
			if err == nil || !strings.Contains(err.Error(), "export /hung: its file system does not answer") || strings.Contains(err.Error(), "/ok") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	for _, c := range l.clients {
		c.Close()
	}
	h.fuse.resume(t)
	h.within("the clients", l.calls.Wait)
}
