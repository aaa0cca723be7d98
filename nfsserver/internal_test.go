// Tests of units: MAC, handles, statuses, and a failing disk.

package nfsserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestSipHash: the MACs equal the vectors that the authors published for key 00 01 … 0f and input
// 00 01 ….
func TestSipHash(t *testing.T) {
	var key [KeySize]byte
	in := make([]byte, 16)
	for i := range key {
		key[i], in[i] = byte(i), byte(i)
	}
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		if got := newSipKey(&key).sum(in[:n]); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

func TestHandle(t *testing.T) {
	k := newSipKey(&[KeySize]byte{1})
	for n := 1; n <= MaxRef; n++ {
		r, ok := MakeRef(bytes.Repeat([]byte{byte(n)}, n))
		if !ok {
			t.Fatalf("a Ref of %d bytes is refused", n)
		}
		var h handle
		k.seal(&h, 77, &r)
		if len(h.bytes()) > nfs3.FHSize {
			t.Errorf("a handle of %d bytes", len(h.bytes()))
		}
		if id, got, ok := k.open(h.bytes()); !ok || id != 77 || got != r {
			t.Errorf("Ref of %d bytes: opened as %v %v %v", n, id, got, ok)
		}
		if _, _, ok := newSipKey(&[KeySize]byte{2}).open(h.bytes()); ok {
			t.Error("opened with another key")
		}
		for cut := range h.n {
			if _, _, ok := k.open(h.bytes()[:cut]); ok {
				t.Errorf("opened when cut to %d bytes", cut)
			}
		}
	}
	for _, n := range []int{0, MaxRef + 1} {
		if _, ok := MakeRef(make([]byte, n)); ok {
			t.Errorf("a Ref of %d bytes is taken", n)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		var h handle
		r := Ref{n: 20}
		k.seal(&h, 1, &r)
		if _, _, ok := k.open(h.bytes()); !ok {
			t.Fatal("not opened")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTreeHandle: a handle in a tree has the expected bytes, for a Ref of each length.
func TestTreeHandle(t *testing.T) {
	k := newSipKey(&[KeySize]byte{1})
	var h handle
	k.sealTree(&h, 0x0a0b0c0d, 0x1122334455667788, &Ref{n: 3, b: [MaxRef]byte{1, 2, 3}})
	got := append([]byte{}, h.bytes()...)
	clear(got[8:16])
	if want := []byte{2, 0x11, 0x22, 0x33, 0xa, 0xb, 0xc, 0xd, 0, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x55, 0x66, 0x77, 0x88, 1, 2, 3}; !bytes.Equal(got, want) {
		t.Errorf("without the MAC: %x, want %x", got, want)
	}
	for n := 1; n <= MaxTreeRef; n++ {
		r, _ := MakeRef(bytes.Repeat([]byte{byte(n)}, n))
		tree := uint64(n) * 0x0123456789abcdef
		k.sealTree(&h, 77, tree, &r)
		if id, got, ok := k.open(h.bytes()); !ok || id != 77 || got != r {
			t.Errorf("Ref of %d bytes: opened as %v %v %v", n, id, got, ok)
		}
		if got, ok := handleTree(h.bytes()); !ok || got != tree {
			t.Errorf("tree %#x, %v, want %#x", got, ok, tree)
		}
		for cut := range h.n {
			if _, _, ok := k.open(h.bytes()[:cut]); ok {
				t.Errorf("opened when cut to %d bytes", cut)
			}
		}
	}
	if k.sealTree(&h, 77, 1, &Ref{n: MaxTreeRef + 1}); h.n != 0 {
		t.Errorf("a handle of %d bytes for a Ref without room", h.n)
	}
}

func FuzzHandle(f *testing.F) {
	k := newSipKey(&[KeySize]byte{1})
	var h handle
	k.seal(&h, 1, &Ref{n: 20})
	f.Add(h.bytes())
	k.sealTree(&h, 1, 1<<63, &Ref{n: 20})
	f.Add(h.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		id, r, ok := k.open(b)
		if !ok {
			return
		}
		var h handle
		if tree, ok := handleTree(b); ok {
			k.sealTree(&h, id, tree, &r)
		} else {
			k.seal(&h, id, &r)
		}
		if !bytes.Equal(h.bytes(), b) {
			t.Errorf("%x opens, and seals as %x", b, h.bytes())
		}
	})
}

func TestStatus(t *testing.T) {
	for _, s := range []struct {
		err  error
		want nfs3.Status
	}{
		{nil, nfs3.OK}, {nfs3.ErrNotSync, nfs3.ErrNotSync}, {ErrStale, nfs3.ErrStale}, {ErrBadType, nfs3.ErrBadType}, {ErrBadCookie, nfs3.ErrBadCookie},
		{ErrBusy, nfs3.ErrJukebox}, {fs.ErrNotExist, nfs3.ErrNoEnt}, {fs.ErrExist, nfs3.ErrExist}, {fs.ErrPermission, nfs3.ErrAcces}, {fs.ErrInvalid, nfs3.ErrInval},
		{errors.New("?"), nfs3.ErrIO}, {syscall.ENOENT, nfs3.ErrNoEnt}, {syscall.EIO, nfs3.ErrIO}, {syscall.ENOSPC, nfs3.ErrNoSpc}, {syscall.EDQUOT, nfs3.ErrDQuot},
		{syscall.EROFS, nfs3.ErrROFS}, {syscall.EMLINK, nfs3.ErrMLink}, {syscall.ESTALE, nfs3.ErrStale}, {syscall.EXDEV, nfs3.ErrXDev},
		{syscall.EMFILE, nfs3.ErrJukebox}, {syscall.EINTR, nfs3.ErrJukebox}, {syscall.EPERM, nfs3.ErrPerm}, {syscall.EACCES, nfs3.ErrAcces}, {syscall.ENOTTY, nfs3.ErrIO},
		{fmt.Errorf("wrapped: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EISDIR}), nfs3.ErrIsDir},
	} {
		if got := status(s.err); got != s.want {
			t.Errorf("%v: %v, want %v", s.err, got, s.want)
		}
	}
}

// TestWireTime: the wire form covers the years 1970 to 2106. Times outside are clamped, and those
// just inside are unchanged.
func TestWireTime(t *testing.T) {
	const last = 1<<32 - 1
	for at, want := range map[Time]nfs3.Time{
		{Sec: -1, Nsec: 5}: {}, {Nsec: 5}: {Nsec: 5}, {Sec: last, Nsec: 5}: {Sec: last, Nsec: 5}, {Sec: last - 1, Nsec: 5}: {Sec: last - 1, Nsec: 5},
		{Sec: last + 1}: {Sec: last, Nsec: 999999999},
	} {
		if got := wireTime(at); got != want {
			t.Errorf("%v is %v on the wire, want %v", at, got, want)
		}
	}
}

// badDisk is an FS whose Sync fails.
type badDisk struct {
	FS
	err error
}

func (b *badDisk) Sync(Ref, bool) error { return b.err }

// TestFailedSync: a disk error is reported, and the verifier changes, so all clients send their
// unstable data again.
func TestFailedSync(t *testing.T) {
	disk := &badDisk{}
	o := object{x: &export{fs: disk}, may: &rights{}}
	o.x.written.renew()
	v := o.x.written.get()
	if err := o.x.stable(&o.ref, false); err != nil || o.x.written.get() != v {
		t.Errorf("a good Sync: %v", err)
	}
	disk.err = syscall.EIO
	if err := o.x.stable(&o.ref, true); status(err) != nfs3.ErrIO || o.x.written.get() == v {
		t.Errorf("a failed Sync: %v, new verifier: %v", err, o.x.written.get() != v)
	}
	v = o.x.written.get()
	if err := o.syncChanged(nil, &o.ref); status(err) != nfs3.ErrIO || o.x.written.get() == v {
		t.Errorf("a failed Sync of names: %v", err)
	}
	if err := o.syncChanged(ErrStale, &o.ref); err != ErrStale {
		t.Errorf("after a failed operation: %v", err)
	}
	o.may.async = true
	if err := o.syncChanged(nil, &o.ref); err != nil {
		t.Errorf("with AsyncNames: %v", err)
	}
}

// A usedFS reports which files are in use.
type usedFS struct {
	NonBlocker
	used bool
}

func (f usedFS) InUse(Ref) bool { return f.used }

// TestShortWrites: a short WRITE has few bytes, need not be stable, and does not wait for a disk.
// Its file is in use on this machine.
func TestShortWrites(t *testing.T) {
	for _, x := range []struct {
		name        string
		quick, used bool
		args        nfs3.WriteArgs
		want        bool
	}{
		{"4 KiB", true, true, nfs3.WriteArgs{Count: 4096}, true},
		{"the longest", true, true, nfs3.WriteArgs{Count: 16 << 10, Offset: 1 << 40}, true},
		{"longer", true, true, nfs3.WriteArgs{Count: 16<<10 + 1}, false},
		{"stable", true, true, nfs3.WriteArgs{Count: 4096, Stable: nfs3.FileSync}, false},
		{"data stable", true, true, nfs3.WriteArgs{Count: 4096, Stable: nfs3.DataSync}, false},
		{"elsewhere", false, true, nfs3.WriteArgs{Count: 4096}, false},
		{"not in use", true, false, nfs3.WriteArgs{Count: 4096}, false},
	} {
		e := &export{info: Info{Quick: x.quick}, opt: optional{now: usedFS{used: x.used}}}
		q := request{object: object{x: e}, srv: new(Server), call: new(transport.Call)}
		if got := q.short(&x.args); got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
		if q.srv.squash.ManageGIDs = true; q.short(&x.args) {
			t.Errorf("%s: short, though groups are looked up", x.name)
		}
	}
}
