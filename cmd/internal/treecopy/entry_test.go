// Existing targets: the decisions of -u, -n, -i, -f and of links, and their messages.

package treecopy

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestWhetherATargetIsReplaced: -u compares ages, -n forbids it, and -i asks.
func TestWhetherATargetIsReplaced(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for _, c := range []struct {
		what     string
		o        Options
		age      time.Duration // the target's age minus the source's
		answer   bool
		replaced bool
		asked    string
	}{
		{"always", Options{}, 0, false, true, ""},
		{"-n", Options{Overwrite: OverwriteNever}, time.Hour, true, false, ""},
		{"-i, yes", Options{Overwrite: OverwriteAsk}, 0, true, true, "overwrite 'DST'"},
		{"-i, no", Options{Overwrite: OverwriteAsk}, 0, false, false, "overwrite 'DST'"},
		{"-u, older", Options{Update: true}, time.Second, false, true, ""},
		{"-u, as old", Options{Update: true}, 0, false, false, ""},
		{"-u, newer", Options{Update: true}, -time.Second, false, false, ""},
		{"-u and -i, newer: not asked", Options{Update: true, Overwrite: OverwriteAsk}, -time.Second, true, false, ""},
		{"-u and -i, older", Options{Update: true, Overwrite: OverwriteAsk}, time.Second, true, true, "overwrite 'DST'"},
		{"-u and -n", Options{Update: true, Overwrite: OverwriteNever}, time.Second, true, false, ""},
		{"--remove-destination", Options{RemoveDest: true}, 0, false, true, ""},
		{"--remove-destination and -n", Options{RemoveDest: true, Overwrite: OverwriteNever}, 0, false, false, ""},
		{"in place", Options{InPlace: true}, 0, false, true, ""},
	} {
		src, dst := write(t, "new", t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
		must.Succeed(t, os.Chtimes(src, now, now), os.Chtimes(dst, now, now.Add(-c.age)))
		asked := ""
		c.o.Ask = func(q string) bool { asked = strings.ReplaceAll(q, dst, "DST"); return c.answer }
		cp(t, c.o, local(dst), local(src)).want(t)
		want := "old"
		if c.replaced {
			want = "new"
		}
		wantFile(t, want, dst)
		if asked != c.asked {
			t.Errorf("%s: asked %q", c.what, asked)
		}
		if got := names(t, filepath.Dir(dst)); got != "dst" {
			t.Errorf("%s: beside it are %s", c.what, got)
		}
	}
}

// An unwritable Dir has no file that may be written.
type unwritable struct{ Dir }

func (unwritable) Writable(context.Context, Meta) error { return unix.EACCES }

// TestQuestionOfAnUnwritableTarget: the question names the mode and the consequence.
func TestQuestionOfAnUnwritableTarget(t *testing.T) {
	d, err := (Local{}).OpenDir(t.Context(), t.TempDir(), "d")
	if err != nil {
		t.Fatalf("OpenDir: %v", err)
	}
	defer d.Close()
	r := New(Options{})
	j := &job{to: d, name: "f", dstText: "d/f"}
	put(t, d, "f", "x")
	if got := r.question(t.Context(), j, &Meta{Mode: 0o640}); got != "overwrite 'd/f'" {
		t.Errorf("%s", got)
	}
	j.to = unwritable{d}
	if got := r.question(t.Context(), j, &Meta{Mode: fs.ModeSetuid | 0o455}); got != "unwritable 'd/f' (mode 4455, r--r-xr-x); try anyway" {
		t.Errorf("%s", got)
	}
	if got := r.question(t.Context(), j, &Meta{Mode: fs.ModeSymlink | 0o777}); got != "overwrite 'd/f'" {
		t.Errorf("of a link: %s", got)
	}
	r.opt.Force = true
	if got := r.question(t.Context(), j, &Meta{Mode: 0o400}); got != "replace 'd/f', overriding mode 0400 (r--------)" {
		t.Errorf("%s", got)
	}
}

// TestTargetsThatAreLinks: the bytes go to the link's target, locally and on a server. A dangling
// link is not written through, and --remove-destination replaces the link itself.
func TestTargetsThatAreLinks(t *testing.T) {
	r := newRig(t, asCaller)
	for _, side := range []string{"local", "remote"} {
		dir := filepath.Join(r.dir, side)
		write(t, "old", dir, "real/f")
		must.Succeed(t, os.Symlink("real/f", dir+"/link"), os.Symlink("link", dir+"/chain"), os.Symlink("none", dir+"/dangling"),
			os.Symlink("real", dir+"/todir"))
		to := func(name string) Operand { return local(filepath.Join(dir, name)) }
		if side == "remote" {
			x := r.mount(t, "/dir")
			to = func(name string) Operand { return at(x, side+"/"+name) }
		}
		src := write(t, "new", t.TempDir(), "src")
		cp(t, Options{}, to("chain"), local(src)).want(t)
		wantFile(t, "new", dir, "real/f")
		cp(t, Options{}, to("dangling"), local(src)).want(t, "not writing through dangling symlink '"+to("dangling").Text+"'")
		cp(t, Options{NoTargetDir: true}, to("todir"), local(src)).want(t, "cannot overwrite directory '"+to("todir").Text+"' with non-directory")
		cp(t, Options{}, to("todir"), local(src)).want(t)
		wantFile(t, "new", dir, "real/src")
		src = write(t, "newer", t.TempDir(), "src")
		cp(t, Options{RemoveDest: true}, to("link"), local(src)).want(t)
		wantFile(t, "new", dir, "real/f")
		wantFile(t, "newer", dir, "link")
		cp(t, Options{RemoveDest: true}, to("dangling"), local(src)).want(t)
		if got := names(t, dir); got != "chain dangling link real real/f real/src todir" {
			t.Errorf("%s: %s", side, got)
		}
		for _, name := range []string{"link", "dangling"} {
			if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || !fi.Mode().IsRegular() {
				t.Errorf("%s: %s is %v, %v", side, name, fi.Mode(), err)
			}
		}
	}
}

// TestServersTreeIsNotWrittenThroughLinks: a copy from a server does not write through links in the
// destination, because an earlier copy may have made them. A link that is itself an operand is
// followed.
func TestServersTreeIsNotWrittenThroughLinks(t *testing.T) {
	r := newRig(t, asCaller)
	write(t, "hostile", r.dir, "src/f")
	top := t.TempDir()
	victim := write(t, "precious", top, "victim")
	must.Succeed(t, os.Mkdir(top+"/dst", 0o755), os.Symlink("../victim", top+"/dst/f"))
	o := Options{Recursive: true, NoTargetDir: true}
	x := r.mount(t, "/dir")
	cp(t, o, local(top+"/dst"), at(x, "src")).want(t, "not writing through symlink '"+top+"/dst/f'")
	wantFile(t, "precious", victim)
	cp(t, Options{}, local(top+"/dst/f"), at(x, "src/f")).want(t)
	wantFile(t, "hostile", victim)
	cp(t, o, local(top+"/dst"), local(r.dir+"/src")).want(t) // a local source is trusted
}

// TestLinksReplaceWhatTheyShould: a copied symbolic link replaces a file and a link, but not a
// directory or its own target.
func TestLinksReplaceWhatTheyShould(t *testing.T) {
	for _, tree := range []func(t *testing.T) (dir string, at func(string) Operand){
		func(t *testing.T) (string, func(string) Operand) {
			dir := t.TempDir()
			return dir, func(name string) Operand { return local(filepath.Join(dir, name)) }
		},
		func(t *testing.T) (string, func(string) Operand) {
			r := newRig(t, asCaller)
			x := r.mount(t, "/dir")
			return r.dir, func(name string) Operand { return at(x, name) }
		},
	} {
		dir, op := tree(t)
		write(t, "file", dir, "file")
		write(t, "target", dir, "target")
		write(t, "x", dir, "full/f")
		must.Succeed(t, os.Symlink("target", dir+"/src"), os.Symlink("elsewhere", dir+"/link"))
		for _, name := range []string{"file", "link", "new"} {
			cp(t, all, op(name), op("src")).want(t)
			if to, err := os.Readlink(filepath.Join(dir, name)); to != "target" || err != nil {
				t.Errorf("%s: %q, %v", name, to, err)
			}
		}
		o := all
		o.NoTargetDir = true
		cp(t, o, op("full"), op("src")).want(t, "cannot overwrite directory")
		cp(t, o, op("target"), op("src")).want(t, "are the same file")
		cp(t, o, op("src"), op("src")).want(t, "are the same file")
		wantFile(t, "target", dir, "target")
		if got := names(t, dir); got != "file full full/f link new src target" {
			t.Errorf("left: %s", got)
		}
	}
}

// TestNonDirectoryOverTheOperandItself: with -T a file does not replace a directory. In this case
// the target's name is ".".
func TestNonDirectoryOverTheOperandItself(t *testing.T) {
	src, dst := write(t, "x", t.TempDir(), "src"), t.TempDir()
	cp(t, Options{NoTargetDir: true}, local(dst), local(src)).want(t, "cannot overwrite directory '"+dst)
	if got := names(t, dst); got != "" {
		t.Errorf("left: %s", got)
	}
}

// TestNamesThatCannotBeLookedUp: an error that is not "nothing there" is reported, and nothing is
// made.
func TestNamesThatCannotBeLookedUp(t *testing.T) {
	src, dir := write(t, "x", t.TempDir(), "src"), t.TempDir()
	long := strings.Repeat("x", 300)
	cp(t, Options{}, local(dir+"/"+long), local(src)).want(t, "cannot stat '"+dir+"/"+long+"': file name too long")
	file := write(t, "x", dir, "file")
	cp(t, Options{}, local(file+"/f"), local(src)).want(t, "cannot stat '"+file+"/f': not a directory")
	cp(t, Options{}, local(dir+"/none/f"), local(src)).want(t, "cannot create regular file '"+dir+"/none/f': no such file or directory")
	if got := names(t, dir); got != "file" {
		t.Errorf("left: %s", got)
	}
}

// TestRefused: the errors that another user, or writing in place, might avoid.
func TestRefused(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EPERM: true, unix.EACCES: true, unix.EROFS: true, unix.EINVAL: true,
		unix.ENOENT: false, unix.ENOSPC: false, unix.EIO: false, fs.ErrPermission: false,
		&os.PathError{Op: "open", Path: "p", Err: unix.EACCES}: true,
	} {
		if isPermissionError(err) != want {
			t.Errorf("isPermissionError(%v) = %v, want %v", err, !want, want)
		}
	}
}
