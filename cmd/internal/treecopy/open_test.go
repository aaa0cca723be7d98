// Targets that other clients of a server have open: some stay the same file, others are replaced.

package treecopy

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestTargetsThatOthersHaveOpen: a copy over a file of at most one block keeps the file, so another
// client continues to read it. A larger file, or one that gets its source's mode or owner, is
// replaced, and the old file is stale.
func TestTargetsThatOthersHaveOpen(t *testing.T) {
	r := newRig(t, asCaller)
	src := t.TempDir()
	small, large := write(t, "new content", src, "small"), write(t, strings.Repeat("x", blockSize+1), src, "large")
	empty := write(t, "", src, "empty")
	for _, c := range []struct {
		what, src string
		o         Options
		kept      bool
	}{
		{"small", small, Options{}, true},
		{"empty", empty, Options{}, true},
		{"one block", write(t, strings.Repeat("y", blockSize-1), src, "block"), Options{}, true},
		{"with its times", small, Options{Preserve: Preserve{Times: true}}, true},
		{"with force", small, Options{Force: true}, true},
		{"large", large, Options{}, false},
		{"large in place", large, Options{InPlace: true}, true},
		{"with its mode", small, Options{Preserve: Preserve{Mode: true}}, false},
		{"with its owner", small, Options{Preserve: Preserve{Owner: true}}, false},
		{"removed first", small, Options{RemoveDest: true}, false},
	} {
		name := write(t, "the old content, which is longer", r.dir, "target")
		other := r.mount(t, "/dir")
		f, err := other.FS.Open(t.Context(), "target")
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		c.o.Umask = 0o022
		cp(t, c.o, at(r.mount(t, "/dir"), "/target"), local(c.src)).want(t)
		want, err := os.ReadFile(c.src)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		wantFile(t, string(want), name)
		got := make([]byte, len(want)+1)
		n, err := f.ReadAt(got, 0)
		if c.kept && (!errors.Is(err, io.EOF) || string(got[:n]) != string(want)) {
			t.Errorf("%s: the other client reads %d bytes, %v; want the new content", c.what, n, err)
		}
		if !c.kept && !errors.Is(err, unix.ESTALE) {
			t.Errorf("%s: the other client reads %d bytes, %v; want a stale file", c.what, n, err)
		}
		f.Close()
		if left := names(t, r.dir); left != "target" {
			t.Errorf("%s: left: %s", c.what, left)
		}
		was, err := os.Stat(c.src)
		if now, e := os.Stat(name); err != nil || e != nil || c.o.Preserve.Times && !now.ModTime().Equal(was.ModTime()) {
			t.Errorf("%s: %v, %v, %v", c.what, now, err, e)
		}
		must.Succeed(t, os.Remove(name))
	}
}

// A torn tree is on a server that fails writes to an existing file.
type torn struct{ Remote }

func (t torn) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := t.Remote.Parent(ctx, path, text)
	return tornDir{d}, base, err
}

type tornDir struct{ Dir }

func (d tornDir) RenameTo(ctx context.Context, name string, to Dir, newName string) error {
	if other, ok := to.(tornDir); ok {
		to = other.Dir
	}
	return d.Dir.RenameTo(ctx, name, to, newName)
}

func (d tornDir) Overwrite(ctx context.Context, m Meta) (Sink, error) {
	s, err := d.Dir.Overwrite(ctx, m)
	return tornSink{s}, err
}

type tornSink struct{ Sink }

func (tornSink) WriteAt([]byte, int64) (int, error) { return 0, unix.ENOSPC }

// TestRewriteThatFails: when a rewrite fails, the old content is gone, so the complete new file
// replaces it.
func TestRewriteThatFails(t *testing.T) {
	r := newRig(t, asCaller)
	name := write(t, "old", r.dir, "target")
	run := New((&log{}).options(Options{}))
	l := &log{}
	run.opt.Report = func(e *Error) { l.lines = append(l.lines, e.Error()) }
	if err := run.Copy(t.Context(), []Operand{local(write(t, "new content", t.TempDir(), "src"))}, at(torn{r.mount(t, "/dir")}, "/target")); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	l.want(t)
	wantFile(t, "new content", name)
	if left := names(t, filepath.Dir(name)); left != "target" {
		t.Errorf("left: %s", left)
	}
	if n := run.Bytes.Load(); n != int64(len("new content")) {
		t.Errorf("%d bytes were counted, want those of the file once", n)
	}
}

// A locked tree has unwritable files.
type locked struct{ torn }

func (l locked) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := l.torn.Parent(ctx, path, text)
	return lockedDir{d}, base, err
}

type lockedDir struct{ Dir }

func (lockedDir) Writable(context.Context, Meta) error { return unix.EACCES }

func (d lockedDir) RenameTo(ctx context.Context, name string, to Dir, newName string) error {
	if other, ok := to.(lockedDir); ok {
		to = other.Dir
	}
	return d.Dir.RenameTo(ctx, name, to, newName)
}

func (d lockedDir) Overwrite(context.Context, Meta) (Sink, error) {
	panic("a file that must not be written is written to")
}

// TestForceReplacesWhatMustNotBeWritten: servers let the owner write whatever the mode is, so -f
// checks access before writing.
func TestForceReplacesWhatMustNotBeWritten(t *testing.T) {
	r := newRig(t, asCaller)
	name := write(t, "old", r.dir, "target")
	src := write(t, "new", t.TempDir(), "src")
	to := at(locked{torn{r.mount(t, "/dir")}}, "/target")
	cp(t, Options{}, to, local(src)).want(t, "cannot create regular file '/target'")
	wantFile(t, "old", name)
	cp(t, Options{Force: true}, to, local(src)).want(t)
	wantFile(t, "new", name)
}

// A closed tree refuses to open existing files.
type closed struct{ Remote }

func (c closed) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	d, base, err := c.Remote.Parent(ctx, path, text)
	return closedDir{d}, base, err
}

type closedDir struct{ Dir }

func (closedDir) Overwrite(context.Context, Meta) (Sink, error) { return nil, unix.EACCES }

// TestInPlaceNeedsForceToRemove: a file that cannot be opened for writing stays, unless -f allows
// to remove it.
func TestInPlaceNeedsForceToRemove(t *testing.T) {
	r := newRig(t, asCaller)
	name := write(t, "old", r.dir, "target")
	src := write(t, "new", t.TempDir(), "src")
	to := at(closed{r.mount(t, "/dir")}, "/target")
	cp(t, Options{InPlace: true}, to, local(src)).want(t, "cannot create regular file '/target'")
	wantFile(t, "old", name)
	cp(t, Options{InPlace: true, Force: true}, to, local(src)).want(t)
	wantFile(t, "new", name)
}
