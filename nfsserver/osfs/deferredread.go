// Reads of what is in the kernel's memory, made when their reply leaves.

package osfs

import (
	"errors"
	"io"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

var _ nfsserver.LaterReader = (*FS)(nil)

// ReadLater does not look the pages up: that costs as much again as to copy from them. It is for
// what the kernel has in memory now. What it throws out until the reply leaves is waited for then;
// of tmpfs, which has nothing to read from, that is what was swapped out.
func (f *FS) ReadLater(c nfsserver.Cred, r nfsserver.Ref, count int, off uint64) (mem.DeferredRead, error) {
	if !f.later || off > math.MaxInt64-uint64(count) {
		return nil, errors.ErrUnsupported
	}
	n, fd, err := f.toRead(&c, &r)
	if err != nil {
		return nil, err
	}
	if !f.inMemory(fd, off, count) || !n.holdLater() {
		f.cache.release(n)
		return nil, errors.ErrUnsupported
	}
	l := laters.Get().(*later)
	*l = later{f, n, fd}
	return l, nil
}

// inMemory reports whether a read of a range would find all of it, and wait for no disk.
func (f *FS) inMemory(fd int, off uint64, n int) bool {
	if f.onlyTmpfs() {
		return true
	}
	all, errno := cached(fd, off, n)
	return all && errno == 0 && f.keepsAtime(fd) && arrived(fd, off, n)
}

// arrived reports whether pages of a range, all of which are in memory, have come from the disk:
// the kernel enters them before it asks for them, as it does ahead of readers in order. They come
// in that order as a rule, so it looks at the last bytes of steps. It is false as well where
// somebody writes to the file, and the file system has readers wait for that (XFS).
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

// holdLater counts one more reply that is going to read n, and reports false where such replies
// hold half of all nodes already. How long they do is up to their clients, who may read nothing:
// descriptors have to be left for others.
func (n *node) holdLater() bool {
	if n.laters.Add(1) > 1 || shared.later.Add(1) <= shared.limit.Load()/2 {
		return true
	}
	n.dropLater()
	return false
}

// dropLater is the opposite of holdLater. The first and the last of a node's replies count the
// node, whichever they are by then.
func (n *node) dropLater() {
	if n.laters.Add(-1) == 0 {
		shared.later.Add(-1)
	}
}

// A later is an open file of which a reply is going to read, with a reference to its node.
type later struct {
	f  *FS
	n  *node
	fd int
}

var laters = sync.Pool{New: func() any { return new(later) }}

// ReadAt is as mem.DeferredRead has it.
func (l *later) ReadAt(p []byte, off int64) (int, error) {
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

// Done releases the node. It waits for nothing: what completes replies calls it.
func (l *later) Done() {
	l.n.dropLater()
	if l.f.cache.unref(l.n) {
		l.f.retireAside(l.n)
	}
	*l = later{}
	laters.Put(l)
}
