// The walk of a tree: listing, making, entering and closing directories, and when a directory gets
// its mode.

package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// tree makes a tree with the given number of levels, and with dirs directories and files files in
// each.
func tree(t *testing.T, dir string, levels, dirs, files int) {
	t.Helper()
	for i := range files {
		write(t, fmt.Sprint(dir, i), dir, fmt.Sprint("f", i))
	}
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	for i := range dirs {
		if levels > 0 {
			tree(t, filepath.Join(dir, fmt.Sprint("d", i)), levels-1, dirs, files)
		}
	}
}

// equalTrees compares the names, modes and contents in two local trees.
func equalTrees(t *testing.T, a, b string) {
	t.Helper()
	one, two := names(t, a), names(t, b)
	if one != two {
		t.Errorf("%s has\n%s\n%s has\n%s", a, one, b, two)
		return
	}
	for _, name := range strings.Fields(one) {
		x, err := os.Lstat(filepath.Join(a, name))
		y, err2 := os.Lstat(filepath.Join(b, name))
		if err != nil || err2 != nil || x.Mode() != y.Mode() {
			t.Errorf("%s: %v, %v (%v, %v)", name, x.Mode(), y.Mode(), err, err2)
			continue
		}
		if x.Mode().IsRegular() {
			want, err := os.ReadFile(filepath.Join(a, name))
			if err != nil {
				t.Errorf("os.ReadFile: %v", err)
			}
			wantFile(t, string(want), b, name)
		}
	}
}

// TestTreesOfAllShapes: an empty, a wide, a deep and a bushy tree are copied to a server and back,
// and each file and directory is counted once.
func TestTreesOfAllShapes(t *testing.T) {
	r := newRig(t, asCaller)
	for name, shape := range map[string][3]int{
		"empty": {0, 0, 0}, "wide": {0, 0, 300}, "deep": {40, 1, 1}, "bushy": {3, 4, 2}, "dirs": {2, 6, 0},
	} {
		src, back := filepath.Join(t.TempDir(), "src"), t.TempDir()
		tree(t, src, shape[0], shape[1], shape[2])
		x := r.mount(t, "/mem")
		run := New((&log{}).options(all))
		if err := run.Copy(t.Context(), []Operand{local(src)}, at(x, "/"+name)); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		files, dirs, size := int64(0), int64(0), int64(0)
		_ = filepath.WalkDir(src, func(p string, e fs.DirEntry, err error) error {
			if fi, err := e.Info(); err == nil && e.IsDir() {
				dirs++
			} else if err == nil {
				files, size = files+1, size+fi.Size()
			}
			return err
		})
		if run.Files.Load() != files || run.Dirs.Load() != dirs || run.Bytes.Load() != size || run.Total.Load() != size {
			t.Errorf("%s: %d files, %d directories, %d of %d bytes; want %d, %d, %d",
				name, run.Files.Load(), run.Dirs.Load(), run.Bytes.Load(), run.Total.Load(), files, dirs, size)
		}
		cp(t, all, local(filepath.Join(back, "src")), at(x, "/"+name)).want(t)
		equalTrees(t, src, filepath.Join(back, "src"))
	}
}

// TestDirectoriesGetTheirModeLast: an unwritable directory is filled nevertheless, and gets its
// source's time, although its entries were made later.
func TestDirectoriesGetTheirModeLast(t *testing.T) {
	r := newRig(t, asCaller)
	src := filepath.Join(t.TempDir(), "src")
	tree(t, src, 2, 2, 2)
	old := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	var dirs []string
	_ = filepath.WalkDir(src, func(p string, e fs.DirEntry, err error) error {
		if e.IsDir() {
			dirs = append(dirs, p)
		}
		return err
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		must.Succeed(t, os.Chmod(dirs[i], 0o555), os.Chtimes(dirs[i], old, old))
	}
	for _, dst := range []Operand{local(filepath.Join(t.TempDir(), "dst")), at(r.mount(t, "/dir"), "/dst")} {
		cp(t, all, dst, local(src)).want(t)
		m, err := dst.Tree.Stat(t.Context(), dst.Path+"/d1/d0", false)
		if err != nil || m.Mode != fs.ModeDir|0o555 || !m.Mtime.Equal(old) {
			t.Errorf("%s: %v of %v, %v", dst.Text, m.Mode, m.Mtime, err)
		}
		without := at(dst.Tree, dst.Path+"2")
		cp(t, Options{Recursive: true, Umask: 0o027}, without, local(src)).want(t)
		if m, err = without.Tree.Stat(t.Context(), without.Path+"/d1/d0", false); err != nil || m.Mode != fs.ModeDir|0o550 || m.Mtime.Equal(old) {
			t.Errorf("%s: %v of %v, %v", without.Text, m.Mode, m.Mtime, err)
		}
	}
}

// TestTreeIntoWhatIsThere: existing directories are entered, files missing in the source stay, and
// mismatched types are reported one by one.
func TestTreeIntoWhatIsThere(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), t.TempDir()
	write(t, "new", src, "both/f")
	write(t, "new", src, "fileHere")
	write(t, "new", src, "dirHere/f")
	write(t, "new", src, "last")
	write(t, "old", dst, "both/f")
	write(t, "stays", dst, "both/g")
	write(t, "in the way", dst, "fileHere/g")
	write(t, "in the way", dst, "dirHere")
	o := all
	o.NoTargetDir = true
	l := cp(t, o, local(dst), local(src))
	l.want(t, "cannot overwrite directory '"+dst+"/fileHere' with non-directory",
		"cannot overwrite non-directory '"+dst+"/dirHere' with directory '"+src+"/dirHere'")
	wantFile(t, "new", dst, "both/f")
	wantFile(t, "stays", dst, "both/g")
	wantFile(t, "in the way", dst, "fileHere/g")
	wantFile(t, "in the way", dst, "dirHere")
	wantFile(t, "new", dst, "last")
}

// TestCancelledTreesCloseWhatTheyOpened: no descriptor stays open, wherever in the walk the context
// ends.
func TestCancelledTreesCloseWhatTheyOpened(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	tree(t, src, 4, 3, 3)
	for n := range 12 {
		before := openFiles()
		ctx, cancel := context.WithCancel(t.Context())
		left := 1 + n*n
		gate := make(chan struct{}, 1)
		tree := &fake{sub: func(context.Context, Meta) error {
			gate <- struct{}{}
			if left--; left == 0 {
				cancel()
			}
			<-gate
			return nil
		}}
		l := &log{}
		err := New(l.options(all)).Copy(ctx, []Operand{at(tree, src)}, local(filepath.Join(t.TempDir(), "dst")))
		if cut := left <= 0; errors.Is(err, context.Canceled) != cut || len(l.lines) > 0 {
			t.Errorf("after %d directories: %v, %q", n*n, err, l.lines)
		}
		cancel()
		if after := openFiles(); after > before {
			t.Errorf("after %d directories: %d descriptors, were %d", n*n, after, before)
		}
	}
}

// TestListingThatFails: entries before the failure are copied, the failure is reported, and an
// invalid name ends the listing.
func TestListingThatFails(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	write(t, "1", src, "a/f")
	write(t, "2", src, "b/f")
	for bad, said := range map[string]string{"..": "cannot access '" + src + "'", "a/../../x": "cannot access '" + src + "'"} {
		dst := filepath.Join(t.TempDir(), "dst")
		f := &fake{list: []Meta{{Name: bad, Mode: 0o644}}}
		cp(t, all, local(dst), at(f, src)).want(t, said)
		if got := names(t, dst); got != "" {
			t.Errorf("after %q: %s", bad, got)
		}
	}
	dst := filepath.Join(t.TempDir(), "dst")
	f := &fake{sub: func(_ context.Context, m Meta) error {
		if m.Name == "a" {
			return unix.EIO
		}
		return nil
	}}
	cp(t, all, local(dst), at(f, src)).want(t, "cannot access '"+src+"/a': input/output error")
	wantFile(t, "2", dst, "b/f")
	if got := names(t, dst); got != "a b b/f" {
		t.Errorf("copied %s", got)
	}
}

// TestFollowedLinksInTrees: with -L links become their targets, dangling links are reported, and a
// link to a directory above is not followed forever.
func TestFollowedLinksInTrees(t *testing.T) {
	top := t.TempDir()
	src := filepath.Join(top, "src")
	write(t, "content", top, "outside/f")
	write(t, "x", src, "d/f")
	must.Succeed(t, os.Symlink("../outside", src+"/dir"), os.Symlink("../outside/f", src+"/file"),
		os.Symlink("nowhere", src+"/dangling"), os.Symlink("..", src+"/d/up"))
	o := all
	o.Follow = FollowAlways
	dst := filepath.Join(t.TempDir(), "dst")
	cp(t, o, local(dst), local(src)).want(t, "cannot stat '"+src+"/dangling'", "cannot copy cyclic symbolic link '"+src+"/d/up'")
	if got := names(t, dst); got != "d d/f dir dir/f file" {
		t.Errorf("copied %s", got)
	}
	wantFile(t, "content", dst, "dir/f")
	wantFile(t, "content", dst, "file")
	dst = filepath.Join(t.TempDir(), "dst")
	cp(t, all, local(dst), local(src)).want(t)
	if to, err := os.Readlink(dst + "/dangling"); to != "nowhere" || err != nil {
		t.Errorf("not followed: %q, %v", to, err)
	}
}

// TestVerboseNamesEachObject: -v prints each source and target once, directories before their
// contents.
func TestVerboseNamesEachObject(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	tree(t, src, 1, 2, 1)
	l := &log{}
	o := l.options(all)
	o.Verbose = func(s string) { o.Warn(s) } // Warn writes under the log's lock
	if err := New(o).Copy(t.Context(), []Operand{local(src)}, local(dst)); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	seen := map[string]bool{}
	for _, line := range l.lines {
		_, to, ok := strings.Cut(strings.TrimPrefix(line, "warning: "), " -> ")
		to = strings.Trim(to, "'")
		if !ok || seen[to] {
			t.Errorf("%q", line)
		}
		seen[to] = true
		if parent := filepath.Dir(to); to != dst && !seen[parent] {
			t.Errorf("%s comes before its directory", to)
		}
	}
	if want := 1 + len(strings.Fields(names(t, src))); len(seen) != want {
		t.Errorf("%d lines, want %d", len(seen), want)
	}
}
