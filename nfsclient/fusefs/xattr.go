// Extended attributes: only ACLs.

package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// The mount does not request FUSE_POSIX_ACL, which would let the kernel decide by ACLs instead of
// the server. So the kernel passes these attributes on like any other. The kernel then checks their
// form and the object's owner, and caches nothing. If the server has no NFSACL, or with NoACL, the
// kernel sends no requests for them: go-fuse answers the first request with ENOSYS, and the kernel
// sends no more (see Options.fuse).

// errNoAttr is the error for a missing attribute.
const errNoAttr = syscall.ENODATA

// aclAttr reports whether the attribute is an ACL, and whether it is the default ACL.
func aclAttr(attr string) (isDefault, ok bool) {
	return attr == posixacl.AttrDefault, attr == posixacl.AttrAccess || attr == posixacl.AttrDefault
}

// hasACLs returns an error if n cannot have ACLs: symbolic links have none.
func (r *request) hasACLs(n *node) error {
	if err := r.fresh(n); err != nil {
		return err
	}
	if attr, _ := n.snapshot(); attr.Type == nfs3.TypeLnk {
		return syscall.EOPNOTSUPP
	}
	return nil
}

// GetXAttr reads an ACL. The kernel also asks for security.capability at the first write to each
// file.
func (f *fileSystem) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	isDefault, ok := aclAttr(attr)
	if !ok {
		f.counts.ops[opGetxattr].Add(1)
		return 0, fuse.Status(syscall.EOPNOTSUPP)
	}
	r := f.begin(opGetxattr, cancel, &h.Caller)
	defer r.end()
	n := f.table.get(h.NodeId)
	if n == nil {
		return 0, staleNode
	}
	if err := r.hasACLs(n); err != nil {
		return 0, f.status(err)
	}
	k, err := r.acls(n)
	if err != nil {
		return 0, f.status(err)
	}
	acl := k.access
	if isDefault {
		acl = k.def
	}
	if len(acl) == 0 {
		return 0, fuse.Status(errNoAttr)
	}
	size := posixacl.Size(len(acl))
	if len(dest) < size {
		return uint32(size), fuse.ERANGE // go-fuse turns a size probe into success
	}
	acl.Append(dest[:0])
	return uint32(size), fuse.OK
}

// ListXAttr lists the object's ACLs.
func (f *fileSystem) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	r := f.begin(opListxattr, cancel, &h.Caller)
	defer r.end()
	n := f.table.get(h.NodeId)
	if n == nil {
		return 0, staleNode
	}
	err := r.hasACLs(n)
	var k *knownACL
	if err == nil {
		k, err = r.acls(n)
	}
	switch {
	case isUnsupported(err):
		return 0, fuse.OK
	case err != nil:
		return 0, f.status(err)
	}
	var list []byte
	if len(k.access) > 0 {
		list = append(append(list, posixacl.AttrAccess...), 0)
	}
	if len(k.def) > 0 {
		list = append(append(list, posixacl.AttrDefault...), 0)
	}
	if len(dest) < len(list) {
		return uint32(len(list)), fuse.ERANGE
	}
	return uint32(copy(dest, list)), fuse.OK
}

// SetXAttr sets an ACL.
func (f *fileSystem) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	acl, err := posixacl.Parse(data)
	if err != nil {
		err = aclErrno(err)
	}
	return f.changeACL(opSetxattr, cancel, &in.InHeader, attr, acl, err)
}

// RemoveXAttr removes an ACL. A missing one is no error, as in local file systems.
func (f *fileSystem) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	return f.changeACL(opRemovexattr, cancel, h, attr, nil, nil)
}

// changeACL sets an ACL. An unsupported attribute's error takes precedence over an invalid ACL's.
func (f *fileSystem) changeACL(what op, cancel <-chan struct{}, h *fuse.InHeader, attr string, acl posixacl.ACL, invalid error) fuse.Status {
	r := f.begin(what, cancel, &h.Caller)
	defer r.end()
	isDefault, ok := aclAttr(attr)
	if !ok {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	n := f.table.get(h.NodeId)
	if n == nil {
		return staleNode
	}
	err := r.hasACLs(n)
	if err == nil {
		err = invalid
	}
	if err == nil && isDefault && !n.isDir() {
		if len(acl) == 0 {
			return fuse.OK
		}
		err = syscall.EACCES
	}
	if err == nil {
		err = r.setACL(n, isDefault, acl)
	}
	return f.status(err)
}
