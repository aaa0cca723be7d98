// Moves: by rename, by copy where renaming fails, and the conditions that keep a source.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// An apart is a tree of this machine from which nothing can be renamed or linked elsewhere, as from
// another file system.
type apart struct{ Local }

func (a apart) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := a.Local.Parent(ctx, path, text)
	return apartDir{d}, base, err
}

func (a apart) OpenDir(ctx context.Context, path, text string) (Dir, error) {
	d, err := a.Local.OpenDir(ctx, path, text)
	return apartDir{d}, err
}

type apartDir struct{ Dir }

func (d apartDir) Sub(ctx context.Context, m Meta) (Dir, error) {
	s, err := d.Dir.Sub(ctx, m)
	return apartDir{s}, err
}

func (d apartDir) RenameTo(context.Context, string, Dir, string) error { return unix.EXDEV }
func (d apartDir) LinkTo(context.Context, Meta, Dir, string) error     { return unix.EXDEV }

// TestMovesOverWhatIsThere: moves by rename and by copy have the same results and messages.
func TestMovesOverWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		what, src, dst string
		noDir          bool // -T
		said           string
		result         string // names below top afterwards
	}{
		{"a file to a new name", "f", "new", false, "", "d d/x empty g new"},
		{"a file over a file", "f", "g", false, "", "d d/x empty g"},
		{"a file into a directory", "f", "d", false, "", "d d/f d/x empty g"},
		{"a file over a directory", "f", "empty", true, "cannot overwrite directory '", "d d/x empty f g"},
		{"a directory over a file", "d", "g", true, "cannot overwrite non-directory '", "d d/x empty f g"},
		{"a directory to a new name", "d", "new", false, "", "empty f g new new/x"},
		{"a directory into a directory", "d", "empty", false, "", "empty empty/d empty/d/x f g"},
		{"a directory over an empty one", "d", "empty", true, "", "empty empty/x f g"},
		{"a directory over a full one", "empty", "d", true, ": directory not empty", "d d/x empty f g"},
		{"a directory into itself", "d", "d/new", false, " to a subdirectory of itself, '", "d d/x empty f g"},
		{"a file onto itself", "f", "f", false, " are the same file", "d d/x empty f g"},
		{"what is not there", "none", "new", false, "cannot stat '", "d d/x empty f g"},
		{"a file and a slash", "f/", "new", false, ": not a directory", "d d/x empty f g"},
		{"below what is not there", "f", "none/new", false, "cannot move '", "d d/x empty f g"},
		{"the directory by a dot", "d/.", "new", false, ": device or resource busy", "d d/x empty f g"},
		{"a link, not what it leads to", "f", "new", false, "", "d d/x empty g new"},
	} {
		for _, tree := range []Tree{Local{}, apart{}} {
			top := t.TempDir()
			write(t, "content of f", top, "f")
			write(t, "content of g", top, "g")
			write(t, "content of x", top, "d/x")
			must.Succeed(t, os.Mkdir(top+"/empty", 0o755))
			l := mv(t, Options{NoTargetDir: c.noDir}, local(top+"/"+c.dst), at(tree, top+"/"+c.src))
			if c.said == "" {
				l.want(t)
			} else {
				l.want(t, c.said)
			}
			if got := names(t, top); got != c.result {
				t.Errorf("left: %s, want %s", got, c.result)
			}
			if c.said == "" && strings.HasPrefix(c.what, "a file") {
				dst := filepath.Join(top, c.dst)
				if c.dst == "d" {
					dst += "/f"
				}
				wantFile(t, "content of f", dst)
			}
			if t.Failed() {
				t.Fatalf("%s, %T: %q", c.what, tree, l.lines)
			}
		}
	}
}

// TestMoveKeepsKinds: a move by copy keeps every type and attribute. Links among the moved files
// stay links.
func TestMoveKeepsKinds(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	top := t.TempDir()
	src := filepath.Join(top, "src")
	f := write(t, "content", src, "f")
	must.Succeed(t, os.Link(f, src+"/again"), os.Symlink("f", src+"/link"), unix.Mkfifo(src+"/fifo", 0o640),
		unix.Mknod(src+"/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), os.Mkdir(src+"/d", 0o700),
		os.Chmod(f, 0o4751), os.Chmod(src, 0o1711))
	cp(t, all, local(top+"/reference"), local(src)).want(t)
	mv(t, Options{}, local(top+"/dst"), at(apart{}, src)).want(t)
	equalTrees(t, top+"/reference", top+"/dst")
	one, err := os.Stat(top + "/dst/f")
	two, err2 := os.Stat(top + "/dst/again")
	if err != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("the two names are two files (%v, %v)", err, err2)
	}
	if _, err := os.Lstat(src); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the source is still there: %v", err)
	}
}

// A brokenDir fails in one of its methods.
type brokenDir struct {
	Dir
	commit, remove, rmdir error
}

func (d *brokenDir) Commit() error {
	if d.commit != nil {
		return d.commit
	}
	return d.Dir.Commit()
}

func (d *brokenDir) RenameTo(ctx context.Context, name string, to Dir, newName string) error {
	if b, ok := to.(*brokenDir); ok {
		to = b.Dir
	}
	return d.Dir.RenameTo(ctx, name, to, newName)
}

func (d *brokenDir) Remove(ctx context.Context, name string) error {
	if d.remove != nil && !strings.HasPrefix(name, ".") {
		return d.remove
	}
	return d.Dir.Remove(ctx, name)
}

func (d *brokenDir) Rmdir(ctx context.Context, name string) error {
	if d.rmdir != nil {
		return d.rmdir
	}
	return d.Dir.Rmdir(ctx, name)
}

// TestMoveThatCannotEnd: a failed commit keeps the whole source. Files that cannot be removed are
// named, and the copy stays in both cases.
func TestMoveThatCannotEnd(t *testing.T) {
	for _, c := range []struct {
		what   string
		broken brokenDir
		side   string // which directory is broken
		said   string
		left   string
	}{
		{"commit", brokenDir{commit: unix.EIO}, "to", "error writing '", "d d/x f"},
		{"remove", brokenDir{remove: unix.EACCES}, "from", "cannot remove '", "d d/x f"},
	} {
		top, to := t.TempDir(), t.TempDir()
		write(t, "content", top, "f")
		write(t, "content", top, "d/x")
		d, err := (Local{}).OpenDir(t.Context(), to, to)
		if err != nil {
			t.Fatalf("OpenDir: %v", err)
		}
		from, err := (Local{}).OpenDir(t.Context(), top, top)
		if err != nil {
			t.Fatalf("OpenDir: %v", err)
		}
		dst, src := d, Dir(apartDir{from})
		c.broken.Dir = src
		if c.side == "to" {
			c.broken.Dir = dst
			dst = &c.broken
		} else {
			src = &c.broken
		}
		l := &log{}
		r := New(l.options(Options{}))
		r.opt.move, r.opt.Recursive, r.opt.Preserve = true, true, all.Preserve
		r.aboveDst = dst.Above(t.Context())
		m, err := src.Lstat(t.Context(), "f")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		m.Name = "f"
		r.moveAcross(t.Context(), local(top+"/f"), &job{from: src, src: m, srcText: top + "/f", to: dst, name: "f", dstText: to + "/f", top: true, decided: true})
		l.want(t, c.said)
		wantFile(t, "content", to, "f")
		if got := names(t, top); got != c.left {
			t.Errorf("%s: left %s", c.what, got)
		}
		d.Close()
		from.Close()
	}
}

// TestMoveSaysWhatItDoes: -v prints mv(1)'s words. A rename gives one line; a copy lists first the
// copied files and then the removed ones.
func TestMoveSaysWhatItDoes(t *testing.T) {
	for _, tree := range []Tree{Local{}, apart{}} {
		top := t.TempDir()
		write(t, "x", top, "d/f")
		l := &log{}
		o := l.options(Options{})
		o.Verbose = func(s string) { o.Warn(strings.ReplaceAll(s, top+"/", "")) }
		if err := New(o).Move(t.Context(), []Operand{at(tree, top+"/d")}, local(top+"/new")); err != nil {
			t.Fatalf("Move: %v", err)
		}
		want := "warning: renamed 'd' -> 'new'"
		if _, copied := tree.(apart); copied {
			want = "warning: 'd' -> 'new'|warning: 'd/f' -> 'new/f'|warning: removed 'd/f'|warning: removed directory 'd'"
		}
		if got := strings.Join(l.lines, "|"); got != want {
			t.Errorf("said %s, want %s", got, want)
		}
	}
}

// TestMoveOverWhatThisRunMade: a source does not replace an earlier source with the same name.
func TestMoveOverWhatThisRunMade(t *testing.T) {
	for _, tree := range []Tree{Local{}, apart{}} {
		top, dst := t.TempDir(), t.TempDir()
		one, two := write(t, "one", top, "a/f"), write(t, "two", top, "b/f")
		mv(t, Options{}, local(dst), at(tree, one), at(tree, two)).want(t, "will not overwrite just-created '"+dst+"/f' with '"+two+"'")
		wantFile(t, "one", dst, "f")
		wantFile(t, "two", two)
	}
}
