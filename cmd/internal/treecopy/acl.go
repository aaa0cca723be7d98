// ACLs: a copy with its source's mode also has its source's ACLs. If it cannot have them, it has
// fewer rights.

package treecopy

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// An aclReader reads a source's ACLs.
type aclReader func(context.Context) (nfsclient.ACLs, error)

// A fileSystem identifies a file system without ACLs.
type fileSystem struct {
	domain any
	fsid   uint64
}

// plain reports whether the lists say no more than a mode.
func plain(a *nfsclient.ACLs) bool { return a.Access.IsMode() && len(a.Default) == 0 }

// groupNarrowed removes from a mode the rights that the ACL denies to the file's group. The mode
// does not show them: its group bits are the mask, the limit for all named users and groups.
func groupNarrowed(mode fs.FileMode, acl posixacl.ACL) fs.FileMode {
	for _, e := range acl {
		if e.Tag == posixacl.GroupObj {
			mode &= fs.FileMode(e.Perm)<<3 | ^fs.FileMode(0o070)
		}
	}
	return mode
}

// aclsOf reads the ACLs of a source. After the first ErrUnsupported, a file system or server is not
// asked again.
func (r *Run) aclsOf(ctx context.Context, src *Meta, read aclReader) (nfsclient.ACLs, error) {
	fsys := fileSystem{src.domain, src.Fsid}
	if _, none := r.noACLs.Load(fsys); none {
		return nfsclient.ACLs{}, nil
	}
	acls, err := read(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		r.noACLs.Store(fsys, nil)
		return nfsclient.ACLs{}, nil
	}
	return acls, err
}

// preserveACLs replaces an object's ACLs, also those inherited from its directory, by its source's.
// mode is the source's mode as far as it is kept. It is called before the mode is set. Until the
// mode is set, only the owner has access; afterwards no user has more rights than at the source.
//
// It returns the mode to set. If the ACL cannot be kept, the group gets the group entry's rights
// rather than the mask, because a file writable for one more user must not become writable for a
// group. settable is false if the object may keep ACLs that it must not have. Its mode limits these
// ACLs, so the mode must stay.
func (r *Run) preserveACLs(ctx context.Context, text string, src *Meta, read aclReader, mode fs.FileMode,
	set func(context.Context, Attr) error) (_ fs.FileMode, settable, ok bool) {
	what := "preserving permissions for " + r.quote(text)
	acls, err := r.aclsOf(ctx, src, read)
	ok = true
	switch {
	case err != nil:
		ok = r.reportNotKept(ctx, what, err)
		mode &^= 0o070 // the group's rights in the mode are unknown
	case !plain(&acls):
		if len(acls.Access) == 0 {
			acls.Access = posixacl.FromMode(uint32(mode.Perm()))
		}
		if err = set(ctx, Attr{SetACLs: true, ACLs: acls}); err == nil {
			return mode&^fs.ModePerm | fs.FileMode(acls.Access.Mode()), true, true
		}
		ok = r.reportNotKept(ctx, what, err)
		mode = groupNarrowed(mode, acls.Access)
	}
	acls = nfsclient.ACLs{Access: posixacl.FromMode(uint32(mode.Perm()))}
	if e := set(ctx, Attr{SetACLs: true, ACLs: acls}); e != nil {
		// a copy's failure is one line already; a move's was a warning
		if err == nil || r.opt.move {
			r.fail(ctx, what, e)
		}
		return 0, false, false
	}
	return mode, true, ok
}

// readACLs reads a local object's ACL attributes through get, which is bound to the object.
func readACLs(dir bool, get func(attr string, b []byte) (int, error)) (acls nfsclient.ACLs, err error) {
	if acls.Access, err = readACL(posixacl.AttrAccess, get); err == nil && dir {
		acls.Default, err = readACL(posixacl.AttrDefault, get)
	}
	return acls, err
}

func readACL(attr string, get func(attr string, b []byte) (int, error)) (posixacl.ACL, error) {
	b := make([]byte, posixacl.Size(16)) // enough for most ACLs
	n, err := get(attr, b)
	if errors.Is(err, unix.ERANGE) {
		b = make([]byte, 64<<10) // the longest possible value (XATTR_SIZE_MAX)
		n, err = get(attr, b)
	}
	if errors.Is(err, unix.ENODATA) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return posixacl.Parse(b[:n])
}

// writeACLs sets a local object's ACL attributes through set and remove, which are bound to the
// object.
func writeACLs(a *nfsclient.ACLs, set func(attr string, value []byte) error, remove func(attr string) error) error {
	if plain(a) {
		return dropACL(remove)
	}
	// an ACL equal to a mode removes the attribute
	err := set(posixacl.AttrAccess, a.Access.Append(nil))
	if err != nil {
		return err
	}
	if len(a.Default) == 0 {
		_ = remove(posixacl.AttrDefault) // only directories have a default ACL
		return nil
	}
	return set(posixacl.AttrDefault, a.Default.Append(nil))
}

// dropACL removes both ACLs through remove, which is bound to the object.
func dropACL(remove func(attr string) error) error {
	err := remove(posixacl.AttrAccess)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	_ = remove(posixacl.AttrDefault) // only directories have a default ACL
	return nil
}

// writeACLsAt is like writeACLs, for a name in a directory. It does not follow a link.
func writeACLsAt(dirfd int, name string, a *nfsclient.ACLs) error {
	path := join(procFD(dirfd), name)
	set := func(attr string, value []byte) error { return unix.Lsetxattr(path, attr, value, 0) }
	return writeACLs(a, set, func(attr string) error { return unix.Lremovexattr(path, attr) })
}

// writeACLsOf is like writeACLs, for an open file.
func writeACLsOf(fd int, a *nfsclient.ACLs) error {
	set := func(attr string, value []byte) error { return unix.Fsetxattr(fd, attr, value, 0) }
	return writeACLs(a, set, func(attr string) error { return unix.Fremovexattr(fd, attr) })
}
