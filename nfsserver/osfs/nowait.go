// Reads from the page cache that do not wait, so they run on the goroutine that received the call.

package osfs

import (
	"math"
	"os"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// An atimeRule states when a read changes a file's access time. On a file system with a journal the
// change can wait for the journal.
type atimeRule uint8

const (
	atimeEach     atimeRule = iota // after each read
	atimeRelative                  // if older than the last change or a day (relatime of mount(8))
	atimeFree                      // never, or without cost
)

// readRules returns whether ReadInUse can detect that a read from this file system does not wait,
// and the rule for access times.
func (f *FS) readRules() (can bool, rule atimeRule) {
	var st unix.Statfs_t
	if !f.info.Quick || f.opts.SubtreeCheck || !f.nowait && f.top.magic != unix.TMPFS_MAGIC || fstatfs(f.tree.root, &st) != nil {
		return false, atimeEach
	}
	switch {
	case f.top.magic == unix.TMPFS_MAGIC, st.Flags&(unix.ST_NOATIME|unix.ST_RDONLY) != 0:
		rule = atimeFree
	case st.Flags&unix.ST_RELATIME != 0:
		rule = atimeRelative
	}
	// cachestat(2) is missing in Linux before 6.5, and filters forbid unknown system calls.
	_, errno := cached(f.tree.root, 0, 1)
	return rule != atimeEach && errno != unix.ENOSYS && errno != unix.EPERM, rule
}

var _ nfsserver.NonBlocker = (*FS)(nil)

// ReadsInUse reports whether to try ReadInUse. It returns false for a while after each failed try,
// and for longer after several failures in a row: a try costs as much as it can save.
func (f *FS) ReadsInUse(r nfsserver.Ref) bool {
	if !f.quickReads {
		return false
	}
	s := f.cache.of(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[r]
	if n == nil {
		return false
	}
	if n.readBackoff.Pass() {
		f.decisions.readAtOnce.Pass()
		return false
	}
	return true
}

// ReadInUse is ReadAt of an open file, by its owner or by a caller with a grant, if the kernel has
// all pages in memory. On a disk it also sets RWF_NOWAIT, because the disk can still be filling a
// cached page. tmpfs does not support that flag, and its pages leave memory only for swap.
func (f *FS) ReadInUse(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (count int, ok bool) {
	n := f.cache.get(&r)
	if n == nil {
		return 0, false
	}
	defer f.cache.release(n)
	defer func() {
		n.readBackoff.Note(ok)
		f.decisions.readAtOnce.Note(ok)
	}()
	fd := int(n.read.Load())
	if fd < 0 || n.isFile() != nil || len(p) == 0 || off > math.MaxInt64-uint64(len(p)) || !f.mayReadNow(n, &c) || !f.keepsAtime(fd) {
		return 0, false
	}
	// cachestat(2) first: a read of missing pages starts readahead before it refuses to wait, and
	// that can block.
	if all, errno := cached(fd, off, len(p)); errno != 0 || !all {
		return 0, false
	}
	if f.nowait {
		k, errno := preadNow(fd, p, int64(off))
		return k, errno == 0 && k == len(p)
	}
	k, err := unix.Pread(fd, p, int64(off))
	return k, err == nil && k == len(p)
}

// mayReadNow is mayRead from cached permissions, without a system call.
func (f *FS) mayReadNow(n *node, c *nfsserver.Cred) bool {
	return f.isOwner(n, c) || n.grants.have(c, nfsserver.MayRead) || n.grants.have(c, nfsserver.MayExec)
}

// keepsAtime reports whether a read of a file leaves its access time unchanged, or changes it
// without cost.
func (f *FS) keepsAtime(fd int) bool {
	if f.atime == atimeFree {
		return true
	}
	var st unix.Stat_t
	return fstatQuick(fd, &st) == nil && atimeIsNew(&st, time.Now())
}

// atimeIsNew reports whether relatime leaves the access time in st unchanged.
func atimeIsNew(st *unix.Stat_t, now time.Time) bool {
	at := st.Atim.Nano()
	return at > st.Mtim.Nano() && at > st.Ctim.Nano() && now.UnixNano()-at < int64(atimeDay)
}

// cached reports whether the kernel has all pages of a range in memory (cachestat(2)).
func cached(fd int, off uint64, n int) (all bool, errno unix.Errno) {
	page := uint64(os.Getpagesize())
	pages := (off+uint64(n)-1)/page - off/page + 1
	where := unix.CachestatRange{Off: off, Len: uint64(n)}
	var have unix.Cachestat_t
	_, _, errno = unix.Syscall6(unix.SYS_CACHESTAT, uintptr(fd), uintptr(unsafe.Pointer(&where)), uintptr(unsafe.Pointer(&have)), 0, 0, 0)
	return have.Cache >= pages, errno
}
