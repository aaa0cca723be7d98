// LOOKUP, and the step from a name to a node.

package osfs

import (
	"strings"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// Lookup opens a name in a directory and keeps the file open, because requests for attributes and
// content usually follow.
func (f *FS) Lookup(c nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	if err := f.allowed(d, &c, nfsserver.MayExec); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	switch {
	case name == "." || name == ".." && dir == f.root:
		a, err := f.getattr(d)
		return dir, a, err
	case name == "..":
		return f.parent(d)
	}
	if f.byName {
		if ref, attr, ok := f.lookupOpen(d, name); ok {
			return ref, attr, nil
		}
	}
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	return f.adopt(d, strings.Clone(name), fd)
}

// lookupOpen is Lookup by name, for a file that is already open: one system call instead of four,
// and no descriptor. If ok is false, for whatever reason, the caller opens the name.
func (f *FS) lookupOpen(d *node, name string) (ref nfsserver.Ref, attr nfsserver.Attr, ok bool) {
	var z zname
	var st unix.Stat_t
	if !z.set(name) {
		return ref, attr, false
	}
	if known, err := f.statKnown(d.fd(), z[:], &st, &ref); err != nil || !known {
		return ref, attr, false
	}
	return f.attrOpen(ref, &st)
}

// attrOpen returns the results of Lookup for a file with attributes st, if it is open.
func (f *FS) attrOpen(ref nfsserver.Ref, st *unix.Stat_t) (nfsserver.Ref, nfsserver.Attr, bool) {
	n := f.cache.get(&ref)
	if n == nil {
		return ref, nfsserver.Attr{}, false
	}
	defer f.cache.release(n)
	n.grants.see(st)
	return ref, attrOf(st, n.fsid), true
}

// A zname is a name that ends in a NUL, for system calls without an allocation.
type zname [unix.NAME_MAX + 1]byte

// set stores the name, and returns false if it is too long.
func (z *zname) set(name string) bool { return copy(z[:len(z)-1], name) == len(name) }

// LookupInUse is Lookup of an open file, in an open directory that c was allowed to search within
// the last second. The kernel searches only its memory (RESOLVE_CACHED). That flag needs an open of
// the file, even on tmpfs, where the lookup of a missing name waits for the directory's lock.
func (f *FS) LookupInUse(c nfsserver.Cred, dir nfsserver.Ref, name string) (ref nfsserver.Ref, attr nfsserver.Attr, ok bool) {
	if !f.byName || name == "." || name == ".." {
		return ref, attr, false
	}
	d := f.cache.get(&dir)
	if d == nil {
		return ref, attr, false
	}
	defer f.cache.release(d)
	if d.typ != nfsserver.TypeDir || !d.grants.have(&c, nfsserver.MayExec) {
		return ref, attr, false
	}
	fd, ok := openCached(d.fd(), name)
	if !ok {
		return ref, attr, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Dev != f.top.dev || st.Nlink == 0 {
		return ref, attr, false
	}
	gen, ok := f.gens.Get(&st, f.cache.tick.Load())
	if !ok {
		return ref, attr, false
	}
	return f.attrOpen(f.refOf(st.Ino, gen), &st)
}

const resolveCached = 0x20 // RESOLVE_CACHED of openat2(2), Linux 5.12; missing in x/sys

// openCached is openPath without an allocation; ok is false if the kernel needs a disk for the
// name.
func openCached(dirfd int, name string) (fd int, ok bool) {
	var z zname
	if !z.set(name) {
		return -1, false
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolveCached}
	r, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(&z)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	return int(r), errno == 0
}

// adopt makes a node from fd, an O_PATH descriptor of name in d, and takes ownership of fd.
func (f *FS) adopt(d *node, name string, fd int) (nfsserver.Ref, nfsserver.Attr, error) {
	var x file
	if err := f.describe(fd, &x); err != nil {
		unix.Close(fd)
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	n.path.Store(int32(fd))
	n.proven.Store(d.proven.Load()) // the new node lies in d
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// parent returns the directory above d, which is not the root. If the directory has been moved out
// of the export, its parent MUST NOT be shown.
func (f *FS) parent(d *node) (nfsserver.Ref, nfsserver.Attr, error) {
	fd, err := f.tree.openPath(d.fd(), "..")
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer unix.Close(fd)
	var x file
	if err := f.describe(fd, &x); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	if x.ref != f.root {
		inside, err := f.below(fd, &x.st)
		if err == nil && !inside {
			err = nfsserver.ErrStale
		}
		if err != nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, err
		}
	}
	return x.ref, x.attr(), nil
}

// below reports whether the directory fd, with attributes st, is the root or lies below the root.
// It returns only scarce errors.
func (f *FS) below(fd int, st *unix.Stat_t) (bool, error) {
	at := *st
	cur := -1
	defer func() {
		if cur >= 0 {
			unix.Close(cur)
		}
	}()
	for range maxUpDepth {
		if at.Dev == f.top.dev && at.Ino == f.top.ino {
			return true, nil
		}
		was := at
		up, err := f.tree.openPath(fd, "..")
		if cur >= 0 {
			unix.Close(cur)
		}
		cur, fd = up, up
		if scarce(err) {
			return false, err
		}
		if err != nil || fstat(cur, &at) != nil || at.Dev == was.Dev && at.Ino == was.Ino {
			return false, nil
		}
	}
	return false, nil
}

// Readlink returns a symbolic link's target, which every caller may read.
func (f *FS) Readlink(_ nfsserver.Cred, r nfsserver.Ref) (string, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return "", err
	}
	defer f.cache.release(n)
	if n.typ != nfsserver.TypeSymlink {
		return "", unix.EINVAL
	}
	b := make([]byte, unix.PathMax)
	k, err := eintr.RetryN(func() (int, error) { return unix.Readlinkat(n.fd(), "", b) })
	return string(b[:max(k, 0)]), err
}
