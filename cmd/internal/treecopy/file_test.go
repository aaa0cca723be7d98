// One file: the temporary file, its failures, and what happens instead.

package treecopy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A sinkAs is a Sink with some of its methods replaced.
type sinkAs struct {
	Sink
	write func(p []byte, off int64) (int, error)
	sync  func() error
	close func() error
	adopt func() error
	attr  func(Attr) error
}

func (s *sinkAs) WriteAt(p []byte, off int64) (int, error) {
	if s.write != nil {
		return s.write(p, off)
	}
	return s.Sink.WriteAt(p, off)
}

func (s *sinkAs) Sync() error {
	if s.sync != nil {
		return s.sync()
	}
	return s.Sink.Sync()
}

func (s *sinkAs) Close() error {
	err := s.Sink.Close()
	if s.close != nil {
		return s.close()
	}
	return err
}

func (s *sinkAs) Adopt(ctx context.Context, old *Meta) error {
	if s.adopt != nil {
		return s.adopt()
	}
	return s.Sink.Adopt(ctx, old)
}

func (s *sinkAs) SetAttr(ctx context.Context, a Attr) error {
	if s.attr != nil {
		return s.attr(a)
	}
	return s.Sink.SetAttr(ctx, a)
}

// TestFilesThatCannotBeCompleted: one line reports a failure, and no temporary file remains. The
// old target is unchanged, except if only the mode could not be set.
func TestFilesThatCannotBeCompleted(t *testing.T) {
	fails := func() error { return unix.EIO }
	for _, c := range []struct {
		what string
		o    Options
		sink sinkAs
		said string
	}{
		{"write", Options{}, sinkAs{write: func([]byte, int64) (int, error) { return 0, unix.ENOSPC }}, "error writing '"},
		{"sync", Options{}, sinkAs{sync: fails}, "error writing '"},
		{"close", Options{}, sinkAs{close: fails}, "error writing '"},
		{"mode", Options{Preserve: Preserve{Mode: true}}, sinkAs{attr: func(a Attr) error { return unix.EIO }}, "preserving permissions for '"},
	} {
		src, dst := write(t, "new", t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
		tree := &fake{sink: func(_ string, s Sink) (Sink, error) { c.sink.Sink = s; return &c.sink, nil }}
		cp(t, c.o, at(tree, dst), local(src)).want(t, c.said+dst)
		if c.what != "mode" { // a copy that lacks only its mode is kept
			wantFile(t, "old", dst)
		}
		if got := names(t, filepath.Dir(dst)); got != "dst" {
			t.Errorf("%s: left %s", c.what, got)
		}
	}
}

// TestTargetsWrittenInPlace: the old file is rewritten if a new file could not have its owner, if
// the directory permits no new file, if the old file has other names, or on request.
func TestTargetsWrittenInPlace(t *testing.T) {
	for what, how := range map[string]func(dst string) (*fake, Options){
		"no new files": func(dst string) (*fake, Options) {
			return &fake{sink: func(name string, s Sink) (Sink, error) {
				s.Close()
				_ = os.Remove(filepath.Join(filepath.Dir(dst), name))
				return nil, unix.EACCES
			}}, Options{}
		},
		"not its owner": func(string) (*fake, Options) {
			return &fake{sink: func(_ string, s Sink) (Sink, error) {
				return &sinkAs{Sink: s, adopt: func() error { return unix.EPERM }}, nil
			}}, Options{}
		},
		"another name": func(dst string) (*fake, Options) {
			must.Succeed(t, os.Link(dst, dst+"2"))
			return &fake{}, Options{}
		},
		"asked for": func(string) (*fake, Options) { return &fake{}, Options{InPlace: true} },
	} {
		src, dst := write(t, strings.Repeat("new", blockSize), t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
		before, err := os.Stat(dst)
		if err != nil {
			t.Fatalf("os.Stat: %v", err)
		}
		tree, o := how(dst)
		l := &log{}
		if err := New(l.options(o)).Copy(t.Context(), []Operand{local(src)}, at(tree, dst)); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		l.want(t)
		wantFile(t, strings.Repeat("new", blockSize), dst)
		if after, err := os.Stat(dst); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the target is another file (%v)", what, err)
		}
		if got := names(t, filepath.Dir(dst)); strings.Contains(got, "nfsrdma") {
			t.Errorf("%s: left %s", what, got)
		}
	}
}

// TestInPlaceThatFailsSaysSo: a message says that only a part of the file remains.
func TestInPlaceThatFailsSaysSo(t *testing.T) {
	src, dst := write(t, strings.Repeat("x", 3*blockSize), t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
	tree := &fake{open: func(m Meta, s Source) (Source, error) {
		return &hooked{s, 2 * blockSize, func() error { return unix.EIO }}, nil
	}}
	cp(t, Options{InPlace: true}, local(dst), at(tree, src)).want(t, "error reading '"+src, "warning: '"+dst+"' is incomplete")
	cp(t, Options{InPlace: true}, local(dst+"-new"), at(tree, src)).want(t, "error reading '"+src, "warning: '"+dst+"-new' is incomplete")
}

// TestStreamThatWasReadIsNotReadAgain: a stream's data is in a temporary file that cannot replace
// the target. The target stays, because the stream's data cannot be read again.
func TestStreamThatWasReadIsNotReadAgain(t *testing.T) {
	src, dst := write(t, "", t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
	tree := &fake{open: func(m Meta, s Source) (Source, error) { return &cutSource{s, 3 * blockSize, io.EOF}, nil }}
	d, err := (Local{}).OpenDir(t.Context(), filepath.Dir(dst), "")
	if err != nil {
		t.Fatalf("OpenDir: %v", err)
	}
	defer d.Close()
	sticky := stickyDir{d}
	from, base, err := tree.Parent(t.Context(), src, src)
	if err != nil {
		t.Fatalf("Parent: %v", err)
	}
	defer from.Close()
	m, err := from.Lstat(t.Context(), base)
	if err != nil {
		t.Fatalf("Lstat: %v", err)
	}
	m.Name = base
	l := &log{}
	r := New(l.options(Options{}))
	if r.entry(t.Context(), &job{from: from, src: m, srcText: src, to: sticky, name: "dst", dstText: dst, top: true}) {
		t.Error("done")
	}
	l.want(t, "the source cannot be read again")
	wantFile(t, "old", dst)
}

// TestNewFileIsRefused: without an old target, a refused temporary file or rename is an error, and
// nothing is written in place.
func TestNewFileIsRefused(t *testing.T) {
	src, dir := write(t, "new", t.TempDir(), "src"), t.TempDir()
	dst := filepath.Join(dir, "dst")
	refusing := &fake{sink: func(name string, s Sink) (Sink, error) {
		s.Close()
		_ = os.Remove(filepath.Join(dir, name))
		return nil, unix.EACCES
	}}
	cp(t, Options{}, at(refusing, dst), local(src)).want(t, "cannot create regular file '"+dst+"': permission denied")
	cp(t, Options{}, at(stickyTree{}, dst), local(src)).want(t, "cannot create regular file '"+dst+"': operation not permitted")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v, want nothing", names, err)
	}
}

// A stickyTree opens each directory as a stickyDir.
type stickyTree struct{ Local }

func (x stickyTree) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := x.Local.Parent(ctx, path, text)
	return stickyDir{d}, base, err
}

// TestTemporaryFileIsPrivate: the content that replaces a private file is never readable by others.
func TestTemporaryFileIsPrivate(t *testing.T) {
	src, dst := write(t, "new", t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
	must.Succeed(t, os.Chmod(src, 0o644), os.Chmod(dst, 0o600))
	var modes []fs.FileMode
	tree := &fake{sink: func(_ string, s Sink) (Sink, error) {
		m, err := s.Stat()
		modes = append(modes, m.Mode.Perm())
		return s, err
	}}
	cp(t, Options{}, at(tree, dst), local(src)).want(t)
	if !slices.Equal(modes, []fs.FileMode{0o600}) {
		t.Errorf("made with modes %v, want 0600 once", modes)
	}
}

// TestAttributesThatCannotBeRead: an unreadable attribute of a complete file is reported once.
func TestAttributesThatCannotBeRead(t *testing.T) {
	src := write(t, "new", t.TempDir(), "src")
	tree := &fake{sink: func(_ string, s Sink) (Sink, error) { return statless{s}, nil }}
	for _, o := range []Options{{}, {InPlace: true, Preserve: Preserve{Times: true}}} {
		dst := filepath.Join(t.TempDir(), "dst")
		cp(t, o, at(tree, dst), local(src)).want(t, "cannot fstat '"+dst+"': input/output error")
	}
}

// A statless file has no attributes.
type statless struct{ Sink }

func (statless) Stat() (Meta, error)                 { return Meta{}, unix.EIO }
func (statless) SetAttr(context.Context, Attr) error { return unix.ENOTSUP }

// TestOwnerThatIsRefused: missing permission is an error only for a process that may change owners;
// other errors are reported always. Without permission for the owner, the group alone is tried.
func TestOwnerThatIsRefused(t *testing.T) {
	for _, c := range []struct {
		privileged bool
		gid        uint32
		err        error
		calls      int
		want       []string
	}{
		{true, 2, unix.EPERM, 2, []string{"failed to preserve ownership"}},
		{false, 2, unix.EPERM, 2, nil},
		{false, 1, unix.EPERM, 1, nil},
		{false, 2, unix.EIO, 2, []string{"failed to preserve ownership"}},
	} {
		l, calls := &log{}, 0
		o := l.options(Options{Preserve: Preserve{Owner: true}})
		o.Privileged = c.privileged
		set := func(context.Context, Attr) error { calls++; return c.err }
		ok := New(o).preserve(t.Context(), "f", &Meta{UID: 5, GID: c.gid}, &Meta{UID: 1, GID: 1}, nil, set)
		if l.want(t, c.want...); ok != (c.want == nil) {
			t.Errorf("%+v: success %v, want %v", c, ok, c.want == nil)
		}
		if calls != c.calls {
			t.Errorf("%+v: %d calls, want %d", c, calls, c.calls)
		}
	}
}

// A stickyDir refuses each rename.
type stickyDir struct{ Dir }

func (stickyDir) RenameTo(context.Context, string, Dir, string) error { return unix.EPERM }

// TestTemporaryNamesThatAreTaken: at most maxNames names are tried. If the file system permits only
// shorter names, the temporary name does not contain the file's name.
func TestTemporaryNamesThatAreTaken(t *testing.T) {
	for _, c := range []struct {
		what  string
		err   func(try int, name string) error
		tries int
		want  string
	}{
		{"once", func(try int, _ string) error {
			if try == 1 {
				return fs.ErrExist
			}
			return nil
		}, 2, "new"},
		{"always", func(int, string) error { return fs.ErrExist }, maxNames, "old"},
		{"short names", func(_ int, name string) error {
			if strings.Contains(name, "dst") {
				return unix.ENAMETOOLONG
			}
			return nil
		}, 2, "new"},
		{"no space", func(int, string) error { return unix.ENOSPC }, 1, "old"},
	} {
		src, dst := write(t, "new", t.TempDir(), "src"), write(t, "old", t.TempDir(), "dst")
		tries := 0
		tree := &fake{sink: func(name string, s Sink) (Sink, error) {
			tries++
			if err := c.err(tries, name); err != nil {
				s.Close()
				_ = os.Remove(filepath.Join(filepath.Dir(dst), name))
				return nil, err
			}
			return s, nil
		}}
		l := cp(t, Options{}, at(tree, dst), local(src))
		if c.want == "new" {
			l.want(t)
		} else {
			l.want(t, "cannot create regular file '"+dst)
		}
		wantFile(t, c.want, dst)
		if tries != c.tries {
			t.Errorf("%s: %d tries, want %d", c.what, tries, c.tries)
		}
	}
}

// TestDiscardNamesWhatStays: a temporary file that cannot be removed is named, a missing one is
// not.
func TestDiscardNamesWhatStays(t *testing.T) {
	d, err := (Local{}).OpenDir(t.Context(), t.TempDir(), "d")
	if err != nil {
		t.Fatalf("OpenDir: %v", err)
	}
	defer d.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	put(t, d, "tmp", "x")
	l := &log{}
	r := New(l.options(Options{}))
	r.cleanup = time.Minute
	r.discard(ended, &brokenDir{Dir: d, remove: unix.EACCES}, "tmp")
	l.want(t, "'d/tmp' is left behind, remove it: permission denied")
	l.lines = nil
	r.discard(ended, d, "tmp")
	r.discard(ended, d, "tmp")
	l.want(t)
	if got := list(t, d); got != "" {
		t.Errorf("left: %s", got)
	}
}

// TestLingerOutlivesItsContext: a cleanupContext continues after its parent, until it is cancelled.
func TestLingerOutlivesItsContext(t *testing.T) {
	type key struct{}
	outer, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	r := New(Options{})
	r.cleanup = time.Minute
	late, cancel := r.cleanupContext(outer)
	end()
	if late.Err() != nil || late.Value(key{}) != "value" {
		t.Errorf("%v, %v", late.Err(), late.Value(key{}))
	}
	cancel()
	if !errors.Is(late.Err(), context.Canceled) {
		t.Errorf("after cancel: %v", late.Err())
	}
}

// TestTotalIsKnownBeforeTheBytes: a progress bar needs the size of the data before its first byte,
// for an operand and for a file in a tree.
func TestTotalIsKnownBeforeTheBytes(t *testing.T) {
	src := t.TempDir()
	one := write(t, "0123456789", src, "one")
	write(t, "01234", src, "tree/d/two")
	for _, c := range []struct {
		sources []Operand
		want    int64
	}{{[]Operand{local(one)}, 10}, {[]Operand{local(src + "/tree")}, 5}, {[]Operand{local(one), local(src + "/tree")}, 15}} {
		var r *Run
		tree := &fake{open: func(_ Meta, s Source) (Source, error) {
			if r.Total.Load() == 0 {
				t.Errorf("%v: a file is opened, and no byte is in the total", c.sources)
			}
			return s, nil
		}}
		for i := range c.sources {
			c.sources[i].Tree = tree
		}
		r = New((&log{}).options(Options{Recursive: true}))
		if err := r.Copy(t.Context(), c.sources, local(t.TempDir())); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		if total, done := r.Total.Load(), r.Bytes.Load(); total != c.want || done != c.want {
			t.Errorf("%v: %d of %d bytes, want %d", c.sources, done, total, c.want)
		}
	}
}
