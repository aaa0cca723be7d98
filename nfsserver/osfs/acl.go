// POSIX ACLs, which the kernel keeps in extended attributes.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"golang.org/x/sys/unix"
)

var _ nfsserver.ACLer = (*FS)(nil)

// aclNames are the names of the extended attributes with ACLs.
var aclNames = [...]string{nfsserver.AccessACL: posixacl.AttrAccess, nfsserver.DefaultACL: posixacl.AttrDefault}

// maxXattr is the longest extended-attribute value (XATTR_SIZE_MAX).
const maxXattr = 64 << 10

// ACL reads r's ACL of type t. On a file system without ACLs it returns an empty ACL, as Linux's
// server does.
func (f *FS) ACL(r nfsserver.Ref, t nfsserver.ACLType) (posixacl.ACL, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return nil, err
	}
	defer f.cache.release(n)
	path := procPath(n.fd())
	b := make([]byte, posixacl.Size(16)) // enough for most ACLs
	size, err := eintr.RetryN(func() (int, error) { return unix.Getxattr(path, aclNames[t], b) })
	if err == unix.ERANGE { // at most once: no value exceeds maxXattr
		b = make([]byte, maxXattr)
		size, err = eintr.RetryN(func() (int, error) { return unix.Getxattr(path, aclNames[t], b) })
	}
	switch err {
	case nil:
		return posixacl.Parse(b[:size])
	case unix.ENODATA, unix.EOPNOTSUPP:
		return nil, nil
	}
	return nil, err
}

// SetACL sets or removes r's ACL of type t as the caller. The kernel checks the permission and
// adjusts the mode.
func (f *FS) SetACL(c nfsserver.Cred, r nfsserver.Ref, t nfsserver.ACLType, a posixacl.ACL) error {
	n, err := f.acquire(&r)
	if err != nil {
		return err
	}
	defer f.cache.release(n)
	if !f.creds.Switches {
		n.mu.Lock() // openOwn would undo the change by restoring the mode that it found
		defer n.mu.Unlock()
	}
	defer n.grants.forget()
	path := procPath(n.fd())
	if len(a) > 0 {
		value := a.Append(nil)
		return f.as(&c, func() error { return unix.Setxattr(path, aclNames[t], value, 0) })
	}
	err = f.as(&c, func() error { return unix.Removexattr(path, aclNames[t]) })
	if err == unix.ENODATA {
		err = nil
	}
	return err
}
