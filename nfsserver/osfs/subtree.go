// The subtree check: whether what a handle names still lies in the export.

package osfs

import (
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A handle names an inode, wherever it is. What somebody on this machine moves
// out of the export goes on being served to those who have its handle, unless
// this is asked for (exports(5), subtree_check). Then every object is checked
// before its first use, and again when checkTicks of the sweeper have passed.
//
// A directory is checked by going up. A file knows no directory, and it may have
// several: the kernel's own memory of names (/proc) says under which it was
// opened, the index under which it was last seen, and the last resort is a walk.
// What is said is checked by opening that name. Unlike knfsd's, the handle does
// not hold the directory: it survives a rename from one to another.

// confine returns ErrStale if n does not lie in the export.
func (f *FS) confine(n *node) error {
	now := f.cache.tick.Load()
	if at := n.proven.Load(); at != 0 && now-(at-1) < checkTicks {
		return nil
	}
	inside, err := f.inside(n)
	switch {
	case err != nil:
		return err
	case !inside:
		return nfsserver.ErrStale
	}
	n.proven.Store(now + 1)
	return nil
}

func (f *FS) inside(n *node) (bool, error) {
	var st unix.Stat_t
	if err := fstat(n.fd(), &st); err != nil {
		return false, err
	}
	if n.typ == nfsserver.TypeDir {
		return f.below(n.fd(), &st)
	}
	path, connected, err := f.pathOf(n.fd())
	if err != nil {
		return false, err
	}
	if connected {
		leads, err := f.leadsTo(path, &st)
		if leads || err != nil || st.Nlink <= 1 { // its only name is elsewhere
			return leads, err
		}
	}
	fd, err := f.openHint(n.key, 0)
	if err != nil && !scarce(err) {
		fd, err = f.index.walk.find(f, n.key)
	}
	if err != nil {
		return false, err
	}
	unix.Close(fd)
	return true, nil
}

// pathOf is the path, from the root of the export if it lies there, under which
// the kernel has the open file fd. One that was opened by handle may have none,
// as long as nobody has looked up a name of it.
func (f *FS) pathOf(fd int) (path string, connected bool, err error) {
	if path, err = fdPath(fd); err != nil || path == "/" {
		return "", false, err
	}
	base := "/" // the private mount begins at the export
	if f.tree.copied < 0 {
		if base, err = fdPath(f.tree.named); err != nil {
			return "", false, err
		}
	}
	path, err = filepath.Rel(base, path)
	return path, true, err
}

// leadsTo reports whether path, from the root of the export, names the file with attributes st. Its
// only error is one that is scarce.
func (f *FS) leadsTo(path string, st *unix.Stat_t) (bool, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	if f.tree.noXdev {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	fd, err := opened(func() (int, error) { return unix.Openat2(f.tree.root, path, &how) })
	switch {
	case scarce(err):
		return false, err
	case err != nil:
		return false, nil
	}
	defer unix.Close(fd)
	var at unix.Stat_t
	return fstat(fd, &at) == nil && at.Dev == st.Dev && at.Ino == st.Ino, nil
}
