// Caches permissions granted by the kernel to callers, for each node.

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

// A local process asks for permission once, with open(2); each NFS call stands alone. A permission
// granted by the kernel is cached for a second at most. The cached permission ends earlier if the
// object's mode, owner or group changes, or another attribute such as an ACL.

// A grant is one caller's permission. A grant never changes after add has made it.
type grant struct {
	cred   nfsserver.Cred // a clone: the caller's GIDs are reused
	want   uint32
	state  uint64 // the object's state at the time of the kernel's answer
	expiry int64
}

// grants are a node's cached permissions. Reading takes no lock.
type grants struct {
	given atomic.Pointer[[]grant] // copy on write
	// From the object's last stat:
	owner atomic.Uint32
	setID atomic.Bool
	state atomic.Uint64 // hash of mode, owner, group and ctime, from the last stat
}

// epoch is the zero of expiry times: monotonic, unlike wall-clock time.
var epoch = time.Now()

// see records a stat. A new ctime that differs from the mtime means changed attributes, such as an
// ACL, because changed content sets both times. Grants for an earlier state then end.
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

// have reports whether c has a valid grant for want.
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

// add caches a permission: c was granted want while the object was in state.
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

// forget drops all grants, after attributes were changed.
func (g *grants) forget() { g.given.Store(nil) }

// allowed checks whether c has the permission want, a single bit, on node n. It looks in the node's
// grants first, and asks the kernel otherwise.
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

// mayRead checks a READ from a regular file. The file's owner may read it. So may a user with
// execute permission, because clients read a program to run it (RFC 1813 §4.4).
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

// mayWrite checks a WRITE or a new size for a regular file. The file's owner may do both (RFC 1813
// §4.4).
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

// ask asks the kernel whether c has the permission want on n. A regular file is opened to check
// reading and writing, because some file systems (FUSE, networks) and security modules decide only
// in open(2).
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

// askAccess checks permissions on a descriptor, as c, by access(2).
func (f *FS) askAccess(fd int, c *nfsserver.Cred, want uint32) error {
	a, err := f.creds.Act(c)
	if err != nil {
		return err
	}
	defer a.End()
	return access(fd, want)
}

// access checks permissions (MayRead and so on) for this thread's effective identity.
func access(fd int, want uint32) error {
	var empty byte
	return eintr.Retry(func() error {
		_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(want),
			unix.AT_EACCESS|unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		return errnoError(errno)
	})
}

// Access returns the subset of want granted to c.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (uint32, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return 0, err
	}
	defer f.cache.release(n)
	a, err := f.creds.Act(&c)
	if err != nil {
		return 0, nil // the server cannot act as c: no permission
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
