// The state of an exported directory in tables of mounts.

package osfs

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/mountinfo"
)

func TestCovering(t *testing.T) {
	at := func(id int, device uint64, point string) mountinfo.Entry {
		return mountinfo.Entry{ID: id, Device: device, Point: point}
	}
	root, disk := at(1, 10, "/"), at(2, 20, "/srv")
	for _, c := range []struct {
		name   string
		path   string
		opened mountinfo.Entry
		now    []mountinfo.Entry
		want   Covering
	}{
		{"as it was", "/srv/a", disk, []mountinfo.Entry{root, disk}, InPlace},
		{"mounted beside", "/srv/a", disk, []mountinfo.Entry{root, disk, at(3, 30, "/srv/ab")}, InPlace},
		{"mounted below", "/srv/a", disk, []mountinfo.Entry{root, disk, at(3, 30, "/srv/a/b")}, InPlace},
		{"mounted over it", "/srv/a", disk, []mountinfo.Entry{root, disk, at(3, 30, "/srv/a")}, Covered},
		{"mounted over its file system", "/srv/a", disk, []mountinfo.Entry{root, disk, at(3, 30, "/srv")}, Covered},
		{"the first of two there", "/srv/a", at(3, 30, "/srv"), []mountinfo.Entry{root, at(3, 30, "/srv"), disk}, Covered},
		{"mounted again", "/srv/a", disk, []mountinfo.Entry{root, at(2, 30, "/srv")}, Covered},
		{"unmounted", "/srv/a", disk, []mountinfo.Entry{root}, Unmounted},
		{"no mount table", "/srv/a", disk, nil, Unmounted},
		{"the root", "/", root, []mountinfo.Entry{root, disk}, InPlace},
		{"not found when it was opened", "/srv/a", mountinfo.Entry{}, []mountinfo.Entry{root}, InPlace},
	} {
		f := FS{position: position{path: c.path, mount: c.opened, known: c.opened != mountinfo.Entry{}}}
		if got := f.Covering(Mounts{c.now}); got != c.want {
			t.Errorf("%s: state %d, want %d", c.name, got, c.want)
		}
	}
}

// TestPositionOf: a directory's position names its mount, and without a descriptor the position is
// unknown.
func TestPositionOf(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{})
	p, err := positionOf(f.tree.named)
	if err != nil {
		t.Fatalf("of a directory: %v", err)
	}
	if !p.known || p.mount.Point == "" {
		t.Errorf("of a directory: got %+v, want a known one", p)
	}
	if p, err := positionOf(-1); err != nil || p.known {
		t.Errorf("of no descriptor: %+v, %v, want none", p, err)
	}
}
