// Permission: the server decides, and what it has decided is kept for each caller.

package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An allowed is what the server said that a caller may do. It holds while the attributes
// are trusted and the ctime is the same, which a change of mode, owner or ACL moves, or was moved
// by operations of ours alone that change none of these.
type allowed struct {
	who   *caller
	bits  uint32
	ctime nfs3.Time
}

// maxAllowed is how many callers' rights are kept of one object.
const maxAllowed = 16

// What rights a program needs to write, after the kernel's own client.
const (
	fileWrite = nfs3.AccessModify | nfs3.AccessExtend
	dirWrite  = nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
	allBits   = nfs3.AccessRead | nfs3.AccessLookup | nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete | nfs3.AccessExecute
)

// rights are the bits that a mask of access(2) stands for.
func rights(t nfs3.FileType, mask uint32) (bits uint32) {
	if mask&fuse.R_OK != 0 {
		bits |= nfs3.AccessRead
	}
	switch {
	case mask&fuse.W_OK == 0:
	case t == nfs3.TypeDir:
		bits |= dirWrite
	case t == nfs3.TypeReg:
		bits |= fileWrite
	default:
		bits |= nfs3.AccessModify
	}
	if mask&fuse.X_OK != 0 {
		if t == nfs3.TypeDir {
			bits |= nfs3.AccessLookup
		} else {
			bits |= nfs3.AccessExecute
		}
	}
	return bits
}

// cached is what is known of the caller's rights to n.
func (r *request) cached(n *node) (bits uint32, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left(time.Now()) <= 0 {
		return 0, false
	}
	for i := range n.access {
		if a := &n.access[i]; a.who == r.who {
			return a.bits, a.ctime == n.attr.Ctime
		}
	}
	return 0, false
}

// keepRights has rights and ACLs be believed after a change that was our own, from how n was to how
// it is, and that was not of mode or owner: names that were made in a directory. The caller holds
// mu.
func (n *node) keepRights(was *nfs3.Fattr) {
	is := &n.attr
	if was.Mode != is.Mode || was.UID != is.UID || was.GID != is.GID {
		return
	}
	for i := range n.access {
		if a := &n.access[i]; a.ctime == was.Ctime {
			a.ctime = is.Ctime
		}
	}
	if k := n.acl; k != nil && k.ctime == was.Ctime {
		moved := *k // others may be reading it
		moved.ctime = is.Ctime
		n.acl = &moved
	}
}

// may fails with EACCES where the caller has not all of these rights to n.
func (r *request) may(n *node, want uint32) error {
	bits, ok := r.cached(n)
	if ok {
		r.fs.counts.hit(hitAccess)
	} else {
		var err error
		if bits, err = r.askAccess(n); err != nil {
			return err
		}
	}
	if bits&want != want {
		return syscall.EACCES
	}
	return nil
}

// walkTime is how long an open can take from the kernel's walk along the names until we get it.
const walkTime = 10 * time.Second

// epoch is what moments are counted from, by a clock that nobody sets.
var epoch = time.Now()

// mayReach fails where the caller has no right to search the directory of n. It asks only when who
// may has changed a moment ago: until the kernel has been told, which is after chmod has
// returned, since that holds the lock of the directory, it finds names without asking us;
// and opens that have found theirs by then are still on their way.
func (r *request) mayReach(n *node) error {
	dir := r.fs.table.revoked(n)
	if dir == nil {
		return nil
	}
	return r.may(dir, nfs3.AccessLookup)
}

// revoked is the directory of n when names in it may have been found by callers who have lost
// the right to. By which of several names n was found nobody can tell: then it is nil.
func (t *table) revoked(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) != 1 {
		return nil
	}
	dir := n.places[0].dir
	told := dir.told.Load()
	if dir.searchers.Load() != told || told > 0 && time.Since(epoch)-time.Duration(dir.toldAt.Load()) < walkTime {
		return dir
	}
	return nil
}

// askAccess asks the server for the caller's rights to n; the reply brings the attributes too.
func (r *request) askAccess(n *node) (uint32, error) {
	args, res := nfs3.AccessArgs{FH: n.fh, Access: allBits}, nfs3.AccessRes{}
	s := r.fs.stamp()
	err := r.do(nfs3.ProcAccess, &args, &res, &res.Status)
	r.fs.learnPost(n, s, &res.Attr)
	if err != nil {
		return 0, r.fs.stale(n, err)
	}
	if !res.Attr.Present {
		return res.Access, r.getattr(n)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.access = slices.DeleteFunc(n.access, func(a allowed) bool { return a.who == r.who })
	if len(n.access) >= maxAllowed {
		n.access = n.access[:0]
	}
	n.access = append(n.access, allowed{r.who, res.Access, res.Attr.Attr.Ctime})
	return res.Access, nil
}

// Access answers access(2), and chdir(2), which needs the right to search.
func (f *fileSystem) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	r := f.begin(opAccess, cancel, &in.Caller)
	defer r.end()
	n := f.table.get(in.NodeId)
	if n == nil {
		return staleNode
	}
	if err := r.fresh(n); err != nil {
		return f.status(err)
	}
	attr, _ := n.snapshot()
	want := rights(attr.Type, in.Mask)
	if want == 0 {
		return fuse.OK
	}
	return f.status(r.may(n, want))
}
