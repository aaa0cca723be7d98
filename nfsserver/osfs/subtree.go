// The subtree check: whether a handle's file still lies in the export.

package osfs

import (
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A handle names an inode anywhere. A file moved out of the export stays available by its handle,
// unless the export has subtree_check (exports(5)). In that case every object is checked before its
// first use, and again after checkTicks ticks of the sweeper. A directory is checked along its
// parents up to the root. A file does not know its directories, and may have several names. The
// kernel (/proc) has the name by which the file was opened, and the index the name under which it
// was last seen; the last resort is a walk. Each name is checked by opening it. Unlike knfsd's
// handles, a handle does not contain the directory, so it survives a rename from one directory to
// another.

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
		if leads || err != nil || st.Nlink <= 1 { // the file's only name is outside
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

// pathOf returns the kernel's path of the open file fd, relative to the export's root if the file
// lies below the root. A file opened by handle may have no path, until a name of the file has been
// looked up.
func (f *FS) pathOf(fd int) (path string, connected bool, err error) {
	if path, err = fdPath(fd); err != nil || path == "/" {
		return "", false, err
	}
	base := "/" // the private mount has the export as its root
	if f.tree.copied < 0 {
		if base, err = fdPath(f.tree.named); err != nil {
			return "", false, err
		}
	}
	path, err = filepath.Rel(base, path)
	return path, true, err
}

// leadsTo reports whether path, relative to the export's root, names the file with attributes st.
// It returns only scarce errors.
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
