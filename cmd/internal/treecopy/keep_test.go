// Properties kept by a copy: holes, links, types, modes and owners; and those kept by a target.

package treecopy

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func statOf(t *testing.T, path ...string) *syscall.Stat_t {
	t.Helper()
	fi, err := os.Lstat(filepath.Join(path...))
	if err != nil {
		t.Fatalf("os.Lstat: %v", err)
	}
	return fi.Sys().(*syscall.Stat_t)
}

// TestHolesStayHoles: 100 MB of hole between and after data cost next to nothing
// on either side, and the bytes are the same.
func TestHolesStayHoles(t *testing.T) {
	r := newRig(t, asCaller)
	dir, out := t.TempDir(), t.TempDir()
	for name, end := range map[string]int64{"middle": 100<<20 + 5, "tail": 200 << 20} {
		src := write(t, strings.Repeat("data", 3000), dir, name)
		f, err := os.OpenFile(src, os.O_WRONLY, 0)
		if err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		_, err = f.WriteAt([]byte("after"), 100<<20)
		if err == nil {
			err = f.Truncate(end)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	x := r.mount(t, "/dir")
	for _, c := range []struct {
		how    Sparse
		sparse bool
	}{{SparseAuto, true}, {SparseAlways, true}, {SparseNever, false}} {
		o := all
		o.Sparse = c.how
		run := New((&log{}).options(o))
		if err := run.Copy(t.Context(), []Operand{local(dir)}, at(x, "/up")); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		if n := run.Bytes.Load(); n != 300<<20+5 {
			t.Errorf("counted %d bytes", n)
		}
		cp(t, o, local(filepath.Join(out, "down")), at(x, "/up")).want(t)
		for _, copied := range []string{r.dir + "/up", out + "/down"} {
			for _, name := range []string{"middle", "tail"} {
				if err := exec.Command("cmp", filepath.Join(dir, name), filepath.Join(copied, name)).Run(); err != nil {
					t.Errorf("%s/%s: %v", copied, name, err)
				}
				if used := statOf(t, copied, name).Blocks * 512; c.sparse != (used < 1<<20) {
					t.Errorf("--sparse %d: %s/%s uses %d bytes of disk", c.how, copied, name, used)
				}
			}
			must.Succeed(t, os.RemoveAll(copied))
		}
	}
}

// TestLinksAndKinds: hard links across directories and operands, symbolic links, FIFOs, sockets and
// devices keep their type in both directions.
func TestLinksAndKinds(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	r := newRig(t, asCaller)
	src, out := t.TempDir(), t.TempDir()
	for d := range 6 {
		for f := range 20 {
			name := filepath.Join(src, "tree", strings.Repeat("d", d+1), strings.Repeat("f", f+1))
			if d == 0 {
				write(t, name, name)
				continue
			}
			_ = os.MkdirAll(filepath.Dir(name), 0o755)
			must.Succeed(t, os.Link(filepath.Join(src, "tree/d", strings.Repeat("f", f+1)), name))
		}
	}
	top := write(t, "two", src, "operand")
	for _, err := range []error{
		os.Link(top, src+"/tree/same"), os.Symlink("d/f", src+"/tree/soft"), os.Symlink("/no/where", src+"/tree/dangling"),
		syscall.Mkfifo(src+"/tree/fifo", 0o640), syscall.Mknod(src+"/tree/char", syscall.S_IFCHR|0o600, 1<<8|3),
		syscall.Mknod(src+"/tree/block", syscall.S_IFBLK|0o600, 7<<8|200), syscall.Mknod(src+"/tree/sock", syscall.S_IFSOCK|0o600, 0),
		os.Lchown(src+"/tree/soft", 77, 78), os.Chtimes(src+"/tree/d", time.Unix(1e9, 5), time.Unix(1e9, 7)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	x := r.mount(t, "/dir")
	for range 2 { // the second time over existing targets
		cp(t, all, at(x, "/"), local(src+"/tree"), local(top)).want(t)
		cp(t, all, local(out), at(x, "/tree"), at(x, "/operand")).want(t)
	}
	list := func(dir string) string {
		b, err := exec.Command("sh", "-c", `cd "$1" && find . -mindepth 1 -printf '%P %y %m %U:%G %n %l %T@\n' | grep -v '\(tree\|^operand\) ' | sort; ls -l tree/char tree/block | cut -c1-30`, "sh", dir).Output()
		if err != nil {
			t.Fatalf("sh: %v", err)
		}
		return string(b)
	}
	want := list(src)
	if got := list(out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if a, b := statOf(t, out, "tree/ddd/ff"), statOf(t, out, "tree/d/ff"); a.Ino != b.Ino || a.Nlink != 6 {
		t.Errorf("hard links: inodes %d and %d, %d names", a.Ino, b.Ino, a.Nlink)
	}
	if a, b := statOf(t, out, "operand"), statOf(t, out, "tree/same"); a.Ino != b.Ino {
		t.Error("a hard link between two operands is two files")
	}
}

// TestTargetsKeepWhatTheyAre: an existing target keeps its other names, owner, mode and ACL.
func TestTargetsKeepWhatTheyAre(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	r := newRig(t, asCaller)
	src := write(t, "new", t.TempDir(), "new")
	for side, to := range map[string]func(string) Operand{
		"local":  func(name string) Operand { return local(filepath.Join(r.dir, name)) },
		"remote": func(name string) Operand { return at(r.mount(t, "/dir"), name) },
	} {
		o := Options{Follow: FollowAlways, Umask: 0o022}
		owned := write(t, "old", r.dir, side, "owned")
		must.Succeed(t, os.Chown(owned, 1234, 1235))
		_ = os.Chmod(owned, 0o640)
		before := statOf(t, owned)
		cp(t, o, to(side+"/owned"), local(src)).want(t)
		after := statOf(t, owned)
		if after.Uid != 1234 || after.Gid != 1235 || after.Mode != before.Mode || (after.Ino == before.Ino) != (side == "remote") {
			t.Errorf("%s: owner %d:%d, mode %o, replaced %v", side, after.Uid, after.Gid, after.Mode, after.Ino != before.Ino)
		}
		one := write(t, "old", r.dir, side, "one")
		must.Succeed(t, os.Link(one, one+"2"))
		cp(t, o, to(side+"/one"), local(src)).want(t)
		wantFile(t, "new", one+"2")
		must.Succeed(t, os.Symlink("one", filepath.Join(r.dir, side, "soft")))
		write(t, "newer", src)
		cp(t, o, to(side+"/soft"), local(src)).want(t)
		wantFile(t, "newer", one)
		if fi, _ := os.Lstat(filepath.Join(r.dir, side, "soft")); fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s: the link is %v", side, fi.Mode())
		}
		write(t, "new", src)
		in := write(t, "old", r.dir, side, "inplace")
		before = statOf(t, in)
		o.InPlace = true
		cp(t, o, to(side+"/inplace"), local(src)).want(t)
		wantFile(t, "new", in)
		if after := statOf(t, in); after.Ino != before.Ino {
			t.Errorf("%s: --in-place has replaced the file", side)
		}
	}
	if _, err := exec.LookPath("setfacl"); err != nil {
		machine.Skip(t, "needs setfacl")
	}
	acl := write(t, "old", r.dir, "acl")
	if out, err := exec.Command("setfacl", "-m", "u:1000:rw", acl).CombinedOutput(); err != nil {
		machine.Skip(t, "no ACLs here: "+string(out))
	}
	cp(t, Options{}, local(acl), local(src)).want(t)
	out, _ := exec.Command("getfacl", "-cnp", acl).Output()
	if wantFile(t, "new", acl); !bytes.Contains(out, []byte("user:1000:rw-")) {
		t.Errorf("the ACL is\n%s", out)
	}
}

// TestUmaskCounts: the umask limits modes without -p, but not with -p.
func TestUmaskCounts(t *testing.T) {
	r := newRig(t, asCaller)
	src := t.TempDir()
	write(t, "x", src, "d/f")
	_ = os.Chmod(src+"/d/f", 0o777)
	_ = os.Chmod(src+"/d", 0o777)
	for i, dst := range []Operand{local(filepath.Join(src, "out")), at(r.mount(t, "/dir"), "out")} {
		at := []string{src, r.dir}[i]
		o := Options{Recursive: true, Umask: 0o027}
		cp(t, o, dst, local(src+"/d")).want(t)
		if d, f := statOf(t, at, "out").Mode&0o7777, statOf(t, at, "out/f").Mode&0o7777; d != 0o750 || f != 0o750 {
			t.Errorf("%s: directory %o, file %o", at, d, f)
		}
		o.Preserve.Mode = true
		cp(t, o, Operand{Tree: dst.Tree, Path: dst.Path + "2", Text: "2"}, local(src+"/d")).want(t)
		if d, f := statOf(t, at, "out2").Mode&0o7777, statOf(t, at, "out2/f").Mode&0o7777; d != 0o777 || f != 0o777 {
			t.Errorf("-p to %s: directory %o, file %o", at, d, f)
		}
	}
}

// TestMoveAcross: a whole tree moves to a server and back, and nothing stays behind.
func TestMoveAcross(t *testing.T) {
	r := newRig(t, asCaller)
	src := bigTree(t)
	want := names(t, src)
	dir := filepath.Dir(src)
	x := r.mount(t, "/mem")
	mv(t, Options{}, at(x, "/"), local(src)).want(t)
	if got := names(t, dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
	mv(t, Options{}, at(r.mount(t, "/dir"), "new"), at(x, "src")).want(t)
	mv(t, Options{}, local(src), at(r.mount(t, "/dir"), "new")).want(t)
	if got := names(t, src); got != want {
		t.Errorf("came back: %s", got)
	}
	onlyWhole(t, src, 0)
	if got := names(t, r.dir); got != "" {
		t.Errorf("left on the server: %s", got)
	}
}

// TestMoveKeepsWhatIsNotThere: a source with a failure stays completely; a changed source keeps the
// changed parts.
func TestMoveKeepsWhatIsNotThere(t *testing.T) {
	src := bigTree(t)
	want := names(t, src)
	x := newRig(t, asCaller).mount(t, "/mem")
	tree := &fake{open: func(m Meta, s Source) (Source, error) {
		if m.Name == "3" {
			return nil, syscall.EIO
		}
		return s, nil
	}}
	l := mv(t, Options{}, at(x, "moved"), at(tree, src))
	l.want(t, "cannot open '"+src+"/d1/large/3' for reading", "cannot open '"+src+"/d1/small/3' for reading")
	if got := names(t, src); got != want {
		t.Errorf("kept only %s", got)
	}
	tree.open = func(m Meta, s Source) (Source, error) {
		if m.Name == "0" && m.Size == 5 { // change the file while it is copied
			write(t, "changed!", src, "d0/small/0")
			write(t, "came", src, "d0/small/new")
		}
		return s, nil
	}
	l = mv(t, Options{}, at(x, "moved2"), at(tree, src))
	if got := names(t, src); got != "d0 d0/small d0/small/0 d0/small/new" || len(l.lines) == 0 {
		t.Errorf("kept %s, said %q", got, l.lines)
	}

}

// TestSeveralTrees: one run copies tree after tree.
func TestSeveralTrees(t *testing.T) {
	src, out := t.TempDir(), t.TempDir()
	for _, d := range []string{"a", "b", "c"} {
		write(t, d, src, d, "f")
	}
	cp(t, all, local(out), local(src+"/a"), local(src+"/b"), local(src+"/c/.")).want(t)
	if got := names(t, out); got != "a a/f b b/f f" {
		t.Error(got)
	}
}

// TestLinksOfTheSource: -L follows links, except those that lead back to a directory above.
func TestLinksOfTheSource(t *testing.T) {
	r := newRig(t, asCaller)
	src, out := r.dir, t.TempDir()
	write(t, "x", src, "t/d/f")
	for link, target := range map[string]string{"t/d/up": "..", "t/file": "d/f", "t/dir": "d", "t/none": "nothing"} {
		must.Succeed(t, os.Symlink(target, filepath.Join(src, link)))
	}
	for i, from := range []Operand{local(src + "/t"), at(r.mount(t, "/dir"), "t")} {
		dst := filepath.Join(out, string(rune('a'+i)))
		l := cp(t, Options{Recursive: true, Follow: FollowAlways}, local(dst), from)
		l.want(t, "cannot copy cyclic symbolic link", "cannot copy cyclic symbolic link", "cannot stat '"+from.Text+"/none'")
		if got := names(t, dst); got != "d d/f dir dir/f file" {
			t.Error(got)
		}
	}
}

func TestTemporaryNamesAreNames(t *testing.T) {
	for _, name := range []string{"f", strings.Repeat("n", 255), strings.Repeat("ä", 127), strings.Repeat("日", 85), strings.Repeat("\xff", 255), ""} {
		a, b := tempName(name), tempName(name)
		if a == b || len(a) > maxNameLen || badName(a) || !strings.HasPrefix(a, ".") {
			t.Errorf("%q becomes %q and %q", name, a, b)
		}
		if strings.ToValidUTF8(name, "") == name && strings.ToValidUTF8(a, "") != a {
			t.Errorf("%q is cut in a character: %q", name, a)
		}
	}
	dir := t.TempDir()
	long := strings.Repeat("l", 255)
	cp(t, all, local(filepath.Join(dir, long)), local(write(t, "x", dir, "x"))).want(t)
	wantFile(t, "x", dir, long)
	for _, bad := range []string{"", ".", "..", "a/b", "a\x00"} {
		if !badName(bad) {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
