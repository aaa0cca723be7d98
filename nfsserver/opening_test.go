// An export that cannot be opened at the start does not delay the others.

package nfsserver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A closingFS reports when it is closed.
type closingFS struct {
	nfsserver.FS
	closed chan struct{}
}

func (c *closingFS) Close() error {
	close(c.closed)
	return c.FS.Close()
}

// A keptFS stays usable when its server closes it.
type keptFS struct{ nfsserver.FS }

func (keptFS) Close() error { return nil }

// TestReasonsAreLoggedOnce: while an export fails to open for the same reason, the log has only one
// line about it.
func TestReasonsAreLoggedOnce(t *testing.T) {
	l := record(t)
	a, b := errors.New("a"), errors.New("b")
	answers := []error{a, a, b, b, b, a, nil}
	synctest.Test(t, func(t *testing.T) {
		next := 0
		tree := memory(t)
		srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/late", Open: func() (nfsserver.FS, error) {
			err := answers[next]
			next++
			return tree, err
		}}}})
		if err != nil {
			t.Fatalf("nfsserver.New: %v", err)
		}
		time.Sleep(time.Duration(len(answers)) * time.Second)
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	for line, want := range map[string]int{"not served until this is repaired: a": 2, "not served until this is repaired: b": 1, "served from now on": 1} {
		if got := l.count(line); got != want {
			t.Errorf("%d lines %q, want %d", got, line, want)
		}
	}
}

// Clients of an export that is not open yet get JUKEBOX, even for handles from an earlier run. Once
// the export is open they are served. Clients of other exports are served meanwhile.
func TestExportOpenedLate(t *testing.T) {
	key := [nfsserver.KeySize]byte{1}
	tree := keptFS{memory(t)}
	options := func(late nfsserver.Export) nfsserver.Options {
		return nfsserver.Options{Squash: believeAll, Key: key, Exports: []nfsserver.Export{{Name: "/ok", FS: memory(t)}, late}}
	}
	before := serve(t, options(nfsserver.Export{Name: "/late", FS: tree}))
	c := before.dial(root).mount("/late")
	f := c.file(c.root, "f", 0o644)
	before.stop()

	answers := make(chan error)
	open := func() (nfsserver.FS, error) { return tree, <-answers }
	h := serve(t, options(nfsserver.Export{Name: "/late", Open: open}))
	c, ok := h.dial(root), h.dial(root).mount("/ok")
	for range 2 {
		c.want("GETATTR", c.getattr(f).Status, nfs3.ErrJukebox)
		c.want("SETATTR", c.setattr(f, nfs3.Sattr{}).Status, nfs3.ErrJukebox)
		c.want("RENAME", c.rename(ok.root, "x", f, "y").Status, nfs3.ErrJukebox)
		var res mount3.MntRes
		c.mountCall(mount3.ProcMnt, &mount3.PathArgs{Path: "/late"}, &res)
		if res.Status != mount3.ErrServerFault {
			t.Errorf("MNT: %v", res.Status)
		}
		ok.attr(ok.root)
	}
	answers <- nil
	for c.getattr(f).Status == nfs3.ErrJukebox {
		time.Sleep(time.Millisecond)
	}
	c.attr(f)
	c.mount("/late").attr(c.root)
}

func TestExportThatCannotBeOpenedLate(t *testing.T) {
	answers := make(chan error, 1)
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/ok", FS: memory(t)},
		{Name: "/late", Open: func() (nfsserver.FS, error) { return nil, <-answers }}}})
	c := h.dial(root)
	answers <- errors.New("no such disk")
	var res mount3.MntRes
	for res.Status != mount3.ErrIO {
		c.mountCall(mount3.ProcMnt, &mount3.PathArgs{Path: "/late"}, &res)
		time.Sleep(time.Millisecond)
	}
}

// A server ends even if an export is not open yet, and an FS that is opened afterwards is closed.
func TestCloseWhileAnExportOpens(t *testing.T) {
	answers := make(chan error)
	fs := &closingFS{memory(t), make(chan struct{})}
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/late", Open: func() (nfsserver.FS, error) { return fs, <-answers }}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	answers <- nil
	<-fs.closed
}

// A READ arrives before its export is open, and runs after it has been opened. It waits for the
// disk on a worker, although it was permitted to run inline: at that time, there was nothing to
// wait for.
func TestReadWhileAnExportIsOpened(t *testing.T) {
	key := [nfsserver.KeySize]byte{1}
	tree := keptFS{memory(t)}
	before := serve(t, nfsserver.Options{Squash: believeAll, Key: key, Exports: []nfsserver.Export{{Name: "/late", FS: tree}}})
	c := before.dial(root).mount("/late")
	f := c.file(c.root, "f", 0o644)
	data := []byte("0123456789")
	var wrote nfs3.WriteRes
	if err := c.try(nfs3.ProcWrite, &nfs3.WriteArgs{FH: f, Count: uint32(len(data)), Data: data}, &wrote); err != nil || wrote.Status != nfs3.OK {
		t.Fatal(err, wrote.Status)
	}
	before.stop()

	answers := make(chan error)
	srv, err := nfsserver.New(nfsserver.Options{Squash: believeAll, Key: key,
		Exports: []nfsserver.Export{{Name: "/late", Open: func() (nfsserver.FS, error) { return tree, <-answers }}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	defer srv.Close()
	programs := srv.Programs()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	dial := func() *client {
		rpc, err := transport.DialTCP(t.Context(), l.Addr().String(), transport.ClientConfig{Cred: root})
		if err != nil {
			t.Fatalf("transport.DialTCP: %v", err)
		}
		t.Cleanup(func() { rpc.Close() })
		return &client{T: t, rpc: rpc}
	}
	opened := make(chan struct{})
	open := sync.OnceFunc(func() { answers <- nil })
	procedure := &programs[0].Procs[nfs3.ProcRead]
	place := procedure.Lane
	procedure.Lane = func(call *transport.Call) int {
		open()
		<-opened
		return place(call)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, programs...)
	defer rpc.Shutdown(context.Background())
	go rpc.ServeTCP(l)
	c, other := dial(), dial()
	other.want("GETATTR", other.getattr(f).Status, nfs3.ErrJukebox)
	var res nfs3.ReadRes
	done := make(chan error, 1)
	go func() { done <- c.try(nfs3.ProcRead, &nfs3.ReadArgs{FH: f, Count: uint32(len(data))}, &res) }()
	for other.getattr(f).Status == nfs3.ErrJukebox {
		time.Sleep(time.Millisecond)
	}
	close(opened)
	if err := <-done; err != nil {
		t.Fatalf("READ: %v", err)
	}
	c.want("READ", res.Status, nfs3.OK)
	if !bytes.Equal(res.Data, data) || !res.EOF {
		t.Errorf("READ: %q, EOF %v, want %q and true", res.Data, res.EOF, data)
	}
}
