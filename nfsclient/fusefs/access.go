// Permission: the server decides; the mount caches its decision for each caller.

package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A callerRights caches one caller's rights, as the server granted them. The cache is valid while
// the attributes are trusted and the ctime is unchanged, because changes of mode, owner or ACL move
// the ctime. Our other operations move the ctime too, so keepRights then updates the cached ctime.
type callerRights struct {
	caller *caller
	bits   uint32
	ctime  nfs3.Time
}

// maxAllowed bounds the callers with cached rights for each object.
const maxAllowed = 16

// The rights needed to write, as the kernel's own client asks for them.
const (
	fileWrite = nfs3.AccessModify | nfs3.AccessExtend
	dirWrite  = nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
	allBits   = nfs3.AccessRead | nfs3.AccessLookup | nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete | nfs3.AccessExecute
)

// rights maps an access(2) mask to the NFSv3 ACCESS bits for an object of type t.
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

// cachedRights returns the caller's cached rights to n; ok is false if only the server knows them.
func (r *request) cachedRights(n *node) (bits uint32, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ttl(time.Now()) <= 0 {
		return 0, false
	}
	for i := range n.access {
		if a := &n.access[i]; a.caller == r.who {
			return a.bits, a.ctime == n.attr.Ctime
		}
	}
	return 0, false
}

// keepRights keeps rights and ACLs valid after a change of our own, such as a name made in a
// directory. was holds the attributes before the change. A change of mode or owner keeps nothing.
// The caller holds n.mu.
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
		moved := *k // a copy: readers may still use the old one
		moved.ctime = is.Ctime
		n.acl = &moved
	}
}

// may returns EACCES unless the caller has all wanted rights to n.
func (r *request) may(n *node, want uint32) error {
	bits, ok := r.cachedRights(n)
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

// walkTime bounds the time between the kernel's path walk and the arrival of its open here.
const walkTime = 10 * time.Second

// clockOrigin is the origin of stored moments. It has a monotonic clock reading.
var clockOrigin = time.Now()

// mayReach returns an error if the caller has no right to search the directory of n. It asks only
// shortly after search rights have changed. The kernel holds its lock of the directory during
// chmod, so our notice reaches it only after chmod. Before the notice the kernel resolves names
// without asking us, and opens of such names may still arrive.
func (r *request) mayReach(n *node) error {
	dir := r.fs.table.revoked(n)
	if dir == nil {
		return nil
	}
	return r.may(dir, nfs3.AccessLookup)
}

// revoked returns the directory of n if callers may have resolved names there after losing the
// search right. It returns nil if n has several names: the name used for this open is unknown.
func (t *table) revoked(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.dirNames) != 1 {
		return nil
	}
	dir := n.dirNames[0].dir
	told := dir.searchersNotified.Load()
	if dir.searchers.Load() != told || told > 0 && time.Since(clockOrigin)-time.Duration(dir.searchersNotifiedAt.Load()) < walkTime {
		return dir
	}
	return nil
}

// askAccess asks the server for the caller's rights to n; the reply updates the attributes too.
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
	n.access = slices.DeleteFunc(n.access, func(a callerRights) bool { return a.caller == r.who })
	if len(n.access) >= maxAllowed {
		n.access = n.access[:0]
	}
	n.access = append(n.access, callerRights{r.who, res.Access, res.Attr.Attr.Ctime})
	return res.Access, nil
}

// Access handles access(2), and chdir(2), which needs the right to search.
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
