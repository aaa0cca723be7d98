// Slow, limited, restarted or hostile servers: the real server's table of procedures with some rows
// replaced.

package nfsclient_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A run is the function that serves a procedure.
type run = func(c *transport.Call) error

// programs returns a server's programs for an empty tree in memory, with procedures of NFSv3
// replaced by rows; each function in rows gets the original.
func programs(t *testing.T, rows map[uint32]func(run) run) []*transport.Program {
	t.Helper()
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: exportName, FS: memfs.New(memfs.Options{UID: uid, GID: gid})}},
		Squash:  nfsserver.Squash{All: true, UID: uid, GID: gid},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { srv.Close() })
	list := slices.Clone(srv.Programs())
	for i, p := range list {
		if p.Number != nfs3.Program {
			continue
		}
		changed := *p
		changed.Procs = slices.Clone(p.Procs)
		for n, wrap := range rows {
			changed.Procs[n].Run = wrap(p.Procs[n].Run)
		}
		list[i] = &changed
	}
	return list
}

// faulty mounts, over each transport, a server with some procedures replaced.
func faulty(t *testing.T, rows map[uint32]func(run) run, f func(t *testing.T, fsys *nfsclient.FS)) {
	t.Helper()
	rdma, tcp := servePrograms(t, programs(t, rows)...)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(tr.String(), func(t *testing.T) {
			fsys, err := dial(t, tr, rdma, tcp, nfsclient.Options{}).Mount(t.Context(), exportName)
			must.Succeed(t, err)
			f(t, fsys)
		})
	}
}

// answer makes a function for rows: the procedure returns a fixed result.
func answer(res xdr.Marshaler) func(run) run {
	return func(run) run {
		return func(c *transport.Call) error {
			c.Args.Rest()
			res.EncodeXDR(c.Res)
			return nil
		}
	}
}

func TestJukeboxIsAskedAgain(t *testing.T) {
	var calls atomic.Int32
	rows := map[uint32]func(run) run{nfs3.ProcGetattr: func(real run) run {
		return func(c *transport.Call) error {
			if calls.Add(1)%3 != 0 {
				c.Res.Uint32(uint32(nfs3.ErrJukebox))
				return nil
			}
			return real(c)
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		before := calls.Load()
		if _, err := fsys.Stat(t.Context(), "/"); err != nil || calls.Load()-before != 3 {
			t.Errorf("%v after %d calls", err, calls.Load()-before)
		}
	})
}

// A verifier that changes between WRITE and COMMIT means possible data loss (RFC 1813 §3.3.21).
func TestLostWrites(t *testing.T) {
	var restarted atomic.Bool
	rows := map[uint32]func(run) run{nfs3.ProcCommit: func(real run) run {
		return func(c *transport.Call) error {
			if !restarted.Swap(false) {
				return real(c)
			}
			(&nfs3.CommitRes{Verf: nfs3.Verf{1}}).EncodeXDR(c.Res)
			return nil
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		_, err = f.Write([]byte("data"))
		must.Succeed(t, err)
		restarted.Store(true)
		if err := f.Sync(); !errors.Is(err, nfsclient.ErrLostWrites) {
			t.Errorf("Sync: %v, want ErrLostWrites", err)
		}
		_, err = f.WriteAt([]byte("data"), 0) // the data is written again
		must.Succeed(t, err)
		must.Succeed(t, f.Sync())
		restarted.Store(true) // all data is synced, so Close sends no COMMIT
		must.Succeed(t, f.Close())
		restarted.Store(false)
	})
}

// The server restarts between two writes, and COMMIT returns the second one's verifier. Only the
// two WRITE replies show the possible loss of the first (RFC 1813 §3.3.7).
func TestChangedVerifierBetweenWrites(t *testing.T) {
	var n atomic.Uint32
	verf := func() nfs3.Verf { return nfs3.Verf{byte(n.Load())} }
	rows := map[uint32]func(run) run{
		nfs3.ProcWrite: func(run) run {
			return func(c *transport.Call) error {
				var a nfs3.WriteArgs
				a.DecodeXDR(c.Args)
				(&nfs3.WriteRes{Count: a.Count, Verf: verf()}).EncodeXDR(c.Res)
				return nil
			}
		},
		nfs3.ProcCommit: func(run) run {
			return func(c *transport.Call) error {
				c.Args.Rest()
				(&nfs3.CommitRes{Verf: verf()}).EncodeXDR(c.Res)
				return nil
			}
		},
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		for _, restart := range []uint32{0, 1} {
			n.Add(restart)
			_, err = f.WriteAt([]byte("data"), 0)
			must.Succeed(t, err)
		}
		if err := f.Sync(); !errors.Is(err, nfsclient.ErrLostWrites) {
			t.Errorf("Sync after a restart between two writes: %v, want ErrLostWrites", err)
		}
		for range 2 { // both blocks are written again, without a restart between
			_, err = f.WriteAt([]byte("data"), 0)
			must.Succeed(t, err)
		}
		must.Succeed(t, f.Close())
	})
}

// A server may read and write less than requested (RFC 1813 §3.3.6, §3.3.7).
func TestShortTransfers(t *testing.T) {
	const most = 1000
	content := random(10_123, 9)
	var mu sync.Mutex // guards stored
	stored := make([]byte, len(content))
	rows := map[uint32]func(run) run{
		nfs3.ProcRead: func(run) run {
			return func(c *transport.Call) error {
				var a nfs3.ReadArgs
				a.DecodeXDR(c.Args)
				p := content[min(a.Offset, uint64(len(content))):]
				n := min(len(p), most, int(a.Count))
				(&nfs3.ReadRes{Count: uint32(n), EOF: n == len(p), Data: p[:n]}).EncodeXDR(c.Res)
				return nil
			}
		},
		nfs3.ProcWrite: func(run) run {
			return func(c *transport.Call) error {
				var a nfs3.WriteArgs
				a.DecodeXDR(c.Args)
				mu.Lock()
				defer mu.Unlock()
				n := copy(stored[a.Offset:], a.Data[:min(most, len(a.Data))])
				(&nfs3.WriteRes{Count: uint32(n), Committed: nfs3.FileSync}).EncodeXDR(c.Res)
				return nil
			}
		},
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		mu.Lock()
		clear(stored)
		mu.Unlock()
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		if n, err := f.WriteAt(content, 0); n != len(content) || err != nil {
			t.Errorf("WriteAt: %d, %v", n, err)
		}
		mu.Lock()
		if !bytes.Equal(stored, content) {
			t.Error("what was stored differs")
		}
		mu.Unlock()
		got := make([]byte, len(content)+5)
		n, err := f.ReadAt(got, 0)
		if err != io.EOF {
			t.Errorf("ReadAt: got %v, want %v", err, io.EOF)
		}
		if !bytes.Equal(got[:n], content) {
			t.Errorf("ReadAt: %d bytes, want %d with the right content", n, len(content))
		}
	})
}

// A server may omit everything optional in RFC 1813, and lack READDIRPLUS.
func TestPoorServer(t *testing.T) {
	strip := func(real run, res xdr.Unmarshaler, edit func()) run {
		return func(c *transport.Call) error {
			at := c.Res.Len()
			if err := real(c); err != nil {
				return err
			}
			res.DecodeXDR(xdr.NewDecoder(bytes.Clone(c.Res.Bytes()[at:])))
			edit()
			c.Res.Truncate(at)
			res.(xdr.Marshaler).EncodeXDR(c.Res)
			return nil
		}
	}
	rows := map[uint32]func(run) run{
		nfs3.ProcReaddirplus: answer(&nfs3.ReaddirplusRes{Status: nfs3.ErrNotSupp}),
		nfs3.ProcLookup: func(real run) run {
			var r nfs3.LookupRes
			return strip(real, &r, func() { r.Attr, r.DirAttr = nfs3.PostOpAttr{}, nfs3.PostOpAttr{} })
		},
		nfs3.ProcCreate: func(real run) run {
			var r nfs3.CreateRes
			return strip(real, &r, func() { r.FH, r.Attr, r.DirWcc = nfs3.PostOpFH{}, nfs3.PostOpAttr{}, nfs3.WccData{} })
		},
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "d/sub", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "d/f", []byte("x"), 0o600))
		list, err := fsys.ReadDir(ctx, "d")
		must.Succeed(t, err)
		if len(list) != 2 {
			t.Fatalf("listing: %v, want two names", list)
		}
		if list[0].Name() != "f" || list[0].IsDir() {
			t.Errorf("first name: %v, want the file f", list[0])
		}
		if !list[1].IsDir() {
			t.Errorf("second name: %v, want a directory", list[1])
		}
		must.Succeed(t, fsys.RemoveAll(ctx, "d"))
	})
}

func TestHostileListings(t *testing.T) {
	listing := func(names ...string) *nfs3.ReaddirplusRes {
		r := &nfs3.ReaddirplusRes{}
		for i, n := range names {
			r.Entries = append(r.Entries, nfs3.EntryPlus{Fileid: 1, Name: []byte(n), Cookie: uint64(i + 1)})
		}
		return r
	}
	for name, res := range map[string]*nfs3.ReaddirplusRes{
		"name with a slash":    listing("../../etc/passwd"),
		"empty name":           listing(""),
		"zero byte":            listing("a\x00b"),
		"nothing and no end":   listing(),
		"the same for ever":    listing("a", "b"),
		"more than was wanted": listing(slices.Repeat([]string{string(make([]byte, 4000))}, 100)...),
	} {
		t.Run(name, func(t *testing.T) {
			faulty(t, map[uint32]func(run) run{nfs3.ProcReaddirplus: answer(res)}, func(t *testing.T, fsys *nfsclient.FS) {
				if list, err := fsys.ReadDir(t.Context(), "/"); err == nil {
					t.Errorf("%d entries and no error", len(list))
				}
			})
		})
	}
}

func TestHostileData(t *testing.T) {
	rows := map[uint32]func(run) run{
		nfs3.ProcRead:  answer(&nfs3.ReadRes{Count: 100, Data: make([]byte, 100)}),
		nfs3.ProcWrite: answer(&nfs3.WriteRes{Count: 1000, Committed: nfs3.FileSync}),
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		buf := bytes.Repeat([]byte{0xA5}, 64)
		if n, err := f.ReadAt(buf[:10], 0); err == nil || n != 0 {
			t.Errorf("100 bytes for 10: %d, %v", n, err)
		}
		if bytes.Count(buf[10:], []byte{0xA5}) != 54 {
			t.Error("bytes after the slice were written")
		}
		if n, err := f.WriteAt(buf[:10], 0); err == nil || n != 0 {
			t.Errorf("1000 bytes written of 10: %d, %v", n, err)
		}
	})
}

// An empty READ before the end must not repeat forever.
func TestNoProgress(t *testing.T) {
	faulty(t, map[uint32]func(run) run{nfs3.ProcRead: answer(&nfs3.ReadRes{})}, func(t *testing.T, fsys *nfsclient.FS) {
		f, err := fsys.Create(t.Context(), "f", 0o600)
		must.Succeed(t, err)
		if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("ReadAt: %v", err)
		}
	})
}

// Each status of RFC 1813 §2.6 maps to the expected error.
func TestStatuses(t *testing.T) {
	var status atomic.Uint32
	rows := map[uint32]func(run) run{nfs3.ProcGetattr: func(run) run {
		return func(c *transport.Call) error {
			c.Res.Uint32(status.Load())
			return nil
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		for s, want := range map[nfs3.Status]error{
			nfs3.ErrPerm: fs.ErrPermission, nfs3.ErrNoEnt: fs.ErrNotExist, nfs3.ErrIO: syscall.EIO, nfs3.ErrNXIO: syscall.ENXIO,
			nfs3.ErrAcces: fs.ErrPermission, nfs3.ErrExist: fs.ErrExist, nfs3.ErrXDev: syscall.EXDEV, nfs3.ErrNoDev: syscall.ENODEV,
			nfs3.ErrNotDir: syscall.ENOTDIR, nfs3.ErrIsDir: syscall.EISDIR, nfs3.ErrInval: fs.ErrInvalid, nfs3.ErrFBig: syscall.EFBIG,
			nfs3.ErrNoSpc: syscall.ENOSPC, nfs3.ErrROFS: syscall.EROFS, nfs3.ErrMLink: syscall.EMLINK,
			nfs3.ErrNameTooLong: syscall.ENAMETOOLONG, nfs3.ErrNotEmpty: syscall.ENOTEMPTY, nfs3.ErrDQuot: syscall.EDQUOT,
			nfs3.ErrStale: syscall.ESTALE, nfs3.ErrRemote: syscall.EREMOTE, nfs3.ErrBadHandle: syscall.ESTALE,
			nfs3.ErrNotSupp: errors.ErrUnsupported, nfs3.ErrServerFault: syscall.EIO, nfs3.ErrBadType: fs.ErrInvalid, 4711: syscall.EIO,
		} {
			status.Store(uint32(s))
			_, err := fsys.Stat(t.Context(), "/")
			if !errors.Is(err, want) || !errors.Is(err, s) {
				t.Errorf("%s gives %v, which is not %v", s, err, want)
			}
		}
	})
}

// MOUNT on a separate port, as on Linux.
func TestMountElsewhere(t *testing.T) {
	all := programs(t, nil)
	isNFS := func(p *transport.Program) bool { return p.Number == nfs3.Program }
	isMount := func(p *transport.Program) bool { return p.Number == mount3.Program }
	rdma, tcp := servePrograms(t, slices.DeleteFunc(slices.Clone(all), isMount)...)
	_, mountd := servePrograms(t, slices.DeleteFunc(slices.Clone(all), isNFS)...)
	_, port, _ := net.SplitHostPort(mountd)
	mountPort, _ := strconv.Atoi(port)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		c := dial(t, tr, rdma, tcp, nfsclient.Options{MountPort: mountPort, Conns: 3})
		fsys, rest, err := c.MountPath(t.Context(), exportName+"/x")
		must.Succeed(t, err)
		must.Succeed(t, fsys.WriteFile(t.Context(), rest, []byte("x"), 0o600))
		must.Succeed(t, fsys.Remove(t.Context(), rest))
	}
}
