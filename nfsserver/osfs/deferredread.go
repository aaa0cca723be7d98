// Reads from the page cache, made when their reply is sent.

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

// dropDeferred undoes holdDeferred. The budget counts each node once, from its first reply to its
// last, in any order of the two calls.
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

// ReadAt implements mem.DeferredRead. An offset beyond the end returns io.EOF.
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
