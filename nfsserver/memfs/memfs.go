// Package memfs is a file tree in memory, as an nfsserver.FS. Use it in tests, demonstrations
// and benchmarks, and for files that need not outlive the process.
//
//	tree := memfs.New(memfs.Options{Mode: 0o777})
//	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/scratch", FS: tree}}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer server.Close()
//	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0"})
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package memfs

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// The file system's limits.
const (
	maxFileSize = math.MaxInt64
	nameMax     = 255
	linkMax     = math.MaxUint32
	// defaultLimit is an FS's limit in bytes without Options.Limit.
	defaultLimit = 1 << 30
	// inodeCost is charged for each inode, and nameCost for each name besides its bytes.
	inodeCost, nameCost = 512, 128
)

// Options configures an FS. The zero value is right for most uses.
type Options struct {
	// Limit is the largest number of bytes of content, names and inodes together. Beyond it calls
	// fail with ENOSPC. 0: 1 GiB.
	Limit int64
	// UID, GID and Mode are the root directory's; Mode 0: 0755.
	UID, GID, Mode uint32
}

// FS is a file tree in memory. It is empty at first, and ends with the process: Sync does nothing,
// and another FS's Refs are stale.
//
// Lock order: FS.mu, then a directory's inode.mu, then another object's inode.mu.
type FS struct {
	// Set once.
	id    uint64 // distinguishes this FS's Refs from others
	limit int64
	root  *inode

	used atomic.Int64

	mu      sync.RWMutex      // guards all names, link counts and the fields below
	inodes  map[uint64]*inode // inodes with a name, by number
	nextIno uint64
}

var _ nfsserver.FS = (*FS)(nil)

// New returns an empty FS.
func New(o Options) *FS {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Mode == 0 {
		o.Mode = 0o755
	}
	var id [8]byte
	rand.Read(id[:])
	f := &FS{id: binary.BigEndian.Uint64(id[:]), limit: o.Limit, inodes: make(map[uint64]*inode), nextIno: 1}
	f.root = f.newInode(nfsserver.TypeDir, &nfsserver.SetAttr{
		Mask: nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID, Mode: o.Mode, UID: o.UID, GID: o.GID})
	f.root.dir = newDir(f.root)
	f.root.attr.Nlink = 2
	f.inodes[f.root.ino] = f.root
	return f
}

// An inode is one object.
type inode struct {
	ino uint64
	typ nfsserver.FileType

	mu     sync.RWMutex // guards the rest, but dir and attr.Nlink change only under FS.mu too
	attr   nfsserver.Attr
	pages  map[uint64][]byte // a file's content, see data.go
	gone   bool              // has lost its last name
	target string            // of a symbolic link
	dir    *directory        // of a directory
}

// newInode makes an object without a name; FS.mu is held or f is new.
func (f *FS) newInode(t nfsserver.FileType, s *nfsserver.SetAttr) *inode {
	n := &inode{ino: f.nextIno, typ: t}
	f.nextIno++
	now := nfsserver.Now()
	n.attr = nfsserver.Attr{Type: t, Nlink: 1, Mode: 0o600, Fsid: f.id, Fileid: n.ino, Atime: now, Mtime: now, Ctime: now}
	n.apply(s, now)
	return n
}

// ref returns an inode's Ref: the FS's id and the inode number, which is never reused.
func (f *FS) ref(n *inode) nfsserver.Ref {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], f.id)
	binary.BigEndian.PutUint64(b[8:], n.ino)
	r, _ := nfsserver.MakeRef(b[:])
	return r
}

// find returns a Ref's inode; FS.mu is held.
func (f *FS) find(r *nfsserver.Ref) (*inode, error) {
	b := r.Bytes()
	if len(b) != 16 || binary.BigEndian.Uint64(b) != f.id {
		return nil, nfsserver.ErrStale
	}
	n := f.inodes[binary.BigEndian.Uint64(b[8:])]
	if n == nil {
		return nil, nfsserver.ErrStale
	}
	return n, nil
}

// get is find for callers without FS.mu.
func (f *FS) get(r *nfsserver.Ref) (*inode, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.find(r)
}

// charge takes n bytes from the limit. ENOSPC: fewer than n are left.
func (f *FS) charge(n int64) error {
	if f.used.Add(n) > f.limit {
		f.used.Add(-n)
		return syscall.ENOSPC
	}
	return nil
}

func (f *FS) refund(n int64) { f.used.Add(-n) }

// Root returns the top directory.
func (f *FS) Root() nfsserver.Ref { return f.ref(f.root) }

// Info returns the limits. Cookies are valid as long as their directory exists.
func (f *FS) Info() nfsserver.Info {
	return nfsserver.Info{MaxFileSize: maxFileSize, NameMax: nameMax, LinkMax: linkMax,
		TimeDelta: nfsserver.Time{Nsec: 1}, CookieVerf: f.id, Quick: true, HardLinks: true, Symlinks: true}
}

// Statfs returns the space left below the limit.
func (f *FS) Statfs(r nfsserver.Ref) (nfsserver.Statfs, error) {
	if _, err := f.get(&r); err != nil {
		return nfsserver.Statfs{}, err
	}
	f.mu.RLock()
	files := uint64(len(f.inodes))
	f.mu.RUnlock()
	free := uint64(max(f.limit-f.used.Load(), 0))
	room := free / (inodeCost + nameCost)
	return nfsserver.Statfs{TotalBytes: uint64(f.limit), FreeBytes: free, AvailBytes: free,
		TotalFiles: files + room, FreeFiles: room, AvailFiles: room}, nil
}

// Sync does nothing, because memory does not become more stable.
func (f *FS) Sync(r nfsserver.Ref, _ bool) error {
	_, err := f.get(&r)
	return err
}

// Close drops all objects.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.inodes)
	return nil
}
