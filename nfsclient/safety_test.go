// Safety of data with servers that break promises: every piece's error is returned, nothing that a
// server failed to promise is assumed, and no name leads out of a directory.

package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// failAt answers READs and WRITEs from off on with an error.
func failAt(off uint64) map[uint32]func(run) run {
	return map[uint32]func(run) run{
		nfs3.ProcRead: func(real run) run {
			return func(c *transport.Call) error {
				args := *c.Args
				var a nfs3.ReadArgs
				if a.DecodeXDR(&args); a.Offset < off {
					return real(c)
				}
				c.Args.Rest()
				(&nfs3.ReadRes{Status: nfs3.ErrIO}).EncodeXDR(c.Res)
				return nil
			}
		},
		nfs3.ProcWrite: func(real run) run {
			return func(c *transport.Call) error {
				args := *c.Args
				var a nfs3.WriteArgs
				if a.DecodeXDR(&args); a.Offset < off {
					return real(c)
				}
				a.DecodeXDR(c.Args)
				(&nfs3.WriteRes{Status: nfs3.ErrIO}).EncodeXDR(c.Res)
				return nil
			}
		},
	}
}

// A disk fails in the middle of a file of several pieces. The data before that point counts, and
// the error is returned, also by streams.
func TestErrorsOfPiecesAreReported(t *testing.T) {
	const bad = 2 << 20
	data := random(bad+1<<20, 3)
	faulty(t, failAt(bad), func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		if n, err := f.WriteAt(data, 0); n != bad || !errors.Is(err, syscall.EIO) {
			t.Errorf("WriteAt: %d, %v", n, err)
		}
		if _, err := f.ReadFrom(bytes.NewReader(data)); !errors.Is(err, syscall.EIO) {
			t.Errorf("ReadFrom: %v", err)
		}
		must.Succeed(t, f.Truncate(int64(len(data))))
		_, err = f.Seek(0, io.SeekStart)
		must.Succeed(t, err)
		got := make([]byte, len(data))
		n, err := f.Read(got)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("Read: got %v, want %v", err, syscall.EIO)
		}
		if !bytes.Equal(got[:n], data[:bad]) {
			t.Errorf("Read: %d bytes, want %d with the right content", n, bad)
		}
		_, err = f.Seek(0, io.SeekStart)
		must.Succeed(t, err)
		var out bytes.Buffer
		if n, err := f.WriteTo(&out); n != bad || !errors.Is(err, syscall.EIO) {
			t.Errorf("WriteTo: %d, %v", n, err)
		}
	})
}

// If a server's reply promises less stability than requested, that is an error (RFC 1813 §3.3.7).
func TestUnstableAnswerToStableWrite(t *testing.T) {
	for _, committed := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync} {
		rows := map[uint32]func(run) run{nfs3.ProcWrite: answer(&nfs3.WriteRes{Count: 4, Committed: committed})}
		faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
			f, err := fsys.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|os.O_SYNC, 0o600)
			must.Succeed(t, err)
			if n, err := f.WriteAt([]byte("data"), 0); n != 0 || err == nil {
				t.Errorf("a write that is to be stable, answered %v: %d, %v", committed, n, err)
			}
		})
	}
}

func TestEmptyWrite(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		if w, err := fsys.Client().Write(t.Context(), f.FH(), nil, 0, nfs3.FileSync); w.N != 0 || err != nil {
			t.Errorf("%+v, %v", w, err)
		}
	})
}

// A listing is an error if it has names that cannot exist in a directory.
func TestNamesThatLeadAway(t *testing.T) {
	for _, name := range []string{"../../etc/passwd", "/etc", "a/", "", "a\x00b", "\x00"} {
		entry := nfs3.Entry{Fileid: 1, Name: []byte(name), Cookie: 1}
		rows := map[uint32]func(run) run{
			nfs3.ProcReaddirplus: answer(&nfs3.ReaddirplusRes{Entries: []nfs3.EntryPlus{{Fileid: 1, Name: entry.Name, Cookie: 1}}, EOF: true}),
			nfs3.ProcReaddir:     answer(&nfs3.ReaddirRes{Entries: []nfs3.Entry{entry}, EOF: true}),
		}
		faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
			if list, err := fsys.ReadDir(t.Context(), "/"); err == nil {
				t.Errorf("%q is listed as %v", name, list)
			}
		})
	}
}

// An entry with only a handle or only attributes is completed by a LOOKUP.
func TestHalfEntries(t *testing.T) {
	other := nfs3.Fattr{Type: nfs3.TypeDir, Size: 99}
	stray, err := nfs3.MakeFH([]byte("no handle of this server"))
	must.Succeed(t, err)
	for what, e := range map[string]nfs3.EntryPlus{
		"attributes alone": {Attr: nfs3.PostOpAttr{Present: true, Attr: other}},
		"a handle alone":   {FH: nfs3.PostOpFH{Present: true, FH: stray}},
	} {
		e.Fileid, e.Name, e.Cookie = 1, []byte("f"), 1
		rows := map[uint32]func(run) run{
			nfs3.ProcReaddirplus: answer(&nfs3.ReaddirplusRes{Entries: []nfs3.EntryPlus{e}, EOF: true}),
		}
		faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
			must.Succeed(t, fsys.WriteFile(t.Context(), "f", []byte("12345"), 0o600))
			list, err := fsys.ReadDir(t.Context(), "/")
			must.Succeed(t, err)
			n, err := list[0].Node()
			must.Succeed(t, err)
			if n.Attr.Type != nfs3.TypeReg || n.Attr.Size != 5 {
				t.Errorf("%s: type %v, %d bytes, want %v, 5", what, n.Attr.Type, n.Attr.Size, nfs3.TypeReg)
			}
			if n.FH == stray {
				t.Errorf("%s: the listing's handle was used, want the LOOKUP's", what)
			}
		})
	}
}

// If a server does not support EXCLUSIVE, CREATE uses GUARDED, which never replaces a file. A new
// file's times are set from the clock, because servers keep the verifier in them.
func TestExclusiveCreate(t *testing.T) {
	const excl = os.O_RDWR | os.O_CREATE | os.O_EXCL
	rows := map[uint32]func(run) run{nfs3.ProcCreate: func(real run) run {
		return func(c *transport.Call) error {
			args := *c.Args
			var a nfs3.CreateArgs
			if a.DecodeXDR(&args); a.Mode != nfs3.Exclusive {
				return real(c)
			}
			c.Args.Rest()
			(&nfs3.CreateRes{Status: nfs3.ErrNotSupp}).EncodeXDR(c.Res)
			return nil
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		_, err := fsys.OpenFile(t.Context(), "f", excl, 0o640)
		must.Succeed(t, err)
		if _, err := fsys.OpenFile(t.Context(), "f", excl, 0o640); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second time: %v", err)
		}
		// the other transport sees the same tree, so remove the file
		must.Succeed(t, fsys.Remove(t.Context(), "f"))
	})
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		for i := range 3 {
			name := fmt.Sprint("f", i)
			_, err := fsys.OpenFile(t.Context(), name, excl, 0o640)
			must.Succeed(t, err)
			info, err := fsys.Stat(t.Context(), name)
			must.Succeed(t, err)
			for _, at := range []time.Time{info.ModTime(), info.AccessTime()} {
				if d := time.Since(at).Abs(); d > 24*time.Hour {
					t.Errorf("a new file has a time %v away", d)
				}
			}
		}
	})
}

// Checks that File makes itself, and the offset with O_APPEND.
func TestFlagsAndOffsets(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("old "), 0o600))
		f, err := fsys.OpenFile(ctx, "f", os.O_RDWR|os.O_APPEND, 0)
		must.Succeed(t, err)
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("WriteAt with O_APPEND: %v", err)
		}
		if n, err := f.ReadFrom(strings.NewReader("new")); n != 3 || err != nil {
			t.Errorf("ReadFrom: %d, %v", n, err)
		}
		if err := f.Truncate(-1); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Truncate(-1): %v", err)
		}
		if _, err := f.Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Seek(-1): %v", err)
		}
		must.Succeed(t, f.Close())
		if got, err := fs.ReadFile(fsys.IO(ctx), "f"); string(got) != "old new" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// conns counts a server's connections.
type conns struct{ open, all atomic.Int32 }

func (c *conns) Connection(_ bool, delta int) {
	c.open.Add(int32(delta))
	c.all.Add(int32(max(delta, 0)))
}
func (c *conns) Call(transport.CallStats) {}

// When Dial or Mount fails, its connections are closed: if the mount is refused, or if there are
// too many connections.
func TestFailedDialsLeaveNothing(t *testing.T) {
	var seen conns
	rpc := transport.NewServer(transport.ServerConfig{MaxConns: 64, MaxConnsPerHost: 2, Observer: &seen}, programs(t, nil)...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	done := make(chan struct{})
	go func() { rpc.ServeRDMA(dev, l); close(done) }()
	defer func() {
		if err := rpc.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-done
	}()
	closed := func(least int32) {
		// waits until the test's own deadline, so a leak would be seen
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for seen.all.Load() < least || seen.open.Load() > 0 {
			<-tick.C
		}
	}
	target, err := nfsclient.ParseTarget("nfsrdma://" + l.Addr().String() + "/not/exported")
	must.Succeed(t, err)
	if _, _, err := nfsclient.Open(t.Context(), target, nfsclient.Options{}); err == nil {
		t.Error("a mount of what is not exported")
	}
	closed(1)
	if _, err := nfsclient.Dial(t.Context(), l.Addr().String(), nfsclient.Options{Conns: 3}); err == nil {
		t.Error("three connections where there are two places")
	}
	closed(3)
	for _, n := range []int{-1, 65} {
		if _, err := nfsclient.Dial(t.Context(), l.Addr().String(), nfsclient.Options{Conns: n}); err == nil {
			t.Errorf("%d connections", n)
		}
	}
	if all := seen.all.Load(); all != 3 {
		t.Errorf("%d connections in all, want 3", all)
	}
}
