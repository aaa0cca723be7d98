// Changes names: link, remove, rename.

package osfs

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// as makes the system calls in calls as c. After an interruption it repeats all of them.
func (f *FS) as(c *nfsserver.Cred, calls func() error) error {
	a, err := f.creds.Act(c)
	if err != nil {
		return err
	}
	defer a.End()
	return eintr.Retry(calls)
}

// Link gives an inode another name. It links the /proc path, which leads to the inode itself, even
// if that is a symbolic link.
func (f *FS) Link(c nfsserver.Cred, r, dir nfsserver.Ref, name string) error {
	n, err := f.acquire(&r)
	if err != nil {
		return err
	}
	defer f.cache.release(n)
	d, err := f.acquireDir(&dir)
	if err != nil {
		return err
	}
	defer f.cache.release(d)
	err = f.as(&c, func() error {
		return unix.Linkat(unix.AT_FDCWD, procPath(n.fd()), d.fd(), name, unix.AT_SYMLINK_FOLLOW)
	})
	if errors.Is(err, unix.ENOENT) && f.dropIfGone(n) {
		return nfsserver.ErrStale
	}
	if err == nil {
		f.note(&file{key: n.key}, d, name)
	}
	return f.inDir(d, err)
}

// Remove removes a name, unless it is a directory's.
func (f *FS) Remove(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	return f.unlink(&c, dir, name, 0)
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	return f.unlink(&c, dir, name, unix.AT_REMOVEDIR)
}

func (f *FS) unlink(c *nfsserver.Cred, dir nfsserver.Ref, name string, flags int) error {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return err
	}
	defer f.cache.release(d)
	n := f.cached(d, name)
	if n != nil {
		defer f.cache.release(n)
	}
	if err := f.as(c, func() error { return unix.Unlinkat(d.fd(), name, flags) }); err != nil {
		return err
	}
	if n != nil {
		f.dropIfGone(n) // an open descriptor would keep the file's disk space
	}
	return nil
}

// cached returns the node for name in d, with a reference, if the cache has the node, or if the
// index has to record the name's removal.
func (f *FS) cached(d *node, name string) *node {
	if f.byName && !f.indexed { // one system call instead of four
		var z zname
		var st unix.Stat_t
		var ref nfsserver.Ref
		if z.set(name) {
			if known, err := f.statKnown(d.fd(), z[:], &st, &ref); known && err == nil {
				return f.cache.get(&ref)
			}
		}
	}
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil {
		return nil
	}
	var x file
	if err := f.describe(fd, &x); err != nil {
		unix.Close(fd)
		return nil
	}
	if n := f.cache.get(&x.ref); n != nil || !f.indexed {
		unix.Close(fd)
		return n
	}
	n := newNode(&x)
	n.path.Store(int32(fd))
	return f.cache.put(n)
}

// Rename is renameat(2), which treats existing targets and two names of one file as RFC 1813
// §3.3.14 demands.
func (f *FS) Rename(c nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	src, err := f.acquireDir(&from)
	if err != nil {
		return err
	}
	defer f.cache.release(src)
	dst, err := f.acquireDir(&to)
	if err != nil {
		return err
	}
	defer f.cache.release(dst)
	if f.indexed { // after a copy-up only an open node shows that the file is the same
		if n := f.cached(src, fromName); n != nil {
			defer f.cache.release(n)
		}
	}
	old := f.cached(dst, toName)
	if old != nil {
		defer f.cache.release(old)
	}
	if err := f.as(&c, func() error { return unix.Renameat(src.fd(), fromName, dst.fd(), toName) }); err != nil {
		return err
	}
	if old != nil {
		f.dropIfGone(old)
	}
	if f.indexed {
		f.noteName(dst, toName)
	}
	return nil
}

// noteName updates the index for a name.
func (f *FS) noteName(d *node, name string) {
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var x file
	if err := f.describe(fd, &x); err == nil {
		f.note(&x, d, name)
	}
}
