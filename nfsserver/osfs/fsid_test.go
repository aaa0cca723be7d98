// A file system's identity is its UUID.

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestIdentityIsTheUUID: a copy of the image on another loop device is the same file system. An
// image with another UUID is another file system.
func TestIdentityIsTheUUID(t *testing.T) {
	for _, c := range []struct {
		name   string
		size   int64
		mkfs   []string
		option string
	}{
		{"ext4", 32 << 20, []string{"mkfs.ext4", "-q", "-U"}, ""},
		{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-m"}, "uuid="},
		{"btrfs", 160 << 20, []string{"mkfs.btrfs", "-q", "-U"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine.NeedRoot(t, "mounts, real file systems and other users: needs root", c.mkfs[0])
			const one, two = "11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-666666666666"
			seen := map[string][]uint64{}
			for i, uuid := range []string{one, two, one} {
				dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
				must.Succeed(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, c.size))
				run(t, append(append([]string{}, c.mkfs...), c.option+uuid, image)...)
				// this mount takes a device, so the third image gets another one than the first
				if i == 1 {
					hold := filepath.Join(t.TempDir(), "hold")
					must.Succeed(t, os.Mkdir(hold, 0o755))
					onImage(32<<20, "", "mkfs.ext4", "-q")(t, t.TempDir(), hold)
					t.Cleanup(func() { unix.Unmount(hold, unix.MNT_DETACH) })
				}
				run(t, "mount", "-o", "loop", image, dir)
				f := newFS(t, dir, Options{})
				seen[uuid] = append(seen[uuid], f.top.id)
				f.Close()
				must.Succeed(t, unix.Unmount(dir, 0))
			}
			if seen[one][0] != seen[one][1] || seen[one][0] == seen[two][0] {
				t.Errorf("identities of %s: %x; of %s: %x", one, seen[one], two, seen[two])
			}
		})
	}
}

// TestGivenFSID: a given FSID, even 0, appears in attributes. Handles made under one FSID are stale
// under another.
func TestGivenFSID(t *testing.T) {
	dir := t.TempDir()
	write(t, "data", dir, "f")
	open := func(n uint64) *FS { return newFS(t, dir, Options{FSID: &n}) }
	zero, seven, again := open(0), open(7), open(7)
	r, at, err := seven.Lookup(me, seven.Root(), "f")
	must.Succeed(t, err)
	if at.Fsid != 7 {
		t.Errorf("fsid %d", at.Fsid)
	}
	if at, err := zero.Getattr(zero.Root()); err != nil || at.Fsid != 0 {
		t.Errorf("fsid %d, %v", at.Fsid, err)
	}
	if at, err := again.Getattr(r); err != nil || at.Fsid != 7 {
		t.Errorf("a handle of the same number: %+v, %v", at, err)
	}
	if _, err := zero.Getattr(r); !errors.Is(err, nfsserver.ErrStale) {
		t.Errorf("a handle of another number: %v", err)
	}
}
