// ACLs: a copy with its source's mode has its source's ACLs, or less where it cannot have them.

package treecopy

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// An aclReader reads the ACLs of a source.
type aclReader func(context.Context) (nfsclient.ACLs, error)

// A fileSystem is one that has no ACLs, or shows none.
type fileSystem struct {
	domain any
	fsid   uint64
}

// plain reports whether the lists say no more than a mode does.
func plain(a *nfsclient.ACLs) bool { return a.Access.IsMode() && len(a.Default) == 0 }

// narrowed is a mode without what the file's own group does not have by its ACL. The
// mode does not say: its group bits are the mask, the most that any other user or group has.
func narrowed(mode fs.FileMode, acl posixacl.ACL) fs.FileMode {
	for _, e := range acl {
		if e.Tag == posixacl.GroupObj {
			mode &= fs.FileMode(e.Perm)<<3 | ^fs.FileMode(0o070)
		}
	}
	return mode
}

// aclsOf reads what a source has. A file system without ACLs is asked once, and so is
// a server: no file costs a call that is known to be in vain.
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

// preserveACLs gives an object the ACLs of its source and no others, as those that its directory
// gave it. mode is what the source's mode leaves it. It comes before the mode is set: until then
// the object is its owner's alone, and from then on nobody has more than the source gives him.
//
// It returns the mode to set. Where the ACL cannot be kept, the group gets what the ACL gives it
// and not the mask: a file that one more user may write to must not be one that a group may.
// settable is false where the object may have ACLs that it must not: its mode bounds them, and stays.
func (r *Run) preserveACLs(ctx context.Context, text string, src *Meta, read aclReader, mode fs.FileMode,
	set func(context.Context, Attr) error) (_ fs.FileMode, settable, ok bool) {
	what := "preserving permissions for " + r.quote(text)
	acls, err := r.aclsOf(ctx, src, read)
	ok = true
	switch {
	case err != nil:
		ok = r.notKept(ctx, what, err)
		mode &^= 0o070 // what of it is the group's is not known
	case !plain(&acls):
		if len(acls.Access) == 0 {
			acls.Access = posixacl.FromMode(uint32(mode.Perm()))
		}
		if err = set(ctx, Attr{SetACLs: true, ACLs: acls}); err == nil {
			return mode&^fs.ModePerm | fs.FileMode(acls.Access.Mode()), true, true
		}
		ok = r.notKept(ctx, what, err)
		mode = narrowed(mode, acls.Access)
	}
	acls = nfsclient.ACLs{Access: posixacl.FromMode(uint32(mode.Perm()))}
	if e := set(ctx, Attr{SetACLs: true, ACLs: acls}); e != nil {
		if err == nil { // else one line was printed
			r.notKept(ctx, what, e)
		}
		return 0, false, false
	}
	return mode, true, ok
}

// readACLs reads the attributes of an object of this machine by get, which knows the object.
func readACLs(dir bool, get func(attr string, b []byte) (int, error)) (acls nfsclient.ACLs, err error) {
	if acls.Access, err = readACL(posixacl.AttrAccess, get); err == nil && dir {
		acls.Default, err = readACL(posixacl.AttrDefault, get)
	}
	return acls, err
}

func readACL(attr string, get func(attr string, b []byte) (int, error)) (posixacl.ACL, error) {
	b := make([]byte, posixacl.Size(16)) // enough for most
	n, err := get(attr, b)
	if errors.Is(err, unix.ERANGE) {
		b = make([]byte, 64<<10) // no value is longer (XATTR_SIZE_MAX)
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

// writeACLs sets the attributes of an object of this machine by set and remove, which know the object.
func writeACLs(a *nfsclient.ACLs, set func(attr string, value []byte) error, remove func(attr string) error) error {
	if plain(a) {
		return dropACL(remove)
	}
	err := set(posixacl.AttrAccess, a.Access.Append(nil)) // one that is a mode's takes the attribute away
	if err != nil {
		return err
	}
	if len(a.Default) == 0 {
		_ = remove(posixacl.AttrDefault) // only directories have one
		return nil
	}
	return set(posixacl.AttrDefault, a.Default.Append(nil))
}

// dropACL takes both ACLs away, by remove, which knows the object.
func dropACL(remove func(attr string) error) error {
	err := remove(posixacl.AttrAccess)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	_ = remove(posixacl.AttrDefault) // only directories have one
	return nil
}

// writeACLsAt is writeACLs for a name of a directory; a link is not followed.
func writeACLsAt(dirfd int, name string, a *nfsclient.ACLs) error {
	path := join(procFD(dirfd), name)
	set := func(attr string, value []byte) error { return unix.Lsetxattr(path, attr, value, 0) }
	return writeACLs(a, set, func(attr string) error { return unix.Lremovexattr(path, attr) })
}

// writeACLsOf is writeACLs for an open file.
func writeACLsOf(fd int, a *nfsclient.ACLs) error {
	set := func(attr string, value []byte) error { return unix.Fsetxattr(fd, attr, value, 0) }
	return writeACLs(a, set, func(attr string) error { return unix.Fremovexattr(fd, attr) })
}
