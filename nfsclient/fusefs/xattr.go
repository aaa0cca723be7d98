// Extended attributes: those that are ACLs, and no others.

package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Without FUSE_POSIX_ACL, which would have the kernel decide by the ACLs in place of the server, it
// hands these attributes on as any other, checks their form and that the caller owns the object,
// and caches nothing. Where the server has no NFSACL, and with NoACL, none of this is called:
// go-fuse answers the first request with ENOSYS, and the kernel sends no other (see Options.fuse).

// errNoAttr is the error of an attribute that the object does not have.
const errNoAttr = syscall.ENODATA

// aclAttr reports whether the attribute is an ACL, and which.
func aclAttr(attr string) (isDefault, ok bool) {
	return attr == posixacl.AttrDefault, attr == posixacl.AttrAccess || attr == posixacl.AttrDefault
}

// hasACLs reports whether there can be an ACL at all: symbolic links have none.
func (r *request) hasACLs(n *node) error {
	if err := r.fresh(n); err != nil {
		return err
	}
	if attr, _ := n.snapshot(); attr.Type == nfs3.TypeLnk {
		return syscall.EOPNOTSUPP
	}
	return nil
}

// GetXAttr reads an ACL. The kernel asks for security.capability, too, at the first write to each
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
		return uint32(size), fuse.ERANGE // of a probe for the size, go-fuse makes a success
	}
	acl.Append(dest[:0])
	return uint32(size), fuse.OK
}

// ListXAttr names the ACLs that the object has.
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

// RemoveXAttr takes an ACL away. That there is none is no error, as of file systems of this
// machine.
func (f *fileSystem) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	return f.changeACL(opRemovexattr, cancel, h, attr, nil, nil)
}

// changeACL sets an ACL, unless it is invalid, which is of less account than that the attribute is
// none.
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
