// Lists directories, with kernel positions as cookies.

package osfs

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// cookieVerf is the verifier of all cookies ("NFSRDMA1"). A cookie is the kernel's own position
// (d_off). It stays valid while entries come and go and, on file systems fit for export, over
// restarts. So the verifier never changes.
const cookieVerf = 0x4e46535244_4d4131

var direntBufs = sync.Pool{New: func() any { b := make([]byte, direntBuf); return &b }}

// ReadDir emits a directory's entries after the cookie.
func (f *FS) ReadDir(c nfsserver.Cred, r nfsserver.Ref, cookie uint64, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	if cookie > math.MaxInt64 {
		return false, nfsserver.ErrBadCookie // positions are never negative
	}
	d, err := f.acquireDir(&r)
	if err != nil {
		return false, err
	}
	defer f.cache.release(d)
	if err := f.allowed(d, &c, nfsserver.MayRead); err != nil {
		return false, err
	}
	plus = plus && f.allowed(d, &c, nfsserver.MayExec) == nil
	l, err := d.takeListing(cookie)
	if err != nil {
		return false, err
	}
	eof, err := f.readDir(d, &l, plus, emit)
	if err != nil || eof {
		unix.Close(l.fd)
		return eof, err
	}
	d.keepListing(l)
	return false, nil
}

// readDir emits entries from the position of l on.
func (f *FS) readDir(d *node, l *listing, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	buf := direntBufs.Get().(*[]byte)
	defer direntBufs.Put(buf)
	last := &f.lastPage
	if plus {
		last = &f.lastPagePlus
	}
	taken := 0 // bytes of entries in this page
	for {
		now := time.Now()
		n, err := getdents(l.fd, (*buf)[:last.rest(taken)])
		if err != nil {
			return false, readDirError(err)
		}
		if n == 0 {
			return true, nil
		}
		used, ok := 0, false
		if plus && f.byName {
			used, ok = f.emitParallel(d, l, (*buf)[:n], now, emit)
		}
		if !ok {
			used = f.emitEntries(d, l, (*buf)[:n], plus, now, emit)
		}
		if taken += used; used < n {
			last.set(taken)
			return false, nil
		}
	}
}

// emitEntries emits the entries in b, from directory d at the position of l. It returns the number
// of bytes before the first entry that emit refused, or len(b).
func (f *FS) emitEntries(d *node, l *listing, b []byte, plus bool, now time.Time, emit func(*nfsserver.Dirent) bool) (used int) {
	var de nfsserver.Dirent
	var raw rawDirent
	for rest := b; ; {
		next := raw.next(rest)
		if next == nil {
			return len(b)
		}
		if raw.ino != 0 && f.dirent(d, l.fd, &raw, plus, now, &de) && !emit(&de) {
			return len(b) - len(rest)
		}
		l.pos, rest = raw.off, next
	}
}

// A pageSize is the number of bytes of entries, in the format of getdents64(2), in the last full
// page of an FS. Clients usually ask for pages of one size, so the kernel is asked for about one
// page of entries. Entries beyond the page would be read and described in vain, because the next
// page reads them again. A wrong size only costs such work, or another system call.
type pageSize struct{ bytes atomic.Int32 }

func (s *pageSize) set(n int) {
	if n := int32(min(n, math.MaxInt32)); s.bytes.Load() != n { // most calls only load
		s.bytes.Store(n)
	}
}

// rest returns the number of bytes to request when a page has already taken some: the rest of the
// last page's size, and some more for longer names. A page that has taken more than the last
// requests the same number again. Pages before the first full page request direntBuf.
func (s *pageSize) rest(taken int) int {
	last := int(s.bytes.Load())
	if last == 0 {
		return direntBuf
	}
	if last += last / direntSlack; last <= taken {
		last = 2 * taken
	}
	return min(max(last-taken, direntLeast), direntBuf)
}

// readDirError translates the errors of getdents64(2): a removed directory returns ENOENT.
func readDirError(err error) error {
	switch err {
	case unix.ENOENT:
		return nfsserver.ErrStale
	case unix.EINVAL:
		return nfsserver.ErrBadCookie
	}
	return err
}

// dirent converts an entry, read from the kernel at now or later. It returns false if the entry's
// name is gone.
func (f *FS) dirent(d *node, fd int, raw *rawDirent, plus bool, now time.Time, de *nfsserver.Dirent) bool {
	de.Name, de.Fileid, de.Cookie, de.HasAttr = raw.name, raw.ino, raw.off, false
	if string(raw.name) == ".." {
		if d.ref == f.root {
			de.Fileid = f.top.ino // the root has no parent
		} else if f.mixed {
			de.Fileid = inoOf(fd, "..", raw.ino)
		}
		return true
	}
	if !plus {
		if f.mixed {
			de.Fileid = inoOf(fd, string(raw.name), raw.ino)
		}
		return true
	}
	if f.byName && raw.zname != nil {
		var st unix.Stat_t
		switch f.describeName(fd, raw.zname, raw.ino, now, &st, &de.Ref) {
		case nil:
			de.Attr, de.Fileid, de.HasAttr = attrOf(&st, f.top.fsid), st.Ino, true
			return true
		case unix.ENOENT:
			return false
		}
	}
	name := string(raw.name)
	child, err := f.tree.openPath(fd, name)
	if err != nil {
		return err != unix.ENOENT
	}
	defer unix.Close(child)
	var x file
	if err := f.describe(child, &x); err != nil || x.st.Nlink == 0 {
		return true
	}
	if name != "." {
		f.note(&x, d, name)
	}
	de.Ref, de.Attr, de.Fileid, de.HasAttr = x.ref, x.attr(), x.st.Ino, true
	return true
}

// inoOf returns the inode number of name in directory fd, as in LOOKUP and GETATTR. For a mount
// point or a subvolume the entry has the number of the directory below.
func inoOf(fd int, name string, entry uint64) uint64 {
	var st unix.Stat_t
	err := eintr.Retry(func() error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) })
	if err != nil {
		return entry
	}
	return st.Ino
}
