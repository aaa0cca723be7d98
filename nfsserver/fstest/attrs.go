// Checks of attributes.

package fstest

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var attrChecks = []check{
	{"attr/root", checkRoot},
	{"attr/new objects", checkNewObjects},
	{"attr/mode", checkMode},
	{"attr/times", checkTimes},
	{"attr/times now", checkTimesNow},
	{"attr/size", checkSize},
	{"attr/size of what has none", checkSizeErrors},
	{"attr/change times", checkChangeTimes},
	{"attr/link counts", checkLinkCounts},
	{"attr/symlink", checkSymlinkAttr},
	{"attr/device numbers", checkDevices},
	{"attr/statfs", checkStatfs},
	{"attr/info", checkInfo},
}

func checkRoot(t *tree) {
	a := t.attr(t.root)
	eq(t, "type", a.Type, nfsserver.TypeDir)
	eq(t, "nlink at least 1", a.Nlink >= 1, true)
	for _, name := range []string{".", ".."} {
		r, b, err := t.Lookup(t.me, t.root, name)
		t.ok(err, "Lookup "+name)
		eq(t, name+" of the root is the root", r, t.root)
		eq(t, "fileid of "+name, b.Fileid, a.Fileid)
	}
}

func checkNewObjects(t *tree) {
	before := time.Now().Add(-2 * time.Second).Unix()
	type made struct {
		name string
		typ  nfsserver.FileType
		mk   func(name string) (nfsserver.Ref, nfsserver.Attr, error)
	}
	ids := map[uint64]string{}
	for _, m := range []made{
		{"f", nfsserver.TypeReg, func(n string) (nfsserver.Ref, nfsserver.Attr, error) { return t.Create(t.me, t.root, n, mode(0o640)) }},
		{"d", nfsserver.TypeDir, func(n string) (nfsserver.Ref, nfsserver.Attr, error) { return t.Mkdir(t.me, t.root, n, mode(0o640)) }},
		{"p", nfsserver.TypeFIFO, func(n string) (nfsserver.Ref, nfsserver.Attr, error) {
			return t.Mknod(t.me, t.root, n, nfsserver.TypeFIFO, nfsserver.Rdev{}, mode(0o640))
		}},
		{"s", nfsserver.TypeSocket, func(n string) (nfsserver.Ref, nfsserver.Attr, error) {
			return t.Mknod(t.me, t.root, n, nfsserver.TypeSocket, nfsserver.Rdev{}, mode(0o640))
		}},
	} {
		if t.has(NoSpecialFiles) && (m.typ == nfsserver.TypeFIFO || m.typ == nfsserver.TypeSocket) {
			continue
		}
		r, a, err := m.mk(m.name)
		t.ok(err, "make "+m.name)
		eq(t, m.name+": type", a.Type, m.typ)
		eq(t, m.name+": mode, whatever the umask", a.Mode, 0o640)
		eq(t, m.name+": fsid", a.Fsid, t.attr(t.root).Fsid)
		for what, s := range map[string]int64{"atime": a.Atime.Sec, "mtime": a.Mtime.Sec, "ctime": a.Ctime.Sec} {
			eq(t, m.name+": recent "+what, s >= before, true)
		}
		if m.typ != nfsserver.TypeDir {
			eq(t, m.name+": nlink", a.Nlink, 1)
			eq(t, m.name+": size", a.Size, 0)
		}
		if other := ids[a.Fileid]; other != "" {
			t.Errorf("%s and %s have one fileid", m.name, other)
		}
		ids[a.Fileid] = m.name
		found, b, err := t.Lookup(t.me, t.root, m.name)
		t.ok(err, "Lookup")
		eq(t, m.name+": Ref found", found, r)
		eq(t, m.name+": attributes found", b, a)
		eq(t, m.name+": attributes asked for", t.attr(r), a)
	}
	_, _, err := t.Mknod(t.me, t.root, "r", nfsserver.TypeReg, nfsserver.Rdev{}, mode(0o600))
	t.want(err, "Mknod of a file", nfsserver.ErrBadType)
	_, _, err = t.Mknod(t.me, t.root, "r", nfsserver.TypeDir, nfsserver.Rdev{}, mode(0o700))
	t.want(err, "Mknod of a directory", nfsserver.ErrBadType)
}

func checkMode(t *tree) {
	for _, r := range []nfsserver.Ref{t.file(t.root, "f"), t.dir(t.root, "d")} {
		for _, m := range []uint32{0, 0o400, 0o777, 0o1755, 0o644} {
			t.ok(t.Setattr(t.me, r, mode(m)), "Setattr mode")
			eq(t, "mode", t.attr(r).Mode, m)
		}
	}
	f := t.find(t.root, "f")
	t.ok(t.Setattr(t.me, f, mode(0o100644)), "Setattr mode with type bits")
	eq(t, "mode has no type bits", t.attr(f).Mode, 0o644)
	t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mode: 0o777, Size: 100}), "Setattr of nothing")
	eq(t, "mode not in the mask", t.attr(f).Mode, 0o644)
	eq(t, "size not in the mask", t.attr(f).Size, 0)
}

func checkTimes(t *tree) {
	at, mt := nfsserver.Time{Sec: 1000000000, Nsec: 123456789}, nfsserver.Time{Sec: 2000000000, Nsec: 987654321}
	list := []nfsserver.Ref{t.file(t.root, "f"), t.dir(t.root, "d")}
	if !t.has(NoSymlinks) {
		list = append(list, t.link(t.root, "l", "nowhere"))
	}
	for _, r := range list {
		t.ok(t.Setattr(t.me, r, &nfsserver.SetAttr{Mask: nfsserver.SetAtime | nfsserver.SetMtime, Atime: at, Mtime: mt}), "Setattr both times")
		eq(t, "atime", t.attr(r).Atime, at)
		eq(t, "mtime", t.attr(r).Mtime, mt)
		t.ok(t.Setattr(t.me, r, &nfsserver.SetAttr{Mask: nfsserver.SetAtime, Atime: mt}), "Setattr atime")
		eq(t, "atime alone", t.attr(r).Atime, mt)
		eq(t, "mtime left", t.attr(r).Mtime, mt)
		t.ok(t.Setattr(t.me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: at}), "Setattr mtime")
		eq(t, "atime left", t.attr(r).Atime, mt)
		eq(t, "mtime alone", t.attr(r).Mtime, at)
	}
}

func checkTimesNow(t *tree) {
	old := nfsserver.Time{Sec: 1}
	f := t.file(t.root, "f")
	both := &nfsserver.SetAttr{Mask: nfsserver.SetAtime | nfsserver.SetMtime, Atime: old, Mtime: old}
	t.ok(t.Setattr(t.me, f, both), "Setattr")
	t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mask: nfsserver.SetAtimeNow}), "Setattr atime now")
	eq(t, "atime is new", t.attr(f).Atime.Sec > 1e9, true)
	eq(t, "mtime is old", t.attr(f).Mtime, old)
	t.ok(t.Setattr(t.me, f, both), "Setattr")
	t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mask: nfsserver.SetMtimeNow}), "Setattr mtime now")
	eq(t, "atime is old", t.attr(f).Atime, old)
	eq(t, "mtime is new", t.attr(f).Mtime.Sec > 1e9, true)
}

func checkSize(t *tree) {
	f := t.file(t.root, "f")
	size := func(n uint64) {
		t.Helper()
		t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: n}), "Setattr size")
		eq(t, "size", t.attr(f).Size, n)
	}
	t.put(f, "0123456789", 0)
	size(4)
	eq(t, "cut", t.get(f, 100, 0), "0123")
	size(8)
	eq(t, "what was cut is zeros", t.get(f, 100, 0), "0123\x00\x00\x00\x00")
	size(0)
	eq(t, "nothing", t.get(f, 100, 0), "")
	far := uint64(1) << 40
	if t.has(SmallFiles) {
		far = 1 << 20
	}
	size(far)
	eq(t, "a hole", t.get(f, 4, far-2), "\x00\x00")
	size(0)
	s := mode(0o600)
	s.Mask, s.Size = s.Mask|nfsserver.SetSize, 5
	_, a, err := t.Create(t.me, t.root, "sized", s)
	t.ok(err, "Create with a size")
	eq(t, "size at creation", a.Size, 5)
}

func checkSizeErrors(t *tree) {
	s := &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: 1}
	t.want(t.Setattr(t.me, t.dir(t.root, "d"), s), "size of a directory", isDir)
	if !t.has(NoSymlinks) {
		t.want(t.Setattr(t.me, t.link(t.root, "l", "x"), s), "size of a symbolic link", inval)
	}
	if !t.has(NoSpecialFiles) {
		p, _, err := t.Mknod(t.me, t.root, "p", nfsserver.TypeFIFO, nfsserver.Rdev{}, mode(0o600))
		t.ok(err, "Mknod")
		t.want(t.Setattr(t.me, p, s), "size of a FIFO", inval)
	}
	t.want(t.Setattr(t.me, t.file(t.root, "f"), &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: 1 << 63}), "size over all bounds", fbig, inval)
}

// later waits until the next change gets a later time.
func (t *tree) later() { time.Sleep(12 * time.Millisecond) } // a tick of a kernel with HZ=100 is 10 ms

// changed reports whether do changes mtime and ctime of r.
func (t *tree) changed(r nfsserver.Ref, do func()) (mtime, ctime bool) {
	t.Helper()
	before := t.attr(r)
	t.later()
	do()
	after := t.attr(r)
	return before.Mtime != after.Mtime, before.Ctime != after.Ctime
}

func checkChangeTimes(t *tree) {
	const hardLink, hardLinkRemoval, symlink = "link", "unlink of a second name", "symlink"
	f, d := t.file(t.root, "f"), t.dir(t.root, "d")
	for _, c := range []struct {
		what         string
		r            nfsserver.Ref
		mtime, ctime bool
		do           func()
	}{
		{"write", f, true, true, func() { t.put(f, "x", 0) }},
		{"read", f, false, false, func() { t.get(f, 1, 0) }},
		{"truncate", f, true, true, func() { t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mask: nfsserver.SetSize}), "truncate") }},
		{"chmod", f, false, true, func() { t.ok(t.Setattr(t.me, f, mode(0o600)), "chmod") }},
		{hardLink, f, false, true, func() { t.ok(t.Link(t.me, f, d, "g"), "Link") }},
		{hardLinkRemoval, f, false, true, func() { t.ok(t.Remove(t.me, d, "g"), "Remove") }},
		{"create", d, true, true, func() { t.file(d, "a") }},
		{"write below", d, false, false, func() { t.put(t.find(d, "a"), "x", 0) }},
		{"rename within", d, true, true, func() { t.ok(t.Rename(t.me, d, "a", d, "b"), "Rename") }},
		{"rename away", d, true, true, func() { t.ok(t.Rename(t.me, d, "b", t.root, "b"), "Rename") }},
		{"rename hither", d, true, true, func() { t.ok(t.Rename(t.me, t.root, "b", d, "b"), "Rename") }},
		{"remove", d, true, true, func() { t.ok(t.Remove(t.me, d, "b"), "Remove") }},
		{"mkdir", d, true, true, func() { t.dir(d, "s") }},
		{"rmdir", d, true, true, func() { t.ok(t.Rmdir(t.me, d, "s"), "Rmdir") }},
		{"create again", d, true, true, func() { t.file(d, "c") }},
		{symlink, d, true, true, func() { t.link(d, "l", "t") }},
		{"lookup", d, false, false, func() { t.find(d, "c") }},
		{"readdir", d, false, false, func() { t.names(d, 0, true) }},
	} {
		if t.has(NoHardLinks) && (c.what == hardLink || c.what == hardLinkRemoval) || t.has(NoSymlinks) && c.what == symlink {
			continue
		}
		mtime, ctime := t.changed(c.r, c.do)
		eq(t, c.what+": mtime changes", mtime, c.mtime)
		eq(t, c.what+": ctime changes", ctime, c.ctime)
	}
}

func checkLinkCounts(t *tree) {
	if t.has(NoHardLinks) {
		return
	}
	f := t.file(t.root, "f")
	for i, name := range []string{"g", "h", "i"} {
		t.ok(t.Link(t.me, f, t.root, name), "Link")
		eq(t, "links", t.attr(f).Nlink, uint32(i+2))
		eq(t, "one file", t.find(t.root, name), f)
	}
	for i, name := range []string{"f", "g", "h"} {
		t.ok(t.Remove(t.me, t.root, name), "Remove")
		eq(t, "links", t.attr(f).Nlink, uint32(3-i))
	}
	t.put(f, "still here", 0)
	eq(t, "content", t.get(t.find(t.root, "i"), 100, 0), "still here")
}

func checkSymlinkAttr(t *tree) {
	if t.has(NoSymlinks) {
		return
	}
	l := t.link(t.root, "l", "some/where")
	a := t.attr(l)
	eq(t, "type", a.Type, nfsserver.TypeSymlink)
	eq(t, "size", a.Size, uint64(len("some/where")))
	t.ok(t.Setattr(t.me, l, mode(0o600)), "mode of a symbolic link is taken without effect")
	eq(t, "type still", t.attr(l).Type, nfsserver.TypeSymlink)
}

func checkDevices(t *tree) {
	if t.has(NoSpecialFiles) {
		return
	}
	for i, rdev := range []nfsserver.Rdev{
		{Major: 1, Minor: 3}, {Major: 1<<12 - 1, Minor: 1<<18 - 1}, {Major: 1<<12 - 1, Minor: 1<<20 - 1},
		{Major: 1 << 12, Minor: 3}, {Major: 1<<12 + 1, Minor: 3}, {Major: 1, Minor: 1 << 20}, {Major: 1, Minor: 1<<20 + 3},
		{Major: 1<<32 - 1, Minor: 1<<32 - 1},
	} {
		for _, typ := range []nfsserver.FileType{nfsserver.TypeChar, nfsserver.TypeBlock} {
			name := fmt.Sprint(typ, i)
			r, a, err := t.Mknod(t.me, t.root, name, typ, rdev, mode(0o600))
			switch {
			case errors.Is(err, syscall.EPERM) && t.me.UID != 0:
				return // only root may
			case err != nil:
				t.want(err, fmt.Sprintf("device %v, which is not kept", rdev), inval)
				eq(t, "numbers that everybody has", i > 0, true)
				t.gone(t.root, name)
			default:
				eq(t, "device number", a.Rdev, rdev)
				eq(t, "device number asked for", t.attr(r).Rdev, rdev)
				eq(t, "type", a.Type, typ)
			}
		}
	}
}

func checkStatfs(t *tree) {
	st, err := t.Statfs(t.root)
	t.ok(err, "Statfs")
	eq(t, "free ≤ total", st.FreeBytes <= st.TotalBytes && st.AvailBytes <= st.FreeBytes, true)
	eq(t, "some room", st.AvailBytes > 0, true)
	_, err = t.Statfs(t.file(t.root, "f"))
	t.ok(err, "Statfs of a file")
}

func checkInfo(t *tree) {
	in := t.Info()
	eq(t, "name length", in.NameMax >= 255, true)
	eq(t, "file size", in.MaxFileSize >= 1<<32 || t.has(SmallFiles), true)
	eq(t, "links", in.LinkMax >= 1000 || t.has(NoHardLinks), true)
	eq(t, "Info is constant", t.Info(), in)
}
