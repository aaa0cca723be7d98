// The contract of Dir, for each kind: a local directory, and a server's memory and directory.

package treecopy

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// eachDir opens an empty directory of each kind.
func eachDir(t *testing.T, f func(t *testing.T, tree Tree, d Dir)) {
	r := newRig(t, asCaller)
	for name, op := range map[string]Operand{
		"local": local(t.TempDir()), "memory": at(r.mount(t, "/mem"), "/"), "served": at(r.mount(t, "/dir"), "/"),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := op.Tree.OpenDir(t.Context(), op.Path, "TEXT")
			if err != nil {
				t.Fatalf("OpenDir: %v", err)
			}
			defer d.Close()
			f(t, op.Tree, d)
		})
	}
}

// put makes a file in a Dir.
func put(t *testing.T, d Dir, name, content string) Meta {
	t.Helper()
	s, err := d.Create(t.Context(), name, 0o640, len(content))
	if err == nil && content != "" {
		_, err = s.WriteAt([]byte(content), 0)
	}
	if err == nil {
		err = errors.Join(s.Sync(), s.Close())
	}
	m, e := d.Lstat(t.Context(), name)
	if err = errors.Join(err, e); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return m
}

// contentOf reads a file in a Dir.
func contentOf(t *testing.T, d Dir, name string) string {
	t.Helper()
	m, err := d.Lstat(t.Context(), name)
	if err != nil {
		t.Errorf("Lstat: %v", err)
		return ""
	}
	s, err := d.Open(t.Context(), m)
	if err != nil {
		t.Errorf("Open: %v", err)
		return ""
	}
	defer s.Close()
	b, err := io.ReadAll(io.NewSectionReader(s, 0, 1<<30))
	if err != nil {
		t.Errorf("io.ReadAll: %v", err)
	}
	return string(b)
}

// list returns the sorted names in a Dir, and compares each Meta with Lstat's.
func list(t *testing.T, d Dir) string {
	t.Helper()
	var names []string
	for m, err := range d.Entries(t.Context()) {
		now, e := d.Lstat(t.Context(), m.Name)
		if err != nil || e != nil || now.Mode != m.Mode || now.key() != m.key() {
			t.Errorf("listed %+v, which is %+v (%v, %v)", m, now, err, e)
		}
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestDirFiles(t *testing.T) {
	eachDir(t, func(t *testing.T, _ Tree, d Dir) {
		ctx := t.Context()
		m := put(t, d, "f", "content")
		if m.Mode != 0o640 || m.Size != 7 || m.Nlink != 1 {
			t.Errorf("mode %o, size %d, %d links, want 640, 7, 1", m.Mode, m.Size, m.Nlink)
		}
		if m.Name != "f" && m.Name != "" {
			t.Errorf("name %q, want f or none", m.Name)
		}
		if _, err := d.Create(ctx, "f", 0o600, -1); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create of what is there: %v", err)
		}
		m.Name = "f"
		s, err := d.Overwrite(ctx, m)
		if err != nil {
			t.Fatalf("Overwrite: %v", err)
		}
		if got := contentOf(t, d, "f"); got != "" {
			t.Errorf("after Overwrite: %q", got)
		}
		if s.Stream() {
			t.Error("a regular file is a stream")
		}
		for _, at := range []int64{5, 0} { // writes may come in any order
			if n, err := s.WriteAt([]byte("piece"), at); n != 5 || err != nil {
				t.Errorf("WriteAt %d: %d, %v", at, n, err)
			}
		}
		if err := errors.Join(s.Truncate(8), s.Sync(), s.SetAttr(ctx, Attr{SetMode: true, Mode: 0o600}), s.Close()); err != nil {
			t.Errorf("Truncate, Sync, SetAttr, Close: %v", err)
		}
		if got := contentOf(t, d, "f"); got != "piecepie" {
			t.Errorf("%q", got)
		}
		if m, err = d.Lstat(ctx, "f"); err != nil || m.Mode != 0o600 {
			t.Errorf("%v, %v", m.Mode, err)
		}
		m.Name = "f"
		src, err := d.Open(ctx, m)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		if n, err := src.Size(); n != 8 || err != nil {
			t.Errorf("Size: %d, %v", n, err)
		}
		b := make([]byte, 20)
		if n, err := src.ReadAt(b, 3); n != 5 || err != io.EOF || string(b[:n]) != "cepie" {
			t.Errorf("ReadAt: %q, %v", b[:n], err)
		}
		if err := src.Close(); err != nil {
			t.Errorf("src.Close: %v", err)
		}
		if err := d.Writable(ctx, m); err != nil {
			t.Errorf("Writable: %v", err)
		}
		if err := d.Remove(ctx, "f"); err != nil {
			t.Errorf("Remove: %v", err)
		}
		for what, err := range map[string]error{
			"Remove": d.Remove(ctx, "f"), "Lstat": second(d.Lstat(ctx, "f")), "Stat": second(d.Stat(ctx, "f")),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of nothing: %v", what, err)
			}
		}
	})
}

// second returns its second argument. It takes the error from a call with two results.
func second[T any](_ T, err error) error { return err }

// TestDirAdoptsWhatItReplaces: a new file gets owner and mode of the file it will replace.
func TestDirAdoptsWhatItReplaces(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	eachDir(t, func(t *testing.T, _ Tree, d Dir) {
		old := put(t, d, "old", "x")
		old.Name = "old"
		if err := d.SetAttr(t.Context(), old, Attr{SetOwner: true, UID: 1234, GID: 2345}); err != nil {
			t.Fatalf("SetAttr: %v", err)
		}
		if err := d.SetAttr(t.Context(), old, Attr{SetMode: true, Mode: 0o604}); err != nil {
			t.Fatalf("SetAttr: %v", err)
		}
		old, err := d.Lstat(t.Context(), "old")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		old.Name = "old"
		s, err := d.Create(t.Context(), "new", 0o600, -1)
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		if err := errors.Join(s.Adopt(t.Context(), &old), s.Close()); err != nil {
			t.Errorf("Adopt, Close: %v", err)
		}
		m, err := d.Lstat(t.Context(), "new")
		if err != nil || m.UID != 1234 || m.GID != 2345 || m.Mode != 0o604 {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestDirDirectories(t *testing.T) {
	eachDir(t, func(t *testing.T, tree Tree, d Dir) {
		ctx := t.Context()
		sub, err := d.Mkdir(ctx, "sub", 0o750)
		if err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		if m := sub.Self(); !m.Mode.IsDir() || m.Mode.Perm() != 0o750 || same(m, d.Self()) {
			t.Errorf("a new directory is %+v", m)
		}
		if got := sub.Text("x"); got != "TEXT/sub/x" {
			t.Errorf("written as %q", got)
		}
		if above := sub.Above(ctx); len(above) < 2 || !same(&above[0], sub.Self()) || !same(&above[1], d.Self()) {
			t.Errorf("above it are %+v", above)
		}
		if _, err := d.Mkdir(ctx, "sub", 0o750); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Mkdir of what is there: %v", err)
		}
		put(t, sub, "f", "x")
		if err := d.Rmdir(ctx, "sub"); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("Rmdir of a full directory: %v", err)
		}
		if err := d.Remove(ctx, "sub"); err == nil {
			t.Error("Remove removes a directory")
		}
		when := time.Unix(1_111_111_111, 0)
		self := *sub.Self()
		self.Name = "."
		if err := sub.SetAttr(ctx, self, Attr{SetMode: true, Mode: 0o711, Mtime: when}); err != nil {
			t.Errorf("SetAttr: %v", err)
		}
		m, err := d.Lstat(ctx, "sub")
		if err != nil || m.Mode.Perm() != 0o711 || !m.Mtime.Equal(when) {
			t.Errorf("SetAttr of the directory itself: %+v, %v", m, err)
		}
		m.Name = "sub"
		again, err := d.Sub(ctx, m)
		if err != nil {
			t.Fatalf("Sub: %v", err)
		}
		if got := list(t, again); got != "f" {
			t.Errorf("Sub has %q", got)
		}
		file, err := again.Lstat(ctx, "f")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		file.Name = "f"
		if _, err := again.Sub(ctx, file); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("Sub of a file: %v", err)
		}
		if err := again.Rmdir(ctx, "f"); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("Rmdir of a file: %v", err)
		}
		if err := errors.Join(again.Remove(ctx, "f"), d.Rmdir(ctx, "sub"), d.Commit(), again.Close(), sub.Close()); err != nil {
			t.Errorf("Remove, Rmdir, Commit, Close: %v", err)
		}
		if got := list(t, d); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

// TestDirManyEntries: a listing of several pages or batches has each entry once.
func TestDirManyEntries(t *testing.T) {
	eachDir(t, func(t *testing.T, _ Tree, d Dir) {
		const n = dirBatch + 200
		for i := range n {
			if _, err := d.Symlink(t.Context(), "to", strings.Repeat("x", 1+i%50)+"-"+strings.Repeat("y", i/50)); err != nil {
				t.Fatalf("Symlink: %v", err)
			}
		}
		seen := map[string]bool{}
		for m, err := range d.Entries(t.Context()) {
			if err != nil || seen[m.Name] || m.Mode.Type() != fs.ModeSymlink {
				t.Fatalf("%q: %v, %v", m.Name, m.Mode, err)
			}
			seen[m.Name] = true
		}
		if len(seen) != n {
			t.Errorf("%d names of %d", len(seen), n)
		}
		for range d.Entries(t.Context()) {
			break // must close the listing's files
		}
	})
}

func TestDirLinks(t *testing.T) {
	eachDir(t, func(t *testing.T, tree Tree, d Dir) {
		ctx := t.Context()
		sub, err := d.Mkdir(ctx, "sub", 0o755)
		if err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		defer sub.Close()
		put(t, sub, "f", "target")
		for name, target := range map[string]string{
			"link": "sub/f", "chain": "link", "dir": "sub", "up": "sub/../link", "dangling": "sub/none", "loop": "loop",
			"long": strings.Repeat("./", 400) + "sub/f",
		} {
			m, err := d.Symlink(ctx, target, name)
			if err != nil || m.Mode.Type() != fs.ModeSymlink {
				t.Fatalf("%s: %v, %v", name, m.Mode, err)
			}
			m.Name = name
			if got, err := d.Readlink(ctx, m); got != target || err != nil {
				t.Errorf("Readlink %s: %q, %v", name, got, err)
			}
			if m, err := d.Lstat(ctx, name); err != nil || m.Mode.Type() != fs.ModeSymlink {
				t.Errorf("Lstat %s: %v, %v", name, m.Mode, err)
			}
		}
		for _, name := range []string{"link", "chain", "up", "long"} {
			if m, err := d.Stat(ctx, name); err != nil || !m.Mode.IsRegular() || m.Size != 6 {
				t.Errorf("Stat %s: %+v, %v", name, m, err)
			}
			to, base, inPlace, err := d.Follow(ctx, name)
			if err != nil || inPlace || base != "f" || !same(to.Self(), sub.Self()) {
				t.Errorf("Follow %s: %q, %v, %v", name, base, inPlace, err)
			}
			if err == nil {
				to.Close()
			}
		}
		if m, err := d.Stat(ctx, "dir"); err != nil || !m.Mode.IsDir() {
			t.Errorf("Stat of a link to a directory: %v, %v", m.Mode, err)
		}
		if _, err := d.Stat(ctx, "dangling"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat of a dangling link: %v", err)
		}
		if _, _, _, err := d.Follow(ctx, "dangling"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Follow of a dangling link: %v", err)
		}
		if _, err := d.Stat(ctx, "loop"); !errors.Is(err, unix.ELOOP) {
			t.Errorf("Stat of a link to itself: %v", err)
		}
		if _, _, _, err := d.Follow(ctx, "loop"); !errors.Is(err, unix.ELOOP) {
			t.Errorf("Follow of a link to itself: %v", err)
		}
		// Methods follow a link only for a Meta from Stat, not for one from Lstat.
		link, err := d.Lstat(ctx, "link")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		link.Name = "link"
		if s, err := d.Open(ctx, link); err == nil {
			s.Close()
			t.Error("Open follows a link")
		}
		link.Mode = fs.ModeDir | 0o755
		link.Name = "dir"
		if s, err := d.Sub(ctx, link); err == nil {
			for m := range s.Entries(ctx) {
				if m.Name == "f" {
					t.Error("Sub follows a link")
				}
			}
			s.Close()
		}
	})
}

// TestDirNamesMove: LinkTo and RenameTo work within a directory and to another one, but not to
// another tree.
func TestDirNamesMove(t *testing.T) {
	other, err := (Local{}).OpenDir(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatalf("OpenDir: %v", err)
	}
	defer other.Close()
	eachDir(t, func(t *testing.T, tree Tree, d Dir) {
		ctx := t.Context()
		sub, err := d.Mkdir(ctx, "sub", 0o755)
		if err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		defer sub.Close()
		m := put(t, d, "f", "x")
		m.Name = "f"
		if err := d.LinkTo(ctx, m, sub, "g"); err != nil {
			t.Fatalf("LinkTo: %v", err)
		}
		two, err := sub.Lstat(ctx, "g")
		if err != nil || !same(&m, &two) || two.Nlink != 2 {
			t.Errorf("a further name is %+v, %v", two, err)
		}
		if err := d.LinkTo(ctx, m, sub, "g"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("LinkTo of what is there: %v", err)
		}
		if err := d.RenameTo(ctx, "f", sub, "h"); err != nil {
			t.Errorf("RenameTo: %v", err)
		}
		put(t, d, "over", "y")
		if err := d.RenameTo(ctx, "over", sub, "g"); err != nil {
			t.Errorf("RenameTo: %v", err)
		}
		if got := list(t, sub); got != "g h" || contentOf(t, sub, "g") != "y" || contentOf(t, sub, "h") != "x" {
			t.Errorf("names: %s", got)
		}
		if err := d.RenameTo(ctx, "none", sub, "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("RenameTo of nothing: %v", err)
		}
		apart := Dir(&fakeDir{}) // belongs to another tree than d
		for what, err := range map[string]error{
			"LinkTo": d.LinkTo(ctx, m, apart, "x"), "RenameTo": d.RenameTo(ctx, "sub", apart, "x"),
		} {
			if !errors.Is(err, unix.EXDEV) {
				t.Errorf("%s of another tree: %v", what, err)
			}
		}
		if _, isLocal := d.(*localDir); isLocal {
			// other belongs to another operand, and is not below d
			if err := d.LinkTo(ctx, m, other, "x"); !errors.Is(err, unix.EXDEV) {
				t.Errorf("LinkTo of another operand: %v", err)
			}
		}
	})
}

// TestTreePaths: a Tree resolves paths by the actual files rather than by their text.
func TestTreePaths(t *testing.T) {
	eachDir(t, func(t *testing.T, tree Tree, d Dir) {
		ctx := t.Context()
		top := "/"
		if l, ok := d.(*localDir); ok {
			top = l.path(t)
		}
		sub, err := d.Mkdir(ctx, "sub", 0o755)
		if err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		defer sub.Close()
		put(t, sub, "f", "x")
		if _, err := d.Symlink(ctx, "sub", "link"); err != nil {
			t.Fatalf("Symlink: %v", err)
		}
		p := func(s string) string { return filepath.Join(top, s) }
		for path, kind := range map[string]fs.FileMode{"sub": fs.ModeDir, "sub/f": 0, "link": fs.ModeDir, "link/f": 0} {
			if m, err := tree.Stat(ctx, p(path), true); err != nil || m.Mode.Type() != kind {
				t.Errorf("Stat %s: %v, %v", path, m.Mode, err)
			}
		}
		if m, err := tree.Stat(ctx, p("link"), false); err != nil || m.Mode.Type() != fs.ModeSymlink {
			t.Errorf("Stat of a link itself: %v, %v", m.Mode, err)
		}
		if _, err := tree.Stat(ctx, p("sub/f")+"/", true); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("Stat of a file and a slash: %v", err)
		}
		if _, err := tree.OpenDir(ctx, p("sub/f"), ""); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("OpenDir of a file: %v", err)
		}
		if _, err := tree.OpenDir(ctx, p("none"), ""); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenDir of nothing: %v", err)
		}
		for path, base := range map[string]string{"link/f": "f", "sub/none": "none", "sub/f": "f"} {
			dir, got, err := tree.Parent(ctx, p(path), "T/"+path)
			if err != nil || got != base || !same(dir.Self(), sub.Self()) || dir.Text(got) != "T/"+path {
				t.Errorf("Parent of %s: %q, %v", path, got, err)
				continue
			}
			dir.Close()
		}
		for _, path := range []string{p("sub") + "/..", p("sub") + "/.", "/"} {
			if _, _, err := tree.Parent(ctx, path, path); !errors.Is(err, unix.EINVAL) {
				t.Errorf("Parent of %s: %v", path, err)
			}
		}
	})
}

// path returns the directory's path.
func (d *localDir) path(t *testing.T) string {
	t.Helper()
	p, err := filepath.EvalSymlinks(procFD(d.fd))
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	return p
}
