// Conversions between the system's and Go's values, compared with the system itself.

package treecopy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// TestModesBothWays: every mode of stat(2) has a Go mode with the same bits, and vice versa.
func TestModesBothWays(t *testing.T) {
	types := []uint32{unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFBLK, unix.S_IFCHR}
	for _, typ := range types {
		for bits := range uint32(0o10000) {
			m := goMode(typ | bits)
			if sysMode(m) != bits {
				t.Fatalf("%o is %v, which is %o", typ|bits, m, sysMode(m))
			}
			if modeTypes[typ] != m.Type() {
				t.Fatalf("%o has the type %v", typ|bits, m.Type())
			}
		}
	}
	if m := goMode(0o170000 | 0o644); m.Type() != fs.ModeIrregular {
		t.Errorf("an unknown type is %v", m)
	}
}

// TestStatIsThatOfPackageOS: statAt and package os agree about each kind of object.
func TestStatIsThatOfPackageOS(t *testing.T) {
	dir := t.TempDir()
	f := write(t, "content", dir, "f")
	must.Succeed(t, os.Symlink("f", dir+"/link"), os.Mkdir(dir+"/d", 0o711), unix.Mkfifo(dir+"/fifo", 0o640), os.Chmod(f, 0o4755))
	for _, p := range []string{"f", "link", "d", "fifo", "/dev/null", "/dev/zero"} {
		if !strings.HasPrefix(p, "/") {
			p = filepath.Join(dir, p)
		}
		fi, err := os.Lstat(p)
		if err != nil {
			t.Fatalf("os.Lstat: %v", err)
		}
		m, err := statAt(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil || m.Mode != fi.Mode() || m.Size != fi.Size() || !m.Mtime.Equal(fi.ModTime()) {
			t.Errorf("%s: %+v, %v; package os has %v, %d, %v", p, m, err, fi.Mode(), fi.Size(), fi.ModTime())
		}
		st := fi.Sys().(*syscall.Stat_t)
		got := []uint64{m.Fileid, m.Fsid, uint64(m.Nlink), uint64(m.UID), uint64(m.GID), m.Used, unix.Mkdev(m.Major, m.Minor)}
		want := []uint64{st.Ino, st.Dev, uint64(st.Nlink), uint64(st.Uid), uint64(st.Gid), uint64(st.Blocks) * 512, st.Rdev}
		if !slices.Equal(got, want) {
			t.Errorf("%s: inode, device, links, owner, group, space, device number: %d, want %d", p, got, want)
		}
	}
	if _, err := statAt(unix.AT_FDCWD, dir+"/none", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

// TestNextDataOfTheFileSystem: data, a hole, data, a hole; and no answer for a FIFO.
func TestNextDataOfTheFileSystem(t *testing.T) {
	const page = 64 << 10
	p := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(p)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	for _, at := range []int64{0, 4 * page} {
		if _, err := f.WriteAt([]byte(strings.Repeat("x", page)), at); err != nil {
			t.Fatalf("WriteAt: %v", err)
		}
	}
	if err := f.Truncate(8 * page); err != nil {
		t.Fatalf("Truncate: %v", err)
	}
	if m, err := statFD(int(f.Fd())); err != nil || !m.sparse() {
		machine.Skip(t, "the temporary directory has no holes")
	}
	for _, c := range []struct{ off, start, end int64 }{{0, 0, page}, {page, 4 * page, 5 * page}, {4*page + 1, 4*page + 1, 5 * page}} {
		start, end, ok, err := nextData(int(f.Fd()), c.off)
		if start != c.start || end != c.end || !ok || err != nil {
			t.Errorf("from %d: %d to %d, %v, %v", c.off, start, end, ok, err)
		}
	}
	for _, off := range []int64{5 * page, 8 * page, 9 * page} {
		if _, _, ok, err := nextData(int(f.Fd()), off); !ok || err != io.EOF {
			t.Errorf("from %d on there is none: %v, %v", off, ok, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	defer r.Close()
	defer w.Close()
	if _, _, ok, err := nextData(int(r.Fd()), 0); ok || err != nil {
		t.Errorf("a pipe: %v, %v", ok, err)
	}
}

// TestSetAttrSetsWhatIsAsked: each attribute can be set by itself, and the others stay. For a link,
// the link's own attributes are set, never its target's.
func TestSetAttrSetsWhatIsAsked(t *testing.T) {
	dir := t.TempDir()
	f := write(t, "x", dir, "f")
	must.Succeed(t, os.Symlink("f", dir+"/link"))
	d, err := openLocalDir(unix.AT_FDCWD, dir, 0, "DIR")
	if err != nil {
		t.Fatalf("openLocalDir: %v", err)
	}
	defer d.Close()
	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	before, _ := d.Lstat(t.Context(), "f")
	for _, c := range []struct {
		what string
		a    Attr
		want func(m *Meta)
	}{
		{"nothing", Attr{}, func(*Meta) {}},
		{"mode", Attr{SetMode: true, Mode: 0o640 | fs.ModeSticky}, func(m *Meta) { m.Mode = 0o640 | fs.ModeSticky }},
		{"modification time", Attr{Mtime: old}, func(m *Meta) { m.Mtime = old }},
		{"access time", Attr{Atime: old.Add(time.Hour)}, func(m *Meta) { m.Atime = old.Add(time.Hour) }},
		{"its own owner", Attr{SetOwner: true, UID: -1, GID: int(before.GID)}, func(*Meta) {}},
		{"no ACL", Attr{SetACLs: true, SetMode: true, Mode: 0o600}, func(m *Meta) { m.Mode = 0o600 }},
	} {
		m, err := d.Lstat(t.Context(), "f")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		if err := d.SetAttr(t.Context(), m, c.a); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		c.want(&m)
		got, err := d.Lstat(t.Context(), "f")
		if err != nil || got.Mode != m.Mode || got.UID != m.UID || got.GID != m.GID {
			t.Errorf("%s: %+v, want %+v (%v)", c.what, got, m, err)
		}
		if !got.Mtime.Equal(m.Mtime) || !got.Atime.Equal(m.Atime) {
			t.Errorf("%s: times %v, %v, want %v, %v", c.what, got.Mtime, got.Atime, m.Mtime, m.Atime)
		}
	}
	link, err := d.Lstat(t.Context(), "link")
	if err != nil {
		t.Fatalf("Lstat: %v", err)
	}
	later := old.Add(24 * time.Hour)
	if err := d.SetAttr(t.Context(), link, Attr{SetMode: true, Mode: 0o777, SetACLs: true, Mtime: later}); err != nil {
		t.Errorf("SetAttr: %v", err)
	}
	if now, _ := d.Lstat(t.Context(), "link"); !now.Mtime.Equal(later) {
		t.Errorf("the link's time is %v", now.Mtime)
	}
	if fi, err := os.Stat(f); err != nil || fi.Mode().Perm() != 0o600 || !fi.ModTime().Equal(old) {
		t.Errorf("what the link leads to was changed: %v", fi)
	}
	m, _ := d.Lstat(t.Context(), "f")
	m.Name = "none"
	for _, a := range []Attr{{SetMode: true}, {SetOwner: true, UID: -1, GID: -1}, {Mtime: old}, {SetACLs: true}} {
		if err := d.SetAttr(t.Context(), m, a); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v of nothing: %v", a, err)
		}
	}
}

// TestMknodMakesItsKind: the types of mknod(2) are made; other types fail with EINVAL.
func TestMknodMakesItsKind(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	d, err := openLocalDir(unix.AT_FDCWD, t.TempDir(), 0, "DIR")
	if err != nil {
		t.Fatalf("openLocalDir: %v", err)
	}
	defer d.Close()
	for i, mode := range []fs.FileMode{fs.ModeNamedPipe, fs.ModeSocket, fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice} {
		name := string(rune('a' + i))
		m, err := d.Mknod(t.Context(), name, 0o600, Meta{Mode: mode | 0o777, Major: 7, Minor: 300})
		if err != nil || m.Mode != mode|0o600 || m.Name != "" && m.Name != name {
			t.Errorf("%v: %+v, %v", mode, m, err)
		}
		if mode&fs.ModeDevice != 0 && (m.Major != 7 || m.Minor != 300) {
			t.Errorf("%v: device %d,%d", mode, m.Major, m.Minor)
		}
	}
	for _, mode := range []fs.FileMode{fs.ModeIrregular, fs.ModeDevice | fs.ModeNamedPipe} {
		if _, err := d.Mknod(t.Context(), "x", 0o600, Meta{Mode: mode}); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if _, err := d.Mknod(t.Context(), "a", 0o600, Meta{Mode: fs.ModeNamedPipe}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
}

// TestXattrsThatAreCarried: attributes in the user namespace are copied; others, such as a
// program's capabilities, are not.
func TestXattrsThatAreCarried(t *testing.T) {
	for name, want := range map[string]bool{
		"user.": true, "user.comment": true, posixacl.AttrAccess: true, posixacl.AttrDefault: false,
		"security.capability": false, "security.selinux": false, "trusted.x": false, "user": false, "xuser.a": false,
	} {
		if carried(name) != want {
			t.Errorf("carried(%q) = %v", name, !want)
		}
	}
	dir := t.TempDir()
	from, err := os.Open(write(t, "a", dir, "from"))
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer from.Close()
	to, err := os.Create(dir + "/to")
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer to.Close()
	set := func(name, value string) {
		if err := unix.Fsetxattr(int(from.Fd()), name, []byte(value), 0); err != nil {
			machine.Skip(t, "no extended attributes here: "+err.Error())
		}
	}
	if err := copyXattrs(int(from.Fd()), int(to.Fd()), carried); err != nil {
		t.Errorf("of a file that has none: %v", err)
	}
	set("user.one", "1")
	set("user.long", strings.Repeat("x", 3000))
	set("user.empty", "")
	if err := copyXattrs(int(from.Fd()), int(to.Fd()), func(name string) bool { return name != "user.one" }); err != nil {
		t.Errorf("copyXattrs: %v", err)
	}
	got := make([]byte, 4096)
	for name, want := range map[string]int{"user.long": 3000, "user.empty": 0} {
		if n, err := unix.Fgetxattr(int(to.Fd()), name, got); n != want || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	if _, err := unix.Fgetxattr(int(to.Fd()), "user.one", got); !errors.Is(err, unix.ENODATA) {
		t.Errorf("one that was not wanted: %v", err)
	}
	if err := copyXattrs(int(from.Fd()), -1, carried); !errors.Is(err, unix.EBADF) {
		t.Errorf("to nothing: %v", err)
	}
}

// TestNarrowed: the group bits become the rights of the group's entry, limited by the mask; nothing
// else changes.
func TestNarrowed(t *testing.T) {
	for group, want := range map[uint16]fs.FileMode{0: 0o606, 2: 0o626, 5: 0o646, 7: 0o666} {
		acl := posixacl.ACL{{Tag: posixacl.UserObj, Perm: 1}, {Tag: posixacl.GroupObj, Perm: group}, {Tag: posixacl.Mask, Perm: 6}}
		if got := groupNarrowed(0o666|fs.ModeSetuid|fs.ModeDir, acl); got != want|fs.ModeSetuid|fs.ModeDir {
			t.Errorf("group %o: %v", group, got)
		}
	}
	if got := groupNarrowed(0o666, nil); got != 0o666 {
		t.Errorf("no ACL: %v", got)
	}
}

// TestDropACLErrors: a missing ACL, or a file system without ACLs, is no error; other failures are.
func TestDropACLErrors(t *testing.T) {
	for _, c := range []struct{ access, def, want error }{
		{nil, nil, nil}, {unix.ENODATA, nil, nil}, {unix.EOPNOTSUPP, unix.EOPNOTSUPP, nil},
		{nil, unix.EPERM, nil}, {unix.EPERM, nil, unix.EPERM}, {unix.ENOENT, unix.ENOENT, unix.ENOENT},
	} {
		var asked []string
		err := dropACL(func(attr string) error {
			asked = append(asked, attr)
			if attr == posixacl.AttrAccess {
				return c.access
			}
			return c.def
		})
		if err != c.want || asked[0] != posixacl.AttrAccess || c.want == nil && len(asked) != 2 {
			t.Errorf("%v, %v: %v after %q", c.access, c.def, err, asked)
		}
	}
}

// TestWireAttr: SETATTR gets exactly the attributes in Attr.
func TestWireAttr(t *testing.T) {
	when := time.Unix(1_000_000_000, 5)
	for _, c := range []struct {
		a    Attr
		link bool
		want nfs3.Sattr
	}{
		{Attr{}, false, nfs3.Sattr{}},
		{Attr{SetMode: true, Mode: 0o644 | fs.ModeSetgid}, false, nfs3.Sattr{SetMode: true, Mode: 0o2644}},
		{Attr{SetMode: true, Mode: 0o644}, true, nfs3.Sattr{Mode: 0o644}},
		{Attr{SetOwner: true, UID: 5, GID: -1}, false, nfs3.Sattr{SetUID: true, UID: 5, GID: 1<<32 - 1}},
		{Attr{SetOwner: true, UID: -1, GID: 0}, true, nfs3.Sattr{UID: 1<<32 - 1, SetGID: true}},
		{Attr{UID: 5, GID: 5}, false, nfs3.Sattr{}},
		{Attr{Mtime: when}, false, nfs3.Sattr{MtimeHow: nfs3.SetToClientTime, Mtime: nfs3.MakeTime(when)}},
		{Attr{Atime: when}, true, nfs3.Sattr{AtimeHow: nfs3.SetToClientTime, Atime: nfs3.MakeTime(when)}},
	} {
		if got := wireAttr(c.a, c.link); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.a, got, c.want)
		}
	}
}
