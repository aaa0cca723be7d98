// Without free descriptors calls fail only temporarily, and no handle becomes stale.

package osfs

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// limited calls do while this process can open no descriptor from the number most on.
func limited(t *testing.T, most uint64, do func()) {
	t.Helper()
	var limit unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: limit.Max}))
	defer func() { must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	do()
}

// none calls do while this process can open no descriptor, even after it closes files.
func none(t *testing.T, do func()) {
	t.Helper()
	limited(t, 3, do)
}

// mustBeScarce checks that do fails without descriptors, with an error that counts as scarce, and
// succeeds with them.
func mustBeScarce(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	none(t, func() { err = do() })
	if !scarce(err) {
		t.Errorf("%s without descriptors: %v, want %v", what, err, unix.EMFILE)
	}
	if err := do(); err != nil {
		t.Errorf("%s with descriptors: %v", what, err)
	}
}

// TestScarceIsNotStale: a file that cannot be opened for lack of descriptors does not count as
// gone.
func TestScarceIsNotStale(t *testing.T) {
	dir := t.TempDir()
	write(t, "content", dir, "d", "sub", "file")
	refs := func(f *FS) (sub, file nfsserver.Ref) {
		d, _, err := f.Lookup(me, f.Root(), "d")
		must.Succeed(t, err)
		sub, _, err = f.Lookup(me, d, "sub")
		must.Succeed(t, err)
		file, _, err = f.Lookup(me, sub, "file")
		must.Succeed(t, err)
		return sub, file
	}
	f := newFS(t, dir, Options{noKernelHandles: true})
	neverSweeps(f)
	sub, file := refs(f)
	getattr := func() error {
		f.cache.closeAll()
		_, err := f.Getattr(file)
		return err
	}
	mustBeScarce(t, "a hint", getattr)
	mustBeScarce(t, "a walk", func() error {
		f.cache.closeAll()
		clear(f.index.hints)
		return getattr()
	})
	mustBeScarce(t, "the directory above", func() error {
		_, _, err := f.Lookup(me, sub, "..")
		return err
	})

	f = newFS(t, dir, Options{SubtreeCheck: true})
	neverSweeps(f)
	sub, file = refs(f)
	for what, r := range map[string]nfsserver.Ref{"a directory": sub, "a file": file} {
		n, err := f.acquire(&r)
		must.Succeed(t, err)
		mustBeScarce(t, "the subtree check of "+what, func() error {
			n.proven.Store(0)
			return f.confine(n)
		})
		f.cache.release(n)
	}
}

// TestWalkThatMissesAPart: if a walk cannot open a directory on its way, it does not report a file
// in that directory as gone.
func TestWalkThatMissesAPart(t *testing.T) {
	dir := t.TempDir()
	write(t, "content", dir, "d", "file")
	f := newFS(t, dir, Options{noKernelHandles: true})
	neverSweeps(f)
	d, _, err := f.Lookup(me, f.Root(), "d")
	must.Succeed(t, err)
	file, _, err := f.Lookup(me, d, "file")
	must.Succeed(t, err)
	f.cache.closeAll()
	clear(f.index.hints)
	next, err := unix.Dup(f.tree.root) // gets the lowest free number
	must.Succeed(t, err, unix.Close(next))
	limited(t, uint64(next)+1, func() { _, err = f.Getattr(file) })
	if errors.Is(err, nfsserver.ErrStale) {
		t.Errorf("with a descriptor for the root alone: %v", err)
	}
	if _, err := f.Getattr(file); err != nil {
		t.Errorf("with descriptors: %v", err)
	}
}

// TestScarceMounts: if a mount inside the export cannot be searched for, it does not count as gone.
func TestScarceMounts(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	mountOn(t, filepath.Join(dir, "disk"), "-t", "tmpfs", "tmpfs")
	write(t, "content", dir, "disk", "file")
	f := newFS(t, dir, Options{CrossMounts: true})
	disk, _, err := f.Lookup(me, f.Root(), "disk")
	must.Succeed(t, err)
	file, _, err := f.Lookup(me, disk, "file")
	must.Succeed(t, err)
	mustBeScarce(t, "a file of a mount", func() error {
		f.cache.closeAll()
		f.mounts.closeAll()
		_, err := f.Getattr(file)
		return err
	})
	none(t, func() { _, err = New(dir, Options{}) })
	if !scarce(err) {
		t.Errorf("New without descriptors: %v, want %v", err, unix.EMFILE)
	}
}
