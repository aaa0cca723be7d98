// Whether the directory of an FS is still what its path leads to, after others have mounted and unmounted.

package osfs

import "strings"

// Mounts is what is mounted at one moment, as this process sees it.
type Mounts struct{ entries []mountEntry }

// ReadMounts returns what is mounted now. It waits for no file system.
func ReadMounts() Mounts { return Mounts{readMounts()} }

// A position is the path of an exported directory and the mount that it was opened in.
type position struct {
	path  string
	mount mountEntry
	known bool
}

// positionOf is that of an open directory.
func positionOf(fd int) (p position) {
	path, err := fdPath(fd)
	id, idErr := mountID(fd)
	if err != nil || idErr != nil {
		return p
	}
	p.path = path
	p.mount, p.known = ReadMounts().covering(path)
	p.known = p.known && p.mount.id == id
	return p
}

// covering is the mount that a path leads to: the one with the longest mount point, and of several there the last.
func (m Mounts) covering(path string) (found mountEntry, ok bool) {
	for _, e := range m.entries {
		below := e.point == path || strings.HasPrefix(path, strings.TrimSuffix(e.point, "/")+"/")
		if below && len(e.point) >= len(found.point) {
			found, ok = e, true
		}
	}
	return found, ok
}

// A Covering is how the directory of an FS stands to what is mounted.
type Covering uint8

// The ways of standing.
const (
	InPlace   Covering = iota // its path leads to it
	Covered                   // its path leads to another file system, mounted since
	Unmounted                 // its file system is not mounted there any more, and no other one is
)

// Covering says how the directory stands to what is mounted, also after Close. A number of a mount is given again, but with the
// device it names the same file system. Where it was not known at first, it stays in place.
func (f *FS) Covering(m Mounts) Covering {
	p := &f.position
	now, ok := m.covering(p.path)
	switch {
	case !p.known, ok && now.id == p.mount.id && now.device == p.mount.device:
		return InPlace
	case !ok || len(now.point) < len(p.mount.point):
		return Unmounted
	}
	return Covered
}
