// The FS of a volume, and what is asked of it as a whole.

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

// FS is a JuiceFS volume. See the package for what its methods promise beside nfsserver.FS.
//
// Lock order: removals or renames, file.mu, file.state; listings.mu; files.mu last.
type FS struct {
	// Set once.
	log      *slog.Logger // nil: slog.Default()
	m        meta.Meta
	uuid     string                       // of the volume
	settings func() (*meta.Format, error) // asks for those of the volume that is there (gone.go)
	readOnly bool
	sole     bool                    // its metadata is Badger's, which no other process opens meanwhile
	key      [nfsserver.KeySize]byte // of the handles
	blob     object.ObjectStorage
	local    *localDirs
	work     background
	root     meta.Ino
	volume   uint64   // in Refs, and the fsid
	hashKey  [16]byte // of the cookies
	session  sessionFile
	kept     keeper // of the process before

	calls calls
	now   func() time.Time // of marks and records

	sid      uint64         // of the session; 0: there is none. Set once
	locked   atomic.Int64   // files that clients have possibly locked
	gone     atomic.Bool    // the volume is not there any more
	looks    sync.WaitGroup // those who look whether it is
	files    files
	listings listings
	removals removals
	// renames is held while a directory moves to another one, so that none gets below itself. It does not reach
	// other servers of the volume.
	renames sync.Mutex
}

var (
	_ nfsserver.FS     = (*FS)(nil)
	_ nfsserver.ACLer  = (*FS)(nil)
	_ nfsserver.Locker = (*FS)(nil)
)

// Root is the top directory.
func (f *FS) Root() nfsserver.Ref { return f.ref(f.root, nfsserver.TypeDir) }

// Info tells the limits. It is not Quick: attributes are asked for at a service. All servers of the
// volume share its key. Marks of calls cost nothing, but a read-only volume has none.
func (f *FS) Info() nfsserver.Info {
	return nfsserver.Info{MaxFileSize: maxFileSize, NameMax: nameMax, LinkMax: linkMax, TimeDelta: nfsserver.Time{Nsec: 1},
		CookieVerf: cookieVersion, HardLinks: true, Symlinks: true, Shared: !f.sole, SyncSetsTimes: true,
		HandleKey: f.key, RecordsCalls: !f.readOnly}
}

// Statfs tells the room that the volume and the quotas of the directories above r leave.
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

// Sync has the buffers of a file stored, and whatever is left to this machine's page cache. Names
// and attributes have been committed to the metadata service by the methods that changed them, so
// nothing is asked there: each change of a name is followed by one or two of these.
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

// Close stores what is buffered and ends the session. JuiceFS leaves some idle goroutines.
func (f *FS) Close() error {
	opened.remove(f)
	f.calls.close()
	err := f.files.close()
	f.kept.close()
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

// asTime is a time as JuiceFS has it.
func asTime(sec int64, nsec uint32) nfsserver.Time { return nfsserver.Time{Sec: sec, Nsec: nsec} }

// later is the later of two times.
func later(a, b nfsserver.Time) nfsserver.Time {
	if a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec {
		return b
	}
	return a
}
