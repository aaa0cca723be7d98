// Reads of contents: waiting, without waiting on the goroutine that received the call, or from the
// page cache when the reply is sent.

package osfs

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

// ReadAt reads until p is full or the file ends. It checks the caller's permission first, because
// the descriptor belongs to the server and is shared by all callers.
func (f *FS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, fd, err := f.toRead(&c, &r)
	if err != nil {
		return 0, err
	}
	defer f.cache.release(n)
	if off > math.MaxInt64-uint64(len(p)) {
		return 0, nil // no file has such an offset
	}
	done := 0
	for done < len(p) {
		// A signal can shorten a read(2), so the loop reads on. The server takes a short ReadAt for
		// the end of the file.
		k, err := f.pread(n, fd, p[done:], int64(off)+int64(done))
		if err != nil {
			return done, err
		}
		if k == 0 {
			break
		}
		done += k
	}
	return done, nil
}

// toRead checks that c may read r, and returns r's node, with a reference, and a descriptor for
// reading.
func (f *FS) toRead(c *nfsserver.Cred, r *nfsserver.Ref) (n *node, fd int, err error) {
	if n, err = f.acquire(r); err != nil {
		return nil, -1, err
	}
	if err = n.isFile(); err == nil {
		err = f.mayRead(n, c)
	}
	if err == nil {
		fd, err = f.reader(n)
	}
	if err != nil {
		f.cache.release(n)
		return nil, -1, err
	}
	return n, fd, nil
}

// isFile returns an error unless n is a regular file: other objects have no content.
func (n *node) isFile() error {
	switch n.typ {
	case nfsserver.TypeReg:
		return nil
	case nfsserver.TypeDir:
		return unix.EISDIR
	}
	return unix.EINVAL
}

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

var _ nfsserver.LaterReader = (*FS)(nil)

// ReadLater serves only data now in the kernel's memory. It holds no pages, because to look them up
// would cost as much as to copy them. If the kernel evicts pages before the reply is sent, the
// reply's read waits for them; tmpfs evicts only to swap.
func (f *FS) ReadLater(c nfsserver.Cred, r nfsserver.Ref, count int, off uint64) (mem.DeferredRead, error) {
	if !f.defersReads || off > math.MaxInt64-uint64(count) {
		return nil, errors.ErrUnsupported
	}
	n, fd, err := f.toRead(&c, &r)
	if err != nil {
		return nil, err
	}
	if !f.inMemory(fd, off, count) || !n.holdDeferred() {
		f.cache.release(n)
		return nil, errors.ErrUnsupported
	}
	l := deferredReads.Get().(*deferredRead)
	*l = deferredRead{f, n, fd}
	return l, nil
}

// inMemory reports whether a read of a range finds all pages in memory and waits for no disk.
func (f *FS) inMemory(fd int, off uint64, n int) bool {
	if f.onlyTmpfs() {
		return true
	}
	all, errno := cached(fd, off, n)
	return all && errno == 0 && f.keepsAtime(fd) && arrived(fd, off, n)
}

// arrived reports whether a range's pages, all in the page cache, have been read from the disk: in
// a readahead the kernel enters pages before it reads them. Pages usually arrive sequentially, so
// arrived reads only each step's last byte. It also returns false while another process writes to
// the file, if the file system makes readers wait for that write (XFS).
func arrived(fd int, off uint64, n int) bool {
	var b [1]byte
	for at := 0; at < n; {
		at = min(at+arrivedStep, n)
		if k, errno := preadNow(fd, b[:], int64(off)+int64(at)-1); errno != 0 || k == 0 {
			return false
		}
	}
	return true
}

// onlyTmpfs reports whether all files are on a tmpfs.
func (f *FS) onlyTmpfs() bool { return f.top.magic == unix.TMPFS_MAGIC && !f.cross }

// holdDeferred counts one more reply that will read n. It returns false if replies already hold
// half the nodes: a client that does not read its replies holds their nodes for as long as it
// likes, and other calls need descriptors too.
func (n *node) holdDeferred() bool {
	if n.deferredReads.Add(1) > 1 || shared.deferredReads.Add(1) <= shared.limit.Load()/2 {
		return true
	}
	n.dropDeferred()
	return false
}

// dropDeferred undoes holdDeferred. The budget counts a node once while at least one reply will
// read it, however holdDeferred and dropDeferred interleave.
func (n *node) dropDeferred() {
	if n.deferredReads.Add(-1) == 0 {
		shared.deferredReads.Add(-1)
	}
}

// A deferredRead is an open file that a reply will read, with a reference to its node.
type deferredRead struct {
	f  *FS
	n  *node
	fd int
}

var deferredReads = sync.Pool{New: func() any { return new(deferredRead) }}

// ReadAt implements mem.DeferredRead. A read past the end returns the bytes before the end, and
// io.EOF.
func (l *deferredRead) ReadAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		k, err := eintr.RetryN(func() (int, error) { return unix.Pread(l.fd, p[done:], off+int64(done)) })
		switch {
		case err != nil:
			return done, err
		case k == 0:
			return done, io.EOF
		}
		done += k
	}
	return len(p), nil
}

// Done releases the node. It never waits, because reply completion calls it.
func (l *deferredRead) Done() {
	l.n.dropDeferred()
	if l.f.cache.unref(l.n) {
		l.f.retireAsync(l.n)
	}
	*l = deferredRead{}
	deferredReads.Put(l)
}
