// States of nodes: random schedules of lookups, opens and removals in one mount, without a kernel.

package fusefs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
)

func pause() { time.Sleep(rand.N(5 * time.Millisecond)) }

// slow makes each call and each reply take a random time, so they overtake each other.
func slow(programs []*transport.Program) []*transport.Program {
	for _, p := range programs {
		p.Procs = slices.Clone(p.Procs)
		for i := range p.Procs {
			proc := &p.Procs[i]
			run := proc.Run
			proc.Inline, proc.Lane = false, nil
			proc.Run = func(c *transport.Call) error {
				pause()
				defer pause()
				return run(c)
			}
		}
	}
	return programs
}

// A pipeListener accepts connections within this process, with addresses as of TCP.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

type pipeConn struct{ net.Conn }

var pipeAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 700}

func (pipeConn) LocalAddr() net.Addr   { return pipeAddr }
func (pipeConn) RemoteAddr() net.Addr  { return pipeAddr }
func (l *pipeListener) Addr() net.Addr { return pipeAddr }
func (l *pipeListener) Close() error   { close(l.ended); return nil }
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	l.conns <- pipeConn{theirs}
	return pipeConn{ours}, nil
}

// A kernel sends the requests that Linux sends for programs. It locks a directory while it makes,
// removes or replaces a name, but not during a lookup.
type kernel struct {
	fs   *fileSystem
	lock chan struct{}
}

// do runs change with the directory locked.
func (k *kernel) do(change func()) {
	k.lock <- struct{}{}
	change()
	<-k.lock
}

func header(c fuse.Caller, node uint64) fuse.InHeader { return fuse.InHeader{NodeId: node, Caller: c} }

// lookup returns a name's node and counts one lookup of it, or returns 0.
func (k *kernel) lookup(c fuse.Caller, name string) (uint64, fuse.Status) {
	var out fuse.EntryOut
	h := header(c, rootID)
	st := k.fs.Lookup(nil, &h, name, &out)
	if st == fuse.ENOENT {
		return 0, fuse.OK
	}
	return out.NodeId, st
}

// An openedFile is an open file of the kernel, with one lookup of its node counted.
type openedFile struct{ node, fh uint64 }

// open acts as open(2): after ESTALE the kernel walks once more.
func (k *kernel) open(c fuse.Caller, name string, create bool) (f openedFile, st fuse.Status) {
	for range 2 {
		if f, st = k.openOnce(c, name, create); st != staleNode {
			break
		}
	}
	return f, st
}

func (k *kernel) openOnce(c fuse.Caller, name string, create bool) (f openedFile, st fuse.Status) {
	if create {
		k.do(func() {
			if f.node, st = k.lookup(c, name); st != fuse.OK || f.node != 0 {
				return
			}
			var out fuse.CreateOut
			in := fuse.CreateIn{InHeader: header(c, rootID), Flags: syscall.O_RDWR | syscall.O_CREAT, Mode: 0o644}
			st = k.fs.Create(nil, &in, name, &out)
			f = openedFile{out.NodeId, out.Fh}
		})
	} else {
		f.node, st = k.lookup(c, name)
	}
	switch {
	case st != fuse.OK || f.fh != 0:
		return f, st
	case f.node == 0:
		return f, fuse.ENOENT
	}
	pause()
	var out fuse.OpenOut
	if st = k.fs.Open(nil, &fuse.OpenIn{InHeader: header(c, f.node), Flags: syscall.O_RDWR}, &out); st != fuse.OK {
		k.fs.Forget(f.node, 1)
	}
	f.fh = out.Fh
	return f, st
}

// read requests one byte from the server.
func (k *kernel) read(c fuse.Caller, f openedFile) fuse.Status {
	in := fuse.ReadIn{InHeader: header(c, f.node), Fh: f.fh, Size: 1, Flags: syscall.O_DIRECT, ReadFlags: fuse.READ_LOCKOWNER}
	res, st := k.fs.Read(nil, &in, make([]byte, 1))
	if st == fuse.OK {
		res.Done()
	}
	return st
}

func (k *kernel) close(c fuse.Caller, f openedFile) {
	k.fs.Flush(nil, &fuse.FlushIn{InHeader: header(c, f.node), Fh: f.fh})
	pause() // RELEASE comes after close(2) has returned
	k.fs.Release(nil, &fuse.ReleaseIn{InHeader: header(c, f.node), Fh: f.fh})
	k.fs.Forget(f.node, 1)
}

// change removes a name, or replaces its file by a rename of from.
func (k *kernel) change(c fuse.Caller, name, from string) (st fuse.Status) {
	k.do(func() {
		var node, source uint64
		if node, st = k.lookup(c, name); st == fuse.OK && from != "" {
			source, st = k.lookup(c, from)
		}
		h := header(c, rootID)
		switch {
		case st != fuse.OK:
		case from == "" && node != 0:
			st = k.fs.Unlink(nil, &h, name)
		case source != 0 && source != node:
			st = k.fs.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: rootID}, from, name)
		}
		k.fs.Forget(node, 1)
		k.fs.Forget(source, 1)
	})
	return st
}

// program acts as one of several programs that use the same names. The name "kept" is replaced, but
// never removed.
func (k *kernel) program(c fuse.Caller) error {
	for range 20 {
		pause()
		switch name := []string{"a", "b", "kept"}[rand.IntN(3)]; rand.IntN(6) {
		case 0:
			if name == "kept" {
				continue
			}
			if st := k.change(c, name, ""); st != fuse.OK {
				return fmt.Errorf("got %v of unlink of %s, want success", st, name)
			}
		case 1:
			from := "a"
			if name == "a" {
				from = "b"
			}
			if st := k.change(c, name, from); st != fuse.OK {
				return fmt.Errorf("got %v of rename of %s to %s, want success", st, from, name)
			}
		default:
			create := rand.IntN(2) == 0
			f, st := k.open(c, name, create)
			if st == fuse.ENOENT && !create && name != "kept" {
				continue
			}
			if st != fuse.OK {
				return fmt.Errorf("got %v of an open of %s, create %t, want success", st, name, create)
			}
			for range rand.IntN(3) {
				pause()
				if st := k.read(c, f); st != fuse.OK {
					return fmt.Errorf("got %v of a read of %s, want success", st, name)
				}
			}
			k.close(c, f)
		}
	}
	return nil
}

// An open file survives until it is closed, and opens succeed, whatever programs do with the names
// meanwhile. At the end no node and no hidden name is left.
func TestNodeStates(t *testing.T) {
	const child = "NFSRDMA_NODE_STATES"
	// A separate process, because other tests would share pooled memory with the bubble.
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNodeStates$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) { // one bubble for all rounds
		for range 300 {
			nodeStates(t)
		}
	})
}

func nodeStates(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: "/export", FS: memfs.New(memfs.Options{Mode: 0o777})}}, AsyncNames: true,
		Squash: nfsserver.Squash{NoRootSquash: true, TrustLocal: true},
	})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	rpc, l := transport.NewServer(transport.ServerConfig{}, slow(srv.Programs())...), &pipeListener{make(chan net.Conn), make(chan struct{})}
	served := make(chan error)
	go func() { served <- rpc.ServeTCP(l) }()
	client, err := nfsclient.Dial(t.Context(), pipeAddr.String(), nfsclient.Options{Transport: nfsclient.TCP, Dial: l.dial})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	exported, err := client.Mount(t.Context(), "/export")
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	opt := Options{Cred: &transport.Cred{}, LocalPosix: true, LocalFlock: true}
	if err = opt.setDefaults(); err != nil {
		t.Fatalf("set defaults: %v", err)
	}
	fs, err := newFileSystem(t.Context(), exported, opt)
	if err != nil {
		t.Fatalf("new file system: %v", err)
	}
	fs.notices.stopped = true // there is no kernel
	k := &kernel{fs, make(chan struct{}, 1)}
	f, st := k.open(fuse.Caller{}, "kept", true)
	if st != fuse.OK {
		t.Fatal(st)
	}
	k.close(fuse.Caller{}, f)

	const programs = 6
	ended := make(chan error)
	for i := range uint32(programs) {
		go func() { ended <- k.program(fuse.Caller{Pid: i + 1}) }()
	}
	for range programs {
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		t.Errorf("programs: %v", err)
	}
	k.settled(t, exported)
	fs.stop()
	client.Close()
	if err := rpc.Shutdown(context.Background()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-served; !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the server ended with %v, want %v", err, transport.ErrClosed)
	}
}

// settled compares the names with those on the server, and checks that nothing else is left.
func (k *kernel) settled(t *testing.T, exported *nfsclient.FS) {
	fs := k.fs
	for _, name := range []string{"a", "b", "kept"} {
		node, st := k.lookup(fuse.Caller{}, name)
		is, err := exported.Lstat(t.Context(), name)
		n := fs.table.get(node)
		switch {
		case st != fuse.OK || (n == nil) != errors.Is(err, syscall.ENOENT):
			t.Errorf("got %v and a file %t of %s in the end, the server says %v", st, n != nil, name, err)
		case n != nil:
			if got, _ := n.snapshot(); got.Fileid != is.Attr.Fileid {
				t.Errorf("got file %d of %s in the end, want %d", got.Fileid, name, is.Attr.Fileid)
			}
		}
		fs.Forget(node, 1)
	}
	time.Sleep(2 * reopenFor) // closes files kept for a second walk
	for e, err := range exported.Names(t.Context(), ".") {
		if err != nil {
			t.Fatalf("list the export: %v", err)
		}
		if isHidden(e.Name()) {
			t.Errorf("got %s in the end, want no hidden name", e.Name())
		}
	}
	if n := fs.table.size(); n != 1 {
		t.Errorf("got %d nodes in the end, want the root alone", n)
	}
	if n := len(fs.table.uses); n != 0 {
		t.Errorf("got %d names in use in the end, want none", n)
	}
	if n := fs.handles.count(); n != 0 {
		t.Errorf("got %d handles in the end, want none", n)
	}
}
