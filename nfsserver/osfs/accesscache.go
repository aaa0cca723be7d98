// What callers were allowed on a node, so that the kernel is not asked with every call.

package osfs

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// A local process asks for permission once, with open(2); calls of NFS stand
// each for itself. The kernel's yes to a caller is remembered for a second at
// most, and no longer than mode, owner and group of the object stay what they
// were and nothing but its content changes. A no is never remembered.

// A grant is one permission of one caller. It does not change.
type grant struct {
	cred   nfsserver.Cred // GIDs is its own
	want   uint32
	state  uint64 // of the object when it was given
	expiry int64
}

// grants belong to a node.
type grants struct {
	given atomic.Pointer[[]grant] // replaced, never changed
	// What the last stat of the object showed.
	owner atomic.Uint32
	setID atomic.Bool
	state atomic.Uint64 // a hash of what permissions depend on
}

// epoch is what expiry is counted from.
var epoch = time.Now()

// see takes note of a stat. A change of ctime alone is a change of attributes,
// such as an ACL; content changes mtime with it.
func (g *grants) see(st *unix.Stat_t) {
	h := uint64(st.Mode)<<32 | 1
	h = mix(h ^ uint64(st.Uid)<<32 ^ uint64(st.Gid))
	if st.Ctim != st.Mtim {
		h = mix(h ^ uint64(st.Ctim.Sec)*1e9 ^ uint64(st.Ctim.Nsec))
	}
	g.owner.Store(st.Uid)
	g.setID.Store(st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0)
	g.state.Store(h | 1)
}

func mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// have reports whether c was allowed want a moment ago.
func (g *grants) have(c *nfsserver.Cred, want uint32) bool {
	list := g.given.Load()
	if list == nil {
		return false
	}
	now, state := int64(time.Since(epoch)), g.state.Load()
	for i := range *list {
		e := &(*list)[i]
		if e.want == want && e.cred.UID == c.UID && e.cred.GID == c.GID && e.state == state && now < e.expiry && slices.Equal(e.cred.GIDs, c.GIDs) {
			return true
		}
	}
	return false
}

// add remembers that c was allowed want when the object was in state.
func (g *grants) add(c *nfsserver.Cred, want uint32, state uint64) {
	now := int64(time.Since(epoch))
	e := grant{cred: *c, want: want, state: state, expiry: now + grantTime}
	e.cred.GIDs = slices.Clone(c.GIDs)
	for {
		old := g.given.Load()
		list := make([]grant, 0, maxGrants)
		list = append(list, e)
		if old != nil {
			for _, o := range *old {
				if now < o.expiry && o.state == state && len(list) < maxGrants {
					list = append(list, o)
				}
			}
		}
		if g.given.CompareAndSwap(old, &list) {
			return
		}
	}
}

// forget takes all grants back: attributes were changed.
func (g *grants) forget() { g.given.Store(nil) }

// allowed checks that c has the permission want, one bit, of node n.
func (f *FS) allowed(n *node, c *nfsserver.Cred, want uint32) error {
	if n.grants.have(c, want) {
		return nil
	}
	var st unix.Stat_t
	if err := fstat(n.fd(), &st); err != nil {
		return err
	}
	n.grants.see(&st)
	state := n.grants.state.Load()
	if err := f.ask(n, c, want); err != nil {
		return err
	}
	n.grants.add(c, want, state)
	return nil
}

// mayRead checks a READ of a regular file: its owner may, and who may execute it,
// which takes reading (RFC 1813 §4.4).
func (f *FS) mayRead(n *node, c *nfsserver.Cred) error {
	if f.isOwner(n, c) {
		return nil
	}
	err := f.allowed(n, c, nfsserver.MayRead)
	if err == unix.EACCES && f.allowed(n, c, nfsserver.MayExec) == nil {
		return nil
	}
	return err
}

// mayWrite checks a WRITE or a change of the size of a regular file: its owner
// may (RFC 1813 §4.4).
func (f *FS) mayWrite(n *node, c *nfsserver.Cred) error {
	if f.isOwner(n, c) {
		return nil
	}
	return f.allowed(n, c, nfsserver.MayWrite)
}

// isOwner reports whether c owns n, by the last stat.
func (f *FS) isOwner(n *node, c *nfsserver.Cred) bool {
	return n.grants.owner.Load() == c.UID && (f.creds.Switches || c.UID == f.creds.Self.UID)
}

// ask has the kernel decide whether c has the permission want of n. To read or
// write a regular file is to open it, which is all that some file systems
// (FUSE, networks) and security modules decide by.
func (f *FS) ask(n *node, c *nfsserver.Cred, want uint32) error {
	if n.typ != nfsserver.TypeReg || want == nfsserver.MayExec {
		return f.askAccess(n.fd(), c, want)
	}
	flags := unix.O_RDONLY
	if want == nfsserver.MayWrite {
		flags = unix.O_WRONLY
	}
	fd, err := opened(func() (int, error) {
		a, err := f.creds.Act(c)
		if err != nil {
			return -1, err
		}
		defer a.End()
		return unix.Open(procPath(n.fd()), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// askAccess is access(2) on a descriptor.
func (f *FS) askAccess(fd int, c *nfsserver.Cred, want uint32) error {
	a, err := f.creds.Act(c)
	if err != nil {
		return err
	}
	defer a.End()
	return access(fd, want)
}

// access asks for permissions, MayRead and so on, by the effective identity of this thread.
func access(fd int, want uint32) error {
	var empty byte
	return eintr.Retry(func() error {
		_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(want),
			unix.AT_EACCESS|unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		return errnoError(errno)
	})
}

// Access returns those of the permissions want that c has.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (uint32, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return 0, err
	}
	defer f.cache.release(n)
	a, err := f.creds.Act(&c)
	if err != nil {
		return 0, nil // who cannot be acted as may do nothing
	}
	defer a.End()
	fd := n.fd()
	if access(fd, want) == nil {
		return want, nil
	}
	var have uint32
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if want&bit == 0 {
			continue
		}
		switch err := access(fd, bit); err {
		case nil:
			have |= bit
		case unix.EACCES, unix.EPERM, unix.EROFS:
		default:
			return 0, err
		}
	}
	return have, nil
}
