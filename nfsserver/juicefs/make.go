// A volume in a local directory: nothing to set up.

package juicefs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A Local is a volume with its metadata in Badger and its objects in files, both below one
// directory. Only one process at a time can open it.
type Local struct {
	Dir string
	// UID, GID and Mode are the root directory's; Mode 0: 0755.
	UID, GID, Mode uint32
	// Capacity and Inodes are the most bytes and objects; 0: no limit but the disk's.
	Capacity, Inodes uint64
	// TrashDays is the number of days removed files stay in the trash; 0: no trash.
	TrashDays int
	// ACL: objects can have POSIX ACLs.
	ACL bool
}

// blockKiB is the block size in KiB, as recommended by JuiceFS.
const blockKiB = 4096

// Make makes the volume, unless the directory has one, and returns the URL for Options.Meta.
func (l Local) Make() (url string, err error) {
	dir, err := filepath.Abs(l.Dir)
	if err != nil {
		return "", fmt.Errorf("juicefs: %w", err)
	}
	for _, sub := range []string{"meta", "objects"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return "", fmt.Errorf("juicefs: %w: make %s writable for this user", err, dir)
		}
	}
	url = "badger://" + filepath.Join(dir, "meta")
	m, err := connect(url, meta.DefaultConf())
	if err != nil {
		return "", err
	}
	defer func() {
		if e := m.Shutdown(); err == nil && e != nil {
			err = fmt.Errorf("juicefs: %w", e)
		}
	}()
	if _, err := m.Load(true); err == nil {
		return url, nil
	}
	return url, l.format(m, dir)
}

// format writes a new volume's settings, and its root directory.
func (l *Local) format(m meta.Meta, dir string) error {
	mode := l.Mode
	if mode == 0 {
		mode = 0o755
	}
	err := m.Init(&meta.Format{
		Name: "local", UUID: uuid.NewString(), Storage: "file", Bucket: filepath.Join(dir, "objects") + "/", Tiers: object.NewTiers(""),
		BlockSize: blockKiB, Capacity: l.Capacity, Inodes: l.Inodes, TrashDays: l.TrashDays, EnableACL: l.ACL, DirStats: true,
		MetaVersion: meta.MaxVersion, MinClientVersion: "1.2.0-A",
	}, false)
	if err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	a := &meta.Attr{Uid: l.UID, Gid: l.GID, Mode: uint16(mode & nfsserver.ModeAll)}
	for _, set := range []uint16{meta.SetAttrUID | meta.SetAttrGID, meta.SetAttrMode} {
		b := *a
		if no := m.SetAttr(system, meta.RootInode, set, 0, &b); no != 0 {
			return fmt.Errorf("juicefs: root directory: %w", no)
		}
	}
	return nil
}
