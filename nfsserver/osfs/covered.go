// Detects an exported directory hidden by a later mount, or with its file system unmounted.

package osfs

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/mountinfo"
)

// Mounts is this process's mount table at one moment.
type Mounts struct{ entries []mountinfo.Entry }

// ReadMounts reads the current mount table. It waits for no file system.
func ReadMounts() (m Mounts, err error) {
	m.entries, err = readMounts()
	return m, err
}

// A position is an exported directory's path and the mount it was opened in.
type position struct {
	path  string
	mount mountinfo.Entry
	known bool
}

// positionOf returns an open directory's position.
func positionOf(fd int) (p position, err error) {
	p.path, _ = fdPath(fd) // an empty path is below no mount
	m, err := ReadMounts()
	if err != nil {
		return p, err
	}
	p.mount, p.known = m.covering(p.path)
	id, err := mountID(fd)
	p.known = p.known && err == nil && p.mount.ID == id
	return p, nil
}

// covering returns the mount to which a path leads: the mount with the longest mount point, and the
// last of several mounts there.
func (m Mounts) covering(path string) (found mountinfo.Entry, ok bool) {
	for _, e := range m.entries {
		below := e.Point == path || strings.HasPrefix(path, strings.TrimSuffix(e.Point, "/")+"/")
		if below && len(e.Point) >= len(found.Point) {
			found, ok = e, true
		}
	}
	return found, ok
}

// A Covering is an exported directory's state in the mount table.
type Covering uint8

// The states of an exported directory in the mount table.
const (
	InPlace   Covering = iota // the path leads to the directory
	Covered                   // the path leads to another file system, mounted since
	Unmounted                 // the file system is no longer mounted there, and no other is
)

// Covering returns the directory's state in m, also after Close. The kernel reuses mount numbers,
// so the device is compared too: both together name the same file system. A directory whose mount
// was unknown when New opened it stays InPlace.
func (f *FS) Covering(m Mounts) Covering {
	p := &f.position
	now, ok := m.covering(p.path)
	switch {
	case !p.known, ok && now.ID == p.mount.ID && now.Device == p.mount.Device:
		return InPlace
	case !ok || len(now.Point) < len(p.mount.Point):
		return Unmounted
	}
	return Covered
}
