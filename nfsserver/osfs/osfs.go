// Package osfs serves a directory of a Linux file system as an nfsserver.FS. New opens the
// directory, and an Export of nfsserver.Options serves it. The example of nfsserver.New shows both.
//
// An FS never leaves the directory. Names are single components, opened relative to their
// directory's descriptor without following symbolic links, and ".." only where the root lies above.
// File systems mounted inside are hidden, or served with their own fsid (Options.CrossMounts).
// Clients follow symbolic links themselves.
//
// A handle names a file system and an inode. Where the kernel opens inodes by handle
// (CAP_DAC_READ_SEARCH; ext4, xfs, btrfs, tmpfs, …) it is the kernel's own. Elsewhere it has inode
// number and generation, and the file is found again by an index of names or by a walk of the tree.
// On file systems that reuse inode numbers, such as FUSE, handles end with the process.
//
// Descriptors are closed soon after their last use, except the directory's.
//
// /proc must be mounted: by its links an open descriptor is opened again, linked, or given another
// mode, without a name in between.
package osfs

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/cred"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/inodegen"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/uring"
	"golang.org/x/sys/unix"
)

// Options configures an FS. The zero value is right for most uses.
type Options struct {
	// CacheFiles is the number of files that are kept open, each with up to three descriptors. 0:
	// as many as all FSs of the process may have together, which is an eighth of the limit on
	// descriptors, at most 4096.
	CacheFiles int
	// noKernelHandles makes the FS use its own handles even where kernel handles work.
	noKernelHandles bool
	// CrossMounts also serves the file systems mounted inside the directory, each with its own fsid
	// and free space (crossmnt in exports(5)). Without it clients see the directories below the
	// mount points.
	CrossMounts bool
	// SubtreeCheck makes handles of files that were moved out of the directory stale, about a
	// second later (subtree_check in exports(5)). Without it they continue to name the file,
	// wherever it is.
	SubtreeCheck bool
	// FSID, if set, replaces the identity that the file system reports: it is the fsid of the
	// directory's own file system in attributes, and distinguishes it from others in handles (fsid=
	// in exports(5)).
	FSID *uint64
}

// FS is a directory of this machine. If root runs it, calls act as their callers, and the kernel
// checks permissions. Otherwise they act as the user of the process, and other callers are refused.
type FS struct {
	// Set once.
	opts        Options
	tree        tree
	top         *mount // the export's own mount
	cross       bool   // file systems mounted below are served too
	indexed     bool   // some files are found by the index
	mixed       bool   // entries of a directory may be on other file systems than the directory
	byName      bool   // entries are described without opening them
	nowait      bool   // files can be read without waiting for their disk (RWF_NOWAIT)
	defersReads bool   // also, cached data can be read when the reply is sent
	atime       atimeRule
	// quickReads: the kernel reports a file's cached pages, and reading those changes no access
	// time.
	quickReads bool

	maxWriteSize int // bytes that one system call writes at most
	root         nfsserver.Ref
	rootKey      inodeKey
	info         nfsserver.Info
	creds        cred.Process

	writersAlike bool // the export's file system treats all writers alike

	mounts mountTable // with cross
	btimes btimes     // of files with changing birth times

	identities identities // of files without other generations
	position   position   // set once

	cache  cache
	gens   inodegen.Cache // of files on file systems with describesByName
	index  index
	closed atomic.Bool
	sweep  sweeper
	flush  flusher
	cold   coldRing

	lastPage, lastPagePlus pageSize // of READDIR and of READDIRPLUS

	helpers   atomic.Int32 // helper goroutines in listings
	decisions decisions
}

var _ nfsserver.FS = (*FS)(nil)

// New returns the FS for directory dir.
func New(dir string, o Options) (*FS, error) {
	t, err := openTree(dir, o.CrossMounts)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", dir, err)
	}
	f := &FS{tree: t, opts: o, cross: o.CrossMounts, cold: coldRing{open: uring.Open}}
	f.sweep.init()
	f.flush.init()
	if f.position, err = positionOf(t.named); err == nil {
		err = f.init(o)
	}
	if err == nil {
		f.cache.slow = f.cross || !keepsInodes(f.top.magic)
		f.cache.init(o.CacheFiles, f.retire, f.wakeSweeper, f.flush.room)
		err = shared.join(&f.cache) // from now on other FSs may close files of this FS
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("export %s: %w", dir, err)
	}
	// The kernel has no path for the tree, which is a copy of a mount. If a link changes at this
	// moment, a MNT for the new target returns the old target's tree.
	f.info.Path, _ = filepath.EvalSymlinks(dir)
	return f, nil
}

func (f *FS) init(o Options) error {
	var proc unix.Stat_t
	if err := eintr.Retry(func() error { return unix.Stat(procPath(f.tree.root), &proc) }); err != nil {
		return errors.New("/proc is not mounted, and is needed")
	}
	if err := access(f.tree.root, nfsserver.MayExec); forbidden(err) {
		return fmt.Errorf("faccessat2 is not available (%v): it takes a kernel from 5.8 on, and a container whose filter allows it", err)
	}
	f.creds = cred.New()
	f.index.init()
	f.mounts.init()
	f.identities.init()
	var err error
	if f.top, err = newMount(f.tree.root, &o, true); err != nil {
		return err
	}
	if f.cross && f.top.number < 0 {
		return errors.New("serving what is mounted inside takes Linux 5.8 or newer")
	}
	f.writersAlike = writersAreAlike(f.tree.root, f.top.magic)
	f.indexed = f.cross || o.SubtreeCheck || !f.top.kernel
	f.mixed = f.cross || f.top.apart || f.top.magic == unix.BTRFS_SUPER_MAGIC
	var x file
	if err := f.describe(f.tree.root, &x); err != nil {
		return err
	}
	f.root, f.rootKey = x.ref, x.key
	if x.numbered {
		f.identities.pin(x.key, generationIn(&x.ref)) // the root stays open
	}
	f.info = f.readInfo()
	f.nowait = f.readsWithoutWaiting()
	f.quickReads, f.atime = f.readRules()
	f.defersReads = f.quickReads || f.info.Quick && f.onlyTmpfs()
	f.maxWriteSize = f.maxWrite()
	f.byName = f.describesByName() // last: with byName, describe fills gens and starts the sweeper
	f.gens.Init(time.Duration(f.info.TimeDelta.Sec)*time.Second + time.Duration(f.info.TimeDelta.Nsec))
	return nil
}

// readInfo returns the limits and features of the file system.
func (f *FS) readInfo() nfsserver.Info {
	in := nfsserver.Info{MaxFileSize: math.MaxInt64, NameMax: 255, LinkMax: 32000,
		TimeDelta: nfsserver.Time{Nsec: 1}, CookieVerf: cookieVerf, Quick: f.top.kernel && !f.cross && local(f.top.magic),
		Shared: isShared(f.top.magic), HardLinks: true, Symlinks: true}
	var st unix.Statfs_t
	if err := fstatfs(f.tree.root, &st); err != nil {
		return in
	}
	if st.Namelen > 0 {
		in.NameMax = uint32(st.Namelen)
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC:
		in.MaxFileSize, in.LinkMax = 16<<40-4096, 65000
		in.TimeDelta = f.timesWithBirth()
	case unix.OVERLAYFS_SUPER_MAGIC: // the upper layer keeps the times
		in.TimeDelta = f.timesWithBirth()
	case unix.XFS_SUPER_MAGIC:
		in.LinkMax = math.MaxInt32
	case unix.BTRFS_SUPER_MAGIC:
		in.LinkMax = 65535
	case unix.TMPFS_MAGIC:
		in.LinkMax = math.MaxInt32
	case unix.MSDOS_SUPER_MAGIC:
		in.MaxFileSize, in.LinkMax, in.HardLinks, in.Symlinks = math.MaxUint32, 1, false, false
		in.TimeDelta, in.CaseInsensitive = nfsserver.Time{Sec: 2}, true
	case unix.FUSE_SUPER_MAGIC:
		in.TimeDelta = f.timesOfRoot()
	}
	return in
}

// timesOfRoot returns the time granularity of a file system in user space, derived from the root's
// own times. On sshfs all times are whole seconds, as in SFTP. A root unchanged since mkfs also has
// such times; a granularity that is too large does no harm.
func (f *FS) timesOfRoot() nfsserver.Time {
	var st unix.Stat_t
	if fstat(f.tree.root, &st) == nil && st.Atim.Nsec|st.Mtim.Nsec|st.Ctim.Nsec == 0 {
		return nfsserver.Time{Sec: 1}
	}
	return nfsserver.Time{Nsec: 1}
}

// timesWithBirth returns the ext2/3/4 time granularity. 256-byte inodes have both nanoseconds and
// the birth time in their second half; 128-byte inodes, as on ext2, have neither. So a birth time
// implies nanoseconds, and the test changes no file.
func (f *FS) timesWithBirth() nfsserver.Time {
	if _, kept, err := birthTime(f.tree.root); err == nil && !kept {
		return nfsserver.Time{Sec: 1}
	}
	return nfsserver.Time{Nsec: 1}
}

// Root returns the directory's Ref.
func (f *FS) Root() nfsserver.Ref { return f.root }

// Info returns the limits and features of the file system.
func (f *FS) Info() nfsserver.Info { return f.info }

// KernelHandles reports whether handles are kernel handles.
func (f *FS) KernelHandles() bool { return f.top.kernel }

// KeepsHandles reports whether handles survive a restart. They do not on file systems that do not
// keep their inode numbers, such as FUSE, and on an overlay without nfs_export=on.
func (f *FS) KeepsHandles() bool { return f.top.keeps }

// ActsAsCallers reports whether this process can make calls as their callers, as root can outside
// of restricted containers. If not, a Server of an FS must make all callers act as nfsserver.Self
// (Squash.All): others are refused.
func ActsAsCallers() bool { return cred.New().Switches }

// Statfs returns the space on r's file system.
func (f *FS) Statfs(r nfsserver.Ref) (nfsserver.Statfs, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return nfsserver.Statfs{}, err
	}
	defer f.cache.release(n)
	var st unix.Statfs_t
	if err := fstatfs(n.fd(), &st); err != nil {
		return nfsserver.Statfs{}, err
	}
	b := uint64(st.Frsize)
	if b == 0 {
		b = uint64(st.Bsize)
	}
	return nfsserver.Statfs{TotalBytes: st.Blocks * b, FreeBytes: st.Bfree * b, AvailBytes: st.Bavail * b,
		TotalFiles: st.Files, FreeFiles: st.Ffree, AvailFiles: st.Ffree}, nil
}

// Close closes all descriptors. A second call does nothing.
func (f *FS) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.sweep.stop()
	f.cache.closeAll()
	shared.leave(&f.cache)
	f.flush.end()
	f.cold.sweep()
	f.mounts.closeAll()
	f.gens.Drop(0, 0)
	f.tree.close()
	return nil
}
