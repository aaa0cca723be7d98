// Procedures for files and names over TCP, in the order of RFC 1813 §3.3.

package nfsserver_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// eachFS runs a test on every FS, with a connection as root that has mounted the export.
func eachFS(t *testing.T, test func(c *client, h *host)) {
	for name, mk := range map[string]func(*testing.T) nfsserver.FS{"memfs": memory, "osfs": disk} {
		t.Run(name, func(t *testing.T) {
			if name == "osfs" && os.Geteuid() != 0 {
				t.Skip("acting as another user needs root")
			}
			h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: mk(t)}}})
			test(h.dial(root).mount("/x"), h)
		})
	}
}

// bareFS is an FS whose Info is the zero value.
type bareFS struct{ nfsserver.FS }

func (bareFS) Info() nfsserver.Info { return nfsserver.Info{} }

// TestZeroInfoIsUsable: an FS whose Info has no limits gets the defaults. A limit of 0 would refuse
// everything.
func TestZeroInfoIsUsable(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: bareFS{memory(t)}}}})
	c := h.dial(root).mount("/x")
	c.want("LOOKUP of a new file", c.lookup(c.root, "f").Status, nfs3.ErrNoEnt)
	f := c.file(c.root, strings.Repeat("f", 255), 0o600)
	c.want("WRITE", c.write(f, 1<<20, "x", nfs3.FileSync).Status, nfs3.OK)
	c.want("LOOKUP of a long name", c.lookup(c.root, strings.Repeat("f", 256)).Status, nfs3.ErrNameTooLong)
	var conf nfs3.PathconfRes
	c.call(nfs3.ProcPathconf, &nfs3.PathconfArgs{FH: c.root}, &conf)
	if conf.NameMax != 255 || conf.Linkmax != 1 {
		t.Errorf("names of %d bytes and %d links, want 255 and 1", conf.NameMax, conf.Linkmax)
	}
	var info nfs3.FsinfoRes
	c.call(nfs3.ProcFsinfo, &nfs3.FsinfoArgs{FH: c.root}, &info)
	if info.Maxfilesize != math.MaxInt64 || info.TimeDelta != (nfs3.Time{Nsec: 1}) {
		t.Errorf("files of %d bytes and times of %v, want %d and a nanosecond", info.Maxfilesize, info.TimeDelta, int64(math.MaxInt64))
	}
}

func TestNull(t *testing.T) {
	eachFS(t, func(c *client, h *host) { c.call(nfs3.ProcNull, void{}, void{}) })
}

func TestGetattrSetattr(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		before := c.attr(f)
		when := nfs3.Time{Sec: 1234567890, Nsec: 987654321}
		res := c.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o600, SetUID: true, UID: 7, SetGID: true, GID: 8, SetSize: true, Size: 99,
			AtimeHow: nfs3.SetToClientTime, Atime: when, MtimeHow: nfs3.SetToClientTime, Mtime: when})
		c.want("SETATTR", res.Status, nfs3.OK)
		if !res.Wcc.Before.Present || res.Wcc.Before.Attr != before.Wcc() {
			t.Errorf("attributes before: %+v, want %+v", res.Wcc.Before, before.Wcc())
		}
		after := c.attr(f)
		if !res.Wcc.After.Present || res.Wcc.After.Attr != after {
			t.Errorf("attributes after: %+v, want %+v", res.Wcc.After.Attr, after)
		}
		if got, want := [3]uint32{after.Mode, after.UID, after.GID}, [3]uint32{0o600, 7, 8}; got != want || after.Size != 99 {
			t.Errorf("after SETATTR: mode, uid and gid %v, size %d, want %v and 99", got, after.Size, want)
		}
		if after.Atime != when || after.Mtime != when {
			t.Errorf("after SETATTR: atime %v, mtime %v, want %v", after.Atime, after.Mtime, when)
		}
		res = c.setattr(f, nfs3.Sattr{AtimeHow: nfs3.SetToServerTime, MtimeHow: nfs3.SetToServerTime})
		c.want("SETATTR server time", res.Status, nfs3.OK)
		if a := c.attr(f); a.Mtime.Sec <= when.Sec || a.Atime.Sec <= when.Sec {
			t.Errorf("server time: %+v", a)
		}
		c.want("SETATTR bad nanoseconds", c.setattr(f, nfs3.Sattr{AtimeHow: nfs3.SetToClientTime, Atime: nfs3.Time{Nsec: 1e9}}).Status, nfs3.ErrInval)
		c.want("SETATTR size too large", c.setattr(f, nfs3.Sattr{SetSize: true, Size: math.MaxUint64}).Status, nfs3.ErrFBig)
		c.want("SETATTR size of a directory", c.setattr(c.root, nfs3.Sattr{SetSize: true}).Status, nfs3.ErrIsDir)
	})
}

func TestSetattrGuard(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		ctime := c.attr(f).Ctime
		var res nfs3.SetattrRes
		args := nfs3.SetattrArgs{FH: f, Attr: nfs3.Sattr{SetMode: true, Mode: 0o400}, Guard: true, GuardCtime: nfs3.Time{Sec: ctime.Sec, Nsec: ctime.Nsec ^ 1}}
		c.call(nfs3.ProcSetattr, &args, &res)
		c.want("SETATTR guarded by another ctime", res.Status, nfs3.ErrNotSync)
		if a := c.attr(f); a.Mode != 0o644 {
			t.Errorf("after NOT_SYNC: mode %o, want 644", a.Mode)
		}
		if !res.Wcc.Before.Present || !res.Wcc.After.Present {
			t.Errorf("after NOT_SYNC: wcc %+v, want both parts", res.Wcc)
		}
		args.GuardCtime = ctime
		c.call(nfs3.ProcSetattr, &args, &res)
		c.want("SETATTR guarded by the ctime", res.Status, nfs3.OK)
		if a := c.attr(f); a.Mode != 0o400 {
			t.Errorf("mode %o", a.Mode)
		}
	})
}

func TestLookupProc(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		d := c.dir(c.root, "d", 0o755)
		f := c.file(d, "f", 0o644)
		res := c.lookup(d, "f")
		c.want("LOOKUP", res.Status, nfs3.OK)
		if res.FH != f {
			t.Errorf("LOOKUP: handle %v, want %v", res.FH, f)
		}
		if res.Attr.Attr != c.attr(f) || res.DirAttr.Attr != c.attr(d) {
			t.Errorf("LOOKUP: attributes %+v and %+v, want those of GETATTR", res.Attr, res.DirAttr)
		}
		for _, l := range []struct {
			dir  nfs3.FH
			name string
			want nfs3.Status
		}{
			{d, "nothing", nfs3.ErrNoEnt}, {f, "x", nfs3.ErrNotDir}, {d, "", nfs3.ErrAcces}, {d, "a/b", nfs3.ErrAcces}, {d, "/", nfs3.ErrAcces},
			{d, "a\x00b", nfs3.ErrAcces}, {d, strings.Repeat("n", 256), nfs3.ErrNameTooLong}, {d, strings.Repeat("n", 4096), nfs3.ErrNameTooLong},
			{d, "../d", nfs3.ErrAcces}, {d, ".", nfs3.OK}, {d, "..", nfs3.OK},
		} {
			res := c.lookup(l.dir, l.name)
			c.want("LOOKUP "+l.name, res.Status, l.want)
			if !res.DirAttr.Present {
				t.Errorf("LOOKUP %q: no attributes of the directory", l.name)
			}
		}
		if res := c.lookup(d, ".."); res.FH != c.root {
			t.Error("LOOKUP ..: not the parent")
		}
		if res := c.lookup(c.root, ".."); res.FH != c.root {
			t.Error("LOOKUP .. of the root: not the root")
		}
	})
}

func TestReadProc(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		c.want("WRITE", c.write(f, 0, "0123456789", nfs3.FileSync).Status, nfs3.OK)
		for _, r := range []struct {
			off  uint64
			n    uint32
			want string
			eof  bool
		}{
			{0, 10, "0123456789", true}, {0, 9, "012345678", false}, {5, 100, "56789", true}, {9, 1, "9", true}, {0, 0, "", false},
			{10, 0, "", true}, {10, 5, "", true}, {11, 5, "", true}, {math.MaxUint64, 5, "", true}, {math.MaxInt64, math.MaxUint32, "", true},
			{0, math.MaxUint32, "0123456789", true},
		} {
			res, data := c.read(f, r.off, r.n)
			c.want(fmt.Sprintf("READ %d at %d", r.n, r.off), res.Status, nfs3.OK)
			if data != r.want || res.EOF != r.eof {
				t.Errorf("READ %d at %d: %q, EOF %v, want %q and %v", r.n, r.off, data, res.EOF, r.want, r.eof)
			}
			if int(res.Count) != len(data) {
				t.Errorf("READ %d at %d: count %d, want %d", r.n, r.off, res.Count, len(data))
			}
			if !res.Attr.Present || res.Attr.Attr.Size != 10 {
				t.Errorf("READ %d at %d: attributes %+v, want size 10", r.n, r.off, res.Attr)
			}
		}
		res, _ := c.read(c.root, 0, 10)
		c.want("READ of a directory", res.Status, nfs3.ErrIsDir)
		if !res.Attr.Present {
			t.Error("READ of a directory: no attributes")
		}
		l := c.symlink(c.root, "l", "f")
		res, _ = c.read(l.FH.FH, 0, 10)
		c.want("READ of a symbolic link", res.Status, nfs3.ErrInval)
	})
}

func TestReadWriteSizes(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		viaRDMA := h.dialRDMA(root).mount("/x")
		f := c.file(c.root, "f", 0o644)
		for _, size := range []int{1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65537, 1<<20 - 1, 1 << 20} {
			for i, c := range []*client{c, viaRDMA} {
				data := strings.Repeat(string(rune('a'+i))+"bcdefg", size/7+1)[:size]
				off := uint64(size % 5)
				w := c.write(f, off, data, nfs3.Unstable)
				c.want("WRITE", w.Status, nfs3.OK)
				if int(w.Count) != size || w.Committed > nfs3.FileSync {
					t.Fatalf("WRITE %d: %d bytes, committed %v, want all and a valid level", size, w.Count, w.Committed)
				}
				r, got := c.read(f, off, uint32(size))
				if r.Status != nfs3.OK || got != data {
					t.Errorf("READ %d at %d: %v, %d bytes", size, off, r.Status, len(got))
				}
			}
		}
		big := strings.Repeat("x", 1<<20+10)
		if w := c.write(f, 0, big, nfs3.Unstable); w.Status != nfs3.OK || w.Count != nfsserver.MaxIO {
			t.Errorf("WRITE over wtmax: %v, %d bytes", w.Status, w.Count)
		}
		r, got := c.read(f, 0, 1<<20+10)
		c.want("READ over rtmax", r.Status, nfs3.OK)
		if len(got) != nfsserver.MaxIO || r.EOF {
			t.Errorf("READ over rtmax: %d bytes, EOF %v, want %d and false", len(got), r.EOF, nfsserver.MaxIO)
		}
	})
}

func TestWriteProc(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		before := c.attr(f)
		verf := c.write(f, 0, "", nfs3.Unstable).Verf
		for _, how := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
			res := c.write(f, uint64(how)*3, "abc", how)
			c.want("WRITE", res.Status, nfs3.OK)
			if res.Count != 3 || res.Committed < how {
				t.Errorf("WRITE %v: %d bytes, committed %v, want 3 bytes, at least as stable", how, res.Count, res.Committed)
			}
			if res.Verf != verf {
				t.Errorf("WRITE %v: verifier %x, want %x", how, res.Verf, verf)
			}
			if !res.Wcc.Before.Present || res.Wcc.Before.Attr != before.Wcc() {
				t.Errorf("WRITE %v: attributes before %+v, want %+v", how, res.Wcc.Before, before.Wcc())
			}
			if is := c.attr(f); res.Wcc.After.Attr != is {
				t.Errorf("WRITE %v: attributes after %+v, want %+v", how, res.Wcc.After, is)
			}
			before = c.attr(f)
		}
		committed := c.commit(f)
		c.want("COMMIT", committed.Status, nfs3.OK)
		if committed.Verf != verf {
			t.Errorf("COMMIT: verifier %x, want %x", committed.Verf, verf)
		}
		if !committed.Wcc.After.Present || !committed.Wcc.Before.Present {
			t.Errorf("COMMIT: wcc %+v, want both parts", committed.Wcc)
		}
		for _, w := range []struct {
			off  uint64
			want nfs3.Status
		}{{math.MaxUint64, nfs3.ErrFBig}, {math.MaxInt64, nfs3.ErrFBig}, {math.MaxUint64 - 1, nfs3.ErrFBig}} {
			res := c.write(f, w.off, "xy", nfs3.Unstable)
			c.want("WRITE far out", res.Status, w.want)
			if !res.Wcc.Before.Present || !res.Wcc.After.Present {
				t.Error("WRITE far out: no wcc data")
			}
		}
		var res nfs3.WriteRes
		for _, count := range []uint32{0, 2, 4, math.MaxUint32} {
			c.call(nfs3.ProcWrite, &nfs3.WriteArgs{FH: f, Count: count, Data: []byte("abc")}, &res)
			c.want("WRITE whose count is not its data's", res.Status, nfs3.ErrInval)
		}
		c.want("WRITE of a directory", c.write(c.root, 0, "x", nfs3.Unstable).Status, nfs3.ErrIsDir)
		c.want("COMMIT of a directory", c.commit(c.root).Status, nfs3.ErrIsDir)
		if a := c.attr(f); a.Size != 9 {
			t.Errorf("size %d after all", a.Size)
		}
	})
}

func TestCreateProc(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		mode := nfs3.Sattr{SetMode: true, Mode: 0o640}
		before := c.attr(c.root)
		res := c.create(c.root, "f", nfs3.Guarded, mode, nfs3.Verf{})
		c.want("CREATE", res.Status, nfs3.OK)
		if !res.FH.Present {
			t.Fatal("CREATE: no handle")
		}
		if is := c.attr(res.FH.FH); res.Attr.Attr != is || is.Mode != 0o640 {
			t.Fatalf("CREATE: attributes %+v, want %+v, with mode 640", res.Attr, is)
		}
		if res.DirWcc.Before.Attr != before.Wcc() || res.DirWcc.After.Attr != c.attr(c.root) {
			t.Errorf("CREATE: wcc %+v", res.DirWcc)
		}
		f := res.FH.FH
		c.write(f, 0, "content", nfs3.FileSync)
		res = c.create(c.root, "f", nfs3.Guarded, mode, nfs3.Verf{})
		c.want("CREATE guarded again", res.Status, nfs3.ErrExist)
		if !res.DirWcc.Before.Present || !res.DirWcc.After.Present {
			t.Error("CREATE guarded again: no wcc data")
		}
		res = c.create(c.root, "f", nfs3.Unchecked, mode, nfs3.Verf{})
		c.want("CREATE unchecked again", res.Status, nfs3.OK)
		if res.FH.FH != f || res.Attr.Attr.Size != 7 {
			t.Errorf("CREATE unchecked again: handle %v, size %d, want %v and 7", res.FH.FH, res.Attr.Attr.Size, f)
		}
		cut := mode
		cut.SetSize = true
		res = c.create(c.root, "f", nfs3.Unchecked, cut, nfs3.Verf{})
		c.want("CREATE unchecked with size 0", res.Status, nfs3.OK)
		if res.FH.FH != f || res.Attr.Attr.Size != 0 {
			t.Errorf("CREATE unchecked with size 0: handle %v, size %d, want %v and 0", res.FH.FH, res.Attr.Attr.Size, f)
		}
		c.dir(c.root, "d", 0o755)
		for _, m := range []nfs3.CreateMode{nfs3.Unchecked, nfs3.Guarded, nfs3.Exclusive} {
			c.want("CREATE over a directory", c.create(c.root, "d", m, mode, nfs3.Verf{}).Status, nfs3.ErrExist)
			c.want("CREATE in a file", c.create(f, "x", m, mode, nfs3.Verf{}).Status, nfs3.ErrNotDir)
			for name, want := range badNames {
				c.want("CREATE "+name, c.create(c.root, name, m, mode, nfs3.Verf{}).Status, want)
			}
		}
	})
}

// badNames has invalid names, with their statuses.
var badNames = map[string]nfs3.Status{"": nfs3.ErrAcces, ".": nfs3.ErrExist, "..": nfs3.ErrExist, "a/b": nfs3.ErrAcces,
	"../x": nfs3.ErrAcces, "\x00": nfs3.ErrAcces, strings.Repeat("n", 256): nfs3.ErrNameTooLong}

func TestCreateExclusive(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		v := nfs3.Verf{0xff, 2, 3, 4, 0xf5, 6, 7, 8}
		first := c.create(c.root, "f", nfs3.Exclusive, nfs3.Sattr{}, v)
		c.want("CREATE exclusive", first.Status, nfs3.OK)
		again := c.create(c.root, "f", nfs3.Exclusive, nfs3.Sattr{}, v)
		if again.Status != nfs3.OK || again.FH != first.FH {
			t.Errorf("the same again: %v", again.Status)
		}
		v[7]++
		c.want("with another verifier", c.create(c.root, "f", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)
		v[7]--
		c.want("SETATTR", c.setattr(first.FH.FH, nfs3.Sattr{AtimeHow: nfs3.SetToServerTime, MtimeHow: nfs3.SetToServerTime}).Status, nfs3.OK)
		c.want("after it was set up", c.create(c.root, "f", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)
	})
}

func TestMakeOthers(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		for name, want := range badNames {
			c.want("MKDIR "+name, c.mkdir(c.root, name, 0o755).Status, want)
			c.want("SYMLINK "+name, c.symlink(c.root, name, "x").Status, want)
			c.want("MKNOD "+name, c.mknod(c.root, name, nfs3.TypeFIFO, nfs3.Specdata{}).Status, want)
		}
		d := c.mkdir(c.root, "d", 0o751)
		c.want("MKDIR", d.Status, nfs3.OK)
		if d.Attr.Attr.Type != nfs3.TypeDir || d.Attr.Attr.Mode != 0o751 {
			t.Errorf("MKDIR: %v with mode %o, want a directory with 751", d.Attr.Attr.Type, d.Attr.Attr.Mode)
		}
		for _, size := range []int{1, 3, 4, 1000, 1024, 4000, 4095} {
			target := strings.Repeat("t", size)
			for i, c := range []*client{c, h.dialRDMA(root).mount("/x")} {
				name := "l" + string(rune('0'+i))
				l := c.symlink(c.root, name, target)
				c.want("SYMLINK", l.Status, nfs3.OK)
				res, got := c.readlink(l.FH.FH)
				c.want("READLINK", res.Status, nfs3.OK)
				if got != target || !res.Attr.Present {
					t.Errorf("READLINK: %d bytes, attributes %v, want the %d of the target, and attributes", len(got), res.Attr.Present, size)
				}
				c.want("REMOVE", c.remove(c.root, name).Status, nfs3.OK)
			}
		}
		for _, target := range []string{"", "a\x00b"} {
			c.want("SYMLINK", c.symlink(c.root, "bad", target).Status, nfs3.ErrInval)
		}
		c.want("SYMLINK", c.symlink(c.root, "bad", strings.Repeat("x", 4096)).Status, nfs3.ErrNameTooLong)
		res, _ := c.readlink(c.root)
		c.want("READLINK of a directory", res.Status, nfs3.ErrInval)
		for typ, want := range map[nfs3.FileType]nfs3.Status{nfs3.TypeFIFO: nfs3.OK, nfs3.TypeSock: nfs3.OK, nfs3.TypeChr: nfs3.OK, nfs3.TypeBlk: nfs3.OK,
			nfs3.TypeReg: nfs3.ErrBadType, nfs3.TypeDir: nfs3.ErrBadType, nfs3.TypeLnk: nfs3.ErrBadType} {
			res := c.mknod(c.root, typ.String(), typ, nfs3.Specdata{Major: 1, Minor: 3})
			if res.Status == nfs3.ErrPerm && (typ == nfs3.TypeChr || typ == nfs3.TypeBlk) {
				continue // this machine does not permit devices
			}
			c.want("MKNOD "+typ.String(), res.Status, want)
			if is := res.Attr.Attr; want == nfs3.OK && (is.Type != typ || is.Mode != 0o600) {
				t.Errorf("MKNOD %v: %v with mode %o, want mode 600", typ, is.Type, is.Mode)
			}
			if typ == nfs3.TypeChr && res.Attr.Attr.Rdev != (nfs3.Specdata{Major: 1, Minor: 3}) {
				t.Errorf("MKNOD: device %+v", res.Attr.Attr.Rdev)
			}
			if want == nfs3.OK {
				c.want("WRITE of it", c.write(res.FH.FH, 0, "x", nfs3.Unstable).Status, nfs3.ErrInval)
			}
		}
	})
}

func TestBadHandles(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		good := c.root.Bytes()
		var bad []nfs3.FH
		for i := range good {
			b := bytes.Clone(good)
			b[i] ^= 1
			fh, _ := nfs3.MakeFH(b)
			bad = append(bad, fh)
		}
		for _, b := range [][]byte{nil, {1}, good[:len(good)-1], append(bytes.Clone(good), 0), make([]byte, 64)} {
			fh, _ := nfs3.MakeFH(b)
			bad = append(bad, fh)
		}
		for _, fh := range bad {
			c.want("GETATTR", c.getattr(fh).Status, nfs3.ErrBadHandle)
			c.want("LOOKUP", c.lookup(fh, "x").Status, nfs3.ErrBadHandle)
			c.want("RENAME", c.rename(c.root, "x", fh, "x").Status, nfs3.ErrBadHandle)
			c.want("LINK", c.link(fh, c.root, "x").Status, nfs3.ErrBadHandle)
			c.want("WRITE", c.write(fh, 0, "x", nfs3.Unstable).Status, nfs3.ErrBadHandle)
		}
	})
}

func TestReadOnly(t *testing.T) {
	for name, mk := range map[string]func(*testing.T) nfsserver.FS{"memfs": memory, "osfs": disk} {
		t.Run(name, func(t *testing.T) {
			fs := mk(t)
			at := nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}
			if _, _, err := fs.Create(nfsserver.Self(), fs.Root(), "f", &at); err != nil {
				t.Fatalf("Create: %v", err)
			}
			h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs, ReadOnly: true}}})
			c := h.dial(root).mount("/x")
			f := c.lookup(c.root, "f").FH
			for what, got := range map[string]nfs3.Status{
				"SETATTR": c.setattr(f, nfs3.Sattr{SetMode: true}).Status, "WRITE": c.write(f, 0, "x", nfs3.Unstable).Status,
				"CREATE": c.create(c.root, "g", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{}).Status, "MKDIR": c.mkdir(c.root, "g", 0o755).Status,
				"SYMLINK": c.symlink(c.root, "g", "x").Status, "MKNOD": c.mknod(c.root, "g", nfs3.TypeFIFO, nfs3.Specdata{}).Status,
				"REMOVE": c.remove(c.root, "f").Status, "RMDIR": c.rmdir(c.root, "f").Status, "RENAME": c.rename(c.root, "f", c.root, "g").Status,
				"LINK": c.link(f, c.root, "g").Status, "COMMIT": c.commit(f).Status,
			} {
				c.want(what, got, nfs3.ErrROFS)
			}
			if bits := c.access(f, nfs3.AccessAll); bits&(nfs3.AccessModify|nfs3.AccessExtend) != 0 || bits&nfs3.AccessRead == 0 {
				t.Errorf("ACCESS %#x", bits)
			}
		})
	}
}
