// The FS of a volume, and the operations on it as a whole.

package juicefs

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Limits of JuiceFS.
const (
	maxFileSize = meta.ChunkSize << 31
	nameMax     = meta.MaxName
	linkMax     = math.MaxInt32

	rootIno meta.Ino = meta.RootInode
)

// FS is a JuiceFS volume. The package comment describes its methods' guarantees beyond
// nfsserver.FS.
//
// Lock order: removals or renames, file.mu, file.state; listings.mu; files.mu last.
type FS struct {
	// Set once.
	log      *slog.Logger // nil: slog.Default()
	m        meta.Meta
	uuid     string                       // of the volume
	settings func() (*meta.Format, error) // of the volume that exists now (gonevolume.go)
	readOnly bool
	sole     bool                    // its metadata is in Badger, which only this process has open
	key      [nfsserver.KeySize]byte // of the volume: for file handles, and mac
	blob     object.ObjectStorage
	local    *localDirs
	work     background
	root     meta.Ino
	volume   uint64   // in Refs, and the fsid
	hashKey  [16]byte // for cookies
	session  sessionFile
	grace    graceLocks // locks of the previous process

	calls calls
	now   func() time.Time // for marks and records

	sid      uint64         // session number; 0: no session. Set once
	locked   atomic.Int64   // open files that clients may have locked
	gone     atomic.Bool    // the volume no longer exists
	looks    sync.WaitGroup // running checks of whether it exists
	files    files
	listings listings
	removals removals
	// renames is held while a directory moves to another one, so that none moves below itself. It
	// does not exclude other servers of the volume.
	renames sync.Mutex
}

var (
	_ nfsserver.FS     = (*FS)(nil)
	_ nfsserver.ACLer  = (*FS)(nil)
	_ nfsserver.Locker = (*FS)(nil)
)

// Root returns the top directory.
func (f *FS) Root() nfsserver.Ref { return f.ref(f.root, nfsserver.TypeDir) }

// Info returns the limits. Quick is unset, because attributes come from a service. All servers of
// the volume share its key. Marks of calls cost nothing, but a read-only volume has none.
func (f *FS) Info() nfsserver.Info {
	return nfsserver.Info{MaxFileSize: maxFileSize, NameMax: nameMax, LinkMax: linkMax, TimeDelta: nfsserver.Time{Nsec: 1},
		CookieVerf: cookieVersion, HardLinks: true, Symlinks: true, Shared: !f.sole, SyncSetsTimes: true,
		HandleKey: f.key, RecordsCalls: !f.readOnly}
}

// Statfs returns the space left by the volume and by the quotas of the directories above r.
func (f *FS) Statfs(r nfsserver.Ref) (nfsserver.Statfs, error) {
	n, err := f.load(&r)
	if err != nil {
		return nfsserver.Statfs{}, err
	}
	dir := n.ino
	if n.attr.Type != nfsserver.TypeDir {
		dir = n.parent
	}
	if dir == 0 { // a file with several names
		dir = f.root
	}
	var total, avail, used, free uint64
	if no := f.m.StatFS(system, dir, &total, &avail, &used, &free); no != 0 {
		return nfsserver.Statfs{}, failedOn(no)
	}
	avail = min(avail, total)
	return nfsserver.Statfs{TotalBytes: total, FreeBytes: avail, AvailBytes: avail, TotalFiles: used + free, FreeFiles: free, AvailFiles: free}, nil
}

// Sync stores buffered writes, and syncs data left in this machine's page cache. The methods that
// change names and attributes have committed them to the metadata service, so Sync does not query
// it: each change of a name is followed by one or two Syncs.
func (f *FS) Sync(r nfsserver.Ref, _ bool) error {
	ino, t, err := f.parse(&r)
	switch {
	case err != nil:
		return err
	case kind(t) == 0:
		return nfsserver.ErrStale
	case t == nfsserver.TypeReg:
		if err := f.files.sync(ino); err != nil {
			return err
		}
	}
	return f.local.sync()
}

// Close stores buffered writes and ends the session. JuiceFS leaves some idle goroutines.
func (f *FS) Close() error {
	opened.remove(f)
	f.calls.close()
	err := f.files.close()
	f.grace.close()
	if e := f.m.CloseSession(); err == nil {
		err = e
	}
	f.work.wait()
	if e := f.local.sync(); err == nil {
		err = e
	}
	if e := f.m.Shutdown(); err == nil {
		err = e
	}
	object.Shutdown(f.blob)
	f.local.close()
	f.session.close()
	return err
}

// asTime converts a JuiceFS time.
func asTime(sec int64, nsec uint32) nfsserver.Time { return nfsserver.Time{Sec: sec, Nsec: nsec} }

// later returns the later of two times.
func later(a, b nfsserver.Time) nfsserver.Time {
	if a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec {
		return b
	}
	return a
}
