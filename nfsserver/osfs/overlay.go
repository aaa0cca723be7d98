// Rules for overlays, which differ from other file systems.

package osfs

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// layersApart reports whether fd, the root of an export with attributes st, is on an overlay with
// layers on several file systems and without the mount option xino. The inode numbers of its
// directories change whenever the kernel forgets them.
func layersApart(fd int, st *unix.Stat_t) (bool, error) {
	if apart, known := filesApart(fd, st); known {
		return apart, nil
	}
	return optionsOfMount(st.Dev)
}

// filesApart is layersApart by the root's first entry that is not a directory, if there is such an
// entry: the entry's device number is its layer's.
func filesApart(fd int, st *unix.Stat_t) (apart, known bool) {
	dir, err := openHere(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, false
	}
	defer unix.Close(dir)
	buf := make([]byte, direntBuf)
	for looked := 0; looked < apartLook; {
		n, err := getdents(dir, buf)
		if err != nil || n <= 0 {
			break
		}
		var de rawDirent
		for b := de.next(buf[:n]); b != nil; b = de.next(b) {
			looked++
			var at unix.Stat_t
			err := unix.Fstatat(dir, string(de.name), &at, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
			if err == nil && fileType(at.Mode) != nfsserver.TypeDir {
				return at.Dev != st.Dev, true
			}
		}
	}
	return false, false
}

// optionsOfMount is layersApart by the mount options of the overlay with device number dev. Layers
// that this process cannot see under the options' paths count as one file system.
func optionsOfMount(dev uint64) (bool, error) {
	all, err := readMounts()
	for _, m := range all { // by device, because the server's private mount is not in the table
		if m.Device == dev && m.Type == "overlay" {
			return optionsApart(m.Options, deviceOf), nil
		}
	}
	return false, err
}

// deviceOf returns a directory's device number.
func deviceOf(path string) (uint64, bool) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Dev, err == nil
}

// optionsApart reports whether an overlay with these options has layers on several devices, without
// common inode numbers.
func optionsApart(options string, device func(path string) (uint64, bool)) bool {
	seen := map[uint64]bool{}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "xino":
			if value == "on" {
				return false
			}
		case "lowerdir", "lowerdir+", "upperdir":
			for path := range strings.SplitSeq(value, ":") {
				if !filepath.IsAbs(path) {
					continue // only the mounting process could resolve a relative path
				}
				if dev, ok := device(path); ok {
					seen[dev] = true
				}
			}
		}
	}
	return len(seen) > 1
}

// LayersApart reports whether the FS is an overlay with layers on several file systems and without
// the mount option xino=on. The fileids of its directories change when the kernel is short of
// memory, and without nfs_export=on their handles change too.
func (f *FS) LayersApart() bool { return f.top.apart }

// isDead reports whether a directory has been removed, though its link count is not 0: an overlay's
// merged directories keep their link count.
func (f *FS) isDead(n *node) bool {
	if n.typ != nfsserver.TypeDir || !n.mergedMount {
		return false
	}
	// The kernel marks a removed directory's path, but a real name can end like that too.
	path, err := os.Readlink(procPath(n.fd()))
	if err != nil || !strings.HasSuffix(path, " (deleted)") {
		return false
	}
	fd, err := openHere(n.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return true // this process cannot read the directory
	}
	defer unix.Close(fd)
	_, err = getdents(fd, make([]byte, direntBuf))
	return err == unix.ENOENT
}

// isDeadNow is isDead, evaluated at most once in each tick of the sweeper.
func (f *FS) isDeadNow(n *node) bool {
	if !n.mergedMount {
		return false
	}
	now := f.cache.tick.Load() + 1
	return n.alive.Swap(now) != now && f.isDead(n)
}
