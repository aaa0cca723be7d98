// The calls that opening a file makes, and errors without a call.

package nfsclient_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A counts has the number of calls of each procedure.
type counts [nfs3.NumProcs]atomic.Int32

// take returns a procedure's count and sets it to 0.
func (c *counts) take(proc uint32) int { return int(c[proc].Swap(0)) }

// rows counts the calls of all procedures; procedures in over are also replaced.
func (c *counts) rows(over map[uint32]func(run) run) map[uint32]func(run) run {
	all := map[uint32]func(run) run{}
	for proc := uint32(1); proc < nfs3.NumProcs; proc++ {
		all[proc] = func(real run) run {
			if wrap := over[proc]; wrap != nil {
				real = wrap(real)
			}
			return func(call *transport.Call) error {
				c[proc].Add(1)
				return real(call)
			}
		}
	}
	return all
}

// A switched procedure replies with res while it is on, and otherwise with the server's result.
type switched struct {
	on  atomic.Bool
	res xdr.Marshaler
}

func (s *switched) row(real run) run {
	fixed := answer(s.res)(real)
	return func(c *transport.Call) error {
		if s.on.Load() {
			return fixed(c)
		}
		return real(c)
	}
}

// OpenFile calls ACCESS only before reading a file whose mode does not show whether the caller may
// read it. A server lets the owner read whatever the mode is (RFC 1813 §4.4).
func TestOpenAsksWhetherItMayRead(t *testing.T) {
	var n counts
	none := &switched{res: &nfs3.AccessRes{}}
	faulty(t, n.rows(map[uint32]func(run) run{nfs3.ProcAccess: none.row}), func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		defer none.on.Store(false)
		must.Succeed(t, fsys.WriteFile(ctx, "open", []byte("x"), 0o444))
		must.Succeed(t, fsys.WriteFile(ctx, "shut", []byte("x"), 0o240))
		must.Succeed(t, fsys.MkdirAll(ctx, "dir", 0o311))
		for _, c := range []struct {
			name  string
			flag  int
			asks  int
			error error // the error of OpenFile if ACCESS refuses
		}{
			{"open", os.O_RDONLY, 0, nil}, {"open", os.O_RDWR, 0, nil}, {"open", os.O_WRONLY, 0, nil},
			{"shut", os.O_RDONLY, 1, nfsclient.ErrNoAccess}, {"shut", os.O_RDWR, 1, syscall.EACCES},
			{"shut", os.O_WRONLY, 0, nil}, {"shut", os.O_RDWR | os.O_CREATE, 0, nil},
			{"dir", os.O_RDONLY, 0, nil},
		} {
			for _, refuses := range []bool{false, true} {
				none.on.Store(refuses)
				n.take(nfs3.ProcAccess)
				f, err := fsys.OpenFile(ctx, c.name, c.flag, 0o600)
				var want error
				if refuses {
					want = c.error
				}
				if !errors.Is(err, want) {
					t.Errorf("%s with %#x, refused %v: got %v, want %v", c.name, c.flag, refuses, err, want)
				}
				if asks := n.take(nfs3.ProcAccess); asks != c.asks {
					t.Errorf("%s with %#x: asked %d times, want %d", c.name, c.flag, asks, c.asks)
				}
				if err == nil {
					must.Succeed(t, f.Close())
				}
			}
		}
		must.Succeed(t, fsys.RemoveAll(ctx, "dir"))
		must.Succeed(t, fsys.Remove(ctx, "open"))
		must.Succeed(t, fsys.Remove(ctx, "shut"))
	})
}

// An error of ACCESS is returned, not treated as a refusal.
func TestOpenReportsWhyItCannotAsk(t *testing.T) {
	rows := map[uint32]func(run) run{nfs3.ProcAccess: answer(&nfs3.AccessRes{Status: nfs3.ErrIO})}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		must.Succeed(t, fsys.WriteFile(t.Context(), "shut", nil, 0o200))
		if _, err := fsys.Open(t.Context(), "shut"); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v", err)
		}
	})
}

// O_TRUNC truncates only a non-empty file that is opened for writing.
func TestOpenEmptiesOnlyWhatItShould(t *testing.T) {
	var n counts
	faulty(t, n.rows(nil), func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "dir", 0o755))
		for _, c := range []struct {
			name, content string
			flag          int
			calls         int
			left          string
			error         error
		}{
			{"f", "content", os.O_RDWR | os.O_TRUNC, 1, "", nil},
			{"f", "content", os.O_WRONLY | os.O_TRUNC, 1, "", nil},
			{"f", "content", os.O_WRONLY | os.O_TRUNC | os.O_CREATE, 1, "", nil},
			{"f", "content", os.O_RDONLY | os.O_TRUNC, 0, "content", nil},
			{"f", "content", os.O_RDWR, 0, "content", nil},
			{"f", "x", os.O_RDWR | os.O_TRUNC, 1, "", nil},
			{"f", "", os.O_RDWR | os.O_TRUNC, 0, "", nil},
			{"dir", "", os.O_RDWR | os.O_TRUNC, 0, "", syscall.EISDIR},
			{"dir", "", os.O_RDONLY | os.O_TRUNC, 0, "", syscall.EISDIR},
			{"dir", "", os.O_WRONLY, 0, "", syscall.EISDIR},
			{"dir", "", os.O_RDONLY | os.O_CREATE, 0, "", syscall.EISDIR},
		} {
			if c.name == "f" {
				must.Succeed(t, fsys.WriteFile(ctx, "f", []byte(c.content), 0o644))
			}
			n.take(nfs3.ProcSetattr)
			f, err := fsys.OpenFile(ctx, c.name, c.flag, 0o644)
			if !errors.Is(err, c.error) {
				t.Errorf("%s with %#x: got %v, want %v", c.name, c.flag, err, c.error)
			}
			if calls := n.take(nfs3.ProcSetattr); calls != c.calls {
				t.Errorf("%s of %d bytes with %#x: %d SETATTRs, want %d", c.name, len(c.content), c.flag, calls, c.calls)
			}
			if err != nil {
				continue
			}
			must.Succeed(t, f.Close())
			if b, err := fsys.ReadFile(ctx, "f"); string(b) != c.left || err != nil {
				t.Errorf("opened with %#x it has %q, %v", c.flag, b, err)
			}
		}
	})
}

// A name with a zero byte does not exist, for any operation and anywhere in the path, and no call
// is sent.
func TestZeroBytesInNames(t *testing.T) {
	var n counts
	faulty(t, n.rows(nil), func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		for i := range n {
			n[i].Store(0)
		}
		for _, name := range []string{"\x00", "\x00a", "a\x00", "d/\x00/f", "a/b\x00"} {
			for what, err := range map[string]error{
				"Open":     second(fsys.Open(ctx, name)),
				"Create":   second(fsys.Create(ctx, name, 0o600)),
				"create":   second(fsys.OpenFile(ctx, name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)),
				"Stat":     second(fsys.Stat(ctx, name)),
				"Mkdir":    fsys.Mkdir(ctx, name, 0o755),
				"MkdirAll": fsys.MkdirAll(ctx, name, 0o755),
				"Remove":   fsys.Remove(ctx, name),
				"Unlink":   fsys.Unlink(ctx, name),
				"Rmdir":    fsys.Rmdir(ctx, name),
				"Symlink":  fsys.Symlink(ctx, "to", name),
				"target":   fsys.Symlink(ctx, name, "link"),
				"Mknod":    fsys.Mknod(ctx, name, fs.ModeNamedPipe, 0, 0),
				"Rename":   fsys.Rename(ctx, name, "b"),
				"Link":     fsys.Link(ctx, name, "b"),
			} {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s of %q: %v", what, name, err)
				}
			}
		}
		for i := range n {
			if calls := n.take(uint32(i)); calls > 0 {
				t.Errorf("%d calls of %s", calls, nfs3.Bindings[i].Name)
			}
		}
	})
}

// second returns its second argument. It takes the error from a call with two results.
func second[T any](_ T, err error) error { return err }

// A new file whose mode or times cannot be set, or whose attributes cannot be read, is not opened.
func TestExclusiveCreateReportsItsAttributes(t *testing.T) {
	const excl = os.O_RDWR | os.O_CREATE | os.O_EXCL
	setattr, getattr := &switched{res: &nfs3.SetattrRes{Status: nfs3.ErrIO}}, &switched{res: &nfs3.GetattrRes{Status: nfs3.ErrStale}}
	rows := map[uint32]func(run) run{nfs3.ProcSetattr: setattr.row, nfs3.ProcGetattr: getattr.row}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		for _, c := range []struct {
			row  *switched
			want error
		}{{setattr, syscall.EIO}, {getattr, syscall.ESTALE}} {
			c.row.on.Store(true)
			_, err := fsys.OpenFile(t.Context(), "f", excl, 0o600)
			c.row.on.Store(false)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			must.Succeed(t, fsys.Remove(t.Context(), "f"))
		}
	})
}

// As with os.File, Read returns io.EOF alone, never together with data.
func TestReadGivesTheEndByItself(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		must.Succeed(t, fsys.WriteFile(t.Context(), "f", []byte("content"), 0o600))
		f, err := fsys.Open(t.Context(), "f")
		must.Succeed(t, err)
		defer f.Close()
		b := make([]byte, 100)
		if n, err := f.Read(b); n != 7 || err != nil {
			t.Errorf("the content: %d, %v", n, err)
		}
		if n, err := f.Read(b); n != 0 || err != io.EOF {
			t.Errorf("the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(b, 0); n != 7 || err != io.EOF {
			t.Errorf("ReadAt: %d, %v", n, err)
		}
		if n, err := f.ReadAt(b[:7], 0); n != 7 || err != nil {
			t.Errorf("ReadAt of just that: %d, %v", n, err)
		}
	})
}

// A File's errors name the file by the path with which it was opened, for any operation.
func TestFileErrorsNameTheFile(t *testing.T) {
	rows := map[uint32]func(run) run{}
	for proc, res := range map[uint32]xdr.Marshaler{
		nfs3.ProcGetattr: &nfs3.GetattrRes{Status: nfs3.ErrStale}, nfs3.ProcSetattr: &nfs3.SetattrRes{Status: nfs3.ErrStale},
		nfs3.ProcRead: &nfs3.ReadRes{Status: nfs3.ErrStale}, nfs3.ProcCommit: &nfs3.CommitRes{Status: nfs3.ErrStale},
	} {
		rows[proc] = answer(res)
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		f := fsys.OpenNode(t.Context(), fsys.Root(), "dir/name", os.O_RDWR)
		a := fsys.OpenNode(t.Context(), fsys.Root(), "dir/name", os.O_WRONLY|os.O_APPEND)
		b := make([]byte, 10)
		for op, err := range map[string]error{
			"stat": second(f.Stat()), "truncate": f.Truncate(5), "chmod": f.Chmod(0o600), "read": second(f.Read(b)),
			"seek": second(f.Seek(0, io.SeekEnd)), "write": second(a.Write(b)),
		} {
			var p *fs.PathError
			if !errors.As(err, &p) || !errors.Is(err, syscall.ESTALE) {
				t.Fatalf("%s: got %v, want a PathError of %v", op, err, syscall.ESTALE)
			}
			if got, want := [2]string{p.Op, p.Path}, [2]string{op, "dir/name"}; got != want {
				t.Errorf("%s: got %q, want %q", op, got, want)
			}
		}
		if f.Name() != "dir/name" {
			t.Errorf("name %q, want dir/name", f.Name())
		}
		if f.FH() != fsys.Root() || f.Client() != fsys.Client() {
			t.Errorf("handle %v, want that of the root, and its Client", f.FH())
		}
		if _, err := f.Seek(0, 77); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Seek from nowhere: %v", err)
		}
	})
}

// Data that a COMMIT did not make stable stays unsynced: the next Sync sends a COMMIT.
func TestSyncThatFailsIsTriedAgain(t *testing.T) {
	bad := &switched{res: &nfs3.CommitRes{Status: nfs3.ErrIO}}
	var n counts
	faulty(t, n.rows(map[uint32]func(run) run{nfs3.ProcCommit: bad.row}), func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		_, err = f.Write([]byte("x"))
		must.Succeed(t, err)
		n.take(nfs3.ProcCommit)
		bad.on.Store(true)
		for range 2 {
			if err := f.Sync(); !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), "sync f: ") {
				t.Errorf("%v", err)
			}
		}
		bad.on.Store(false)
		must.Succeed(t, f.Sync())
		must.Succeed(t, f.Sync())
		must.Succeed(t, f.Close())
		if calls := n.take(nfs3.ProcCommit); calls != 3 {
			t.Errorf("%d COMMITs, want 3", calls)
		}
	})
}
