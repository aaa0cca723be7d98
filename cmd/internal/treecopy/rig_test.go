// The rig of the engine's tests: a server that exports memory and a directory, and sides that
// misbehave.

package treecopy

import (
	"context"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A rig is a server over TCP that exports memory as /mem and dir as /dir.
type rig struct {
	dir  string
	addr string
	rpc  *transport.Server
	kill func()
}

// memLimit is the server's memory: enough for small trees.
const memLimit = 64 << 20

func newRig(t *testing.T, squash nfsserver.Squash) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	tree, err := osfs.New(r.dir, osfs.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	mem := memfs.New(memfs.Options{Limit: memLimit, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, AsyncNames: true, Exports: []nfsserver.Export{
		{Name: "/mem", FS: mem}, {Name: "/dir", FS: tree},
	}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	r.addr = l.Addr().String()
	r.rpc = rpc
	done := make(chan struct{})
	go func() { defer close(done); rpc.ServeTCP(l) }()
	r.kill = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		rpc.Shutdown(ctx)
		<-done
		srv.Close()
	})
	t.Cleanup(r.kill)
	return r
}

// serveRDMA serves the exports over RDMA too, and returns the address.
func (r *rig) serveRDMA(t *testing.T) string {
	t.Helper()
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); r.rpc.ServeRDMA(dev, l) }()
	t.Cleanup(func() { r.kill(); <-done })
	return l.Addr().String()
}

// mount returns a new connection to an export.
func (r *rig) mount(t *testing.T, export string) Remote {
	t.Helper()
	return mountBy(t, nfsclient.TCP, r.addr, export)
}

func mountBy(t *testing.T, tr nfsclient.Transport, addr, export string) Remote {
	t.Helper()
	c, err := nfsclient.Dial(t.Context(), addr, nfsclient.Options{Transport: tr})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	f, err := c.Mount(t.Context(), export)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	return Remote{f}
}

func at(tree Tree, path string) Operand {
	return Operand{Tree: tree, Path: path, Name: lastName(path), Text: path}
}

func local(path string) Operand { return at(Local{}, path) }

// A log has the messages of one run.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) options(o Options) Options {
	add := func(s string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, s)
	}
	o.Report = func(e *Error) {
		if e.Warning {
			add("warning: " + e.Error())
		} else {
			add(e.Error())
		}
	}
	o.Warn = func(s string) { add("warning: " + s) }
	o.Privileged = os.Geteuid() == 0
	return o
}

// want compares the messages, in any order, by parts of each line.
func (l *log) want(t *testing.T, lines ...string) {
	t.Helper()
	ok := len(l.lines) == len(lines)
	for _, w := range lines {
		ok = ok && slices.ContainsFunc(l.lines, func(s string) bool { return strings.Contains(s, w) })
	}
	if !ok {
		t.Errorf("said:\n%s\nwant:\n%s", strings.Join(l.lines, "\n"), strings.Join(lines, "\n"))
	}
}

func cp(t *testing.T, o Options, dst Operand, src ...Operand) *log {
	t.Helper()
	l := &log{}
	if err := New(l.options(o)).Copy(t.Context(), src, dst); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	return l
}

func mv(t *testing.T, o Options, dst Operand, src ...Operand) *log {
	t.Helper()
	l := &log{}
	if err := New(l.options(o)).Move(t.Context(), src, dst); err != nil {
		t.Fatalf("Move: %v", err)
	}
	return l
}

// all has the options of cp -a.
var all = Options{Recursive: true, Preserve: Preserve{Mode: true, Owner: true, Times: true, Links: true}}

// write makes a file, and the directories above it.
func write(t *testing.T, content string, path ...string) string {
	t.Helper()
	p := filepath.Join(path...)
	must.Succeed(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must.Succeed(t, os.WriteFile(p, []byte(content), 0o644))
	return p
}

func wantFile(t *testing.T, want string, path ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil || string(b) != want {
		t.Errorf("%s: %d bytes, %v; want %d bytes", filepath.Join(path...), len(b), err, len(want))
	}
}

// names lists the names in a local tree, sorted.
func names(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && p != dir {
			list = append(list, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return strings.Join(list, " ")
}

// A fake is a local Tree with hooks for its sources and sinks.
type fake struct {
	Local
	list []Meta                                  // additional entries of a listing
	open func(m Meta, s Source) (Source, error)  // replaces the result of Open
	sink func(name string, s Sink) (Sink, error) // replaces the result of Create
	sub  func(ctx context.Context, m Meta) error // called before a directory is opened
}

func (f *fake) OpenDir(ctx context.Context, path, text string) (Dir, error) {
	d, err := f.Local.OpenDir(ctx, path, text)
	return &fakeDir{d, f}, err
}

func (f *fake) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := f.Local.Parent(ctx, path, text)
	return &fakeDir{d, f}, base, err
}

type fakeDir struct {
	Dir
	f *fake
}

func (d *fakeDir) Entries(ctx context.Context) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		for _, m := range d.f.list {
			if !yield(m, nil) {
				return
			}
		}
		for m, err := range d.Dir.Entries(ctx) {
			if !yield(m, err) {
				return
			}
		}
	}
}

func (d *fakeDir) Sub(ctx context.Context, m Meta) (Dir, error) {
	if d.f.sub != nil {
		if err := d.f.sub(ctx, m); err != nil {
			return nil, err
		}
	}
	s, err := d.Dir.Sub(ctx, m)
	return &fakeDir{s, d.f}, err
}

func (d *fakeDir) Open(ctx context.Context, m Meta) (Source, error) {
	s, err := d.Dir.Open(ctx, m)
	if err == nil && d.f.open != nil {
		return d.f.open(m, s)
	}
	return s, err
}

func (d *fakeDir) Create(ctx context.Context, name string, perm fs.FileMode, whole int) (Sink, error) {
	s, err := d.Dir.Create(ctx, name, perm, whole)
	if err == nil && d.f.sink != nil {
		return d.f.sink(name, s)
	}
	return s, err
}

func (d *fakeDir) Mkdir(ctx context.Context, name string, perm fs.FileMode) (Dir, error) {
	s, err := d.Dir.Mkdir(ctx, name, perm)
	return &fakeDir{s, d.f}, err
}

func (d *fakeDir) RenameTo(ctx context.Context, name string, to Dir, newName string) error {
	if f, ok := to.(*fakeDir); ok {
		to = f.Dir
	}
	return d.Dir.RenameTo(ctx, name, to, newName)
}

// asCaller makes a server act as each caller, root too.
var asCaller = nfsserver.Squash{NoRootSquash: true}
