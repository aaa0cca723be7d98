// Local and shared file systems, by their magic numbers.

package osfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestSharedFileSystems: file systems that other machines can change are shared.
func TestSharedFileSystems(t *testing.T) {
	for magic, want := range map[int64]bool{
		unix.NFS_SUPER_MAGIC: true, unix.CEPH_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true,
		gfs2Magic: true, ocfs2Magic: true, 0x12345: true,
		unix.EXT4_SUPER_MAGIC: false, unix.XFS_SUPER_MAGIC: false, unix.TMPFS_MAGIC: false, unix.OVERLAYFS_SUPER_MAGIC: false, unix.MSDOS_SUPER_MAGIC: false,
	} {
		if isShared(magic) != want {
			t.Errorf("%#x: %v", magic, !want)
		}
	}
	eachFS(t, func(t *testing.T, k *fsKind, dir string, _ func()) {
		f := newFS(t, dir, Options{})
		if got := f.Info().Shared; got != (k.name == "bindfs" || k.name == "sshfs") {
			t.Errorf("shared: %v", got)
		}
	})
}

// TestSharedDirectoryIsToldLate shows why Info.Shared exists: another machine changes a directory.
// Its attributes here stay the old ones until this machine changes it.
func TestSharedDirectoryIsToldLate(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "bindfs")
	scratch := t.TempDir()
	source, dir := filepath.Join(scratch, "source"), filepath.Join(scratch, "mnt")
	must.Succeed(t, os.Mkdir(source, 0o755), os.Mkdir(dir, 0o755))
	run(t, "bindfs", "-o", "attr_timeout=3600", source, dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	f := newFS(t, dir, Options{})
	told, err := f.Getattr(f.Root())
	must.Succeed(t, err, os.Mkdir(filepath.Join(source, "theirs"), 0o755))
	before, err := f.Getattr(f.Root())
	must.Succeed(t, err)
	_, _, err = f.Mkdir(me, f.Root(), "ours", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	must.Succeed(t, err)
	after, err := f.Getattr(f.Root())
	must.Succeed(t, err)
	if before != told || after.Mtime == told.Mtime {
		t.Errorf("told %+v; after another's change %+v, after ours %+v", told, before, after)
	}
	if !f.Info().Shared {
		t.Error("it is not shared")
	}
}
