// The ACL of a local file: to be kept with -p, or not to be widened where it cannot be.

package treecopy

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Of an ACL in an extended attribute: a version, then entries of tag, permissions and id.
const (
	aclHeader   = 4
	aclEntry    = 8
	aclGroupObj = 0x04 // the entry of the file's own group
)

// aclGroup returns what an ACL gives the file's own group. The mode does not say: its
// group bits are the mask, the most that any other user or group has.
func aclGroup(acl []byte) (perm fs.FileMode, ok bool) {
	for at := aclHeader; at+aclEntry <= len(acl); at += aclEntry {
		if binary.LittleEndian.Uint16(acl[at:]) == aclGroupObj {
			return fs.FileMode(binary.LittleEndian.Uint16(acl[at+2:])) & 7, true
		}
	}
	return 0, false
}

// xattrACL holds the access ACL of a file, xattrDefault what a directory gives to new objects.
const (
	xattrACL     = "system.posix_acl_access"
	xattrDefault = "system.posix_acl_default"
)

// dropACL takes both ACLs away, by remove, which knows the object.
func dropACL(remove func(attr string) error) error {
	err := remove(xattrACL)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	_ = remove(xattrDefault) // only directories have one
	return nil
}

// dropACLAt is dropACL for a name of a directory; a link is not followed.
func dropACLAt(dirfd int, name string) error {
	path := join(procFD(dirfd), name)
	return dropACL(func(attr string) error { return unix.Lremovexattr(path, attr) })
}

// dropACLOf is dropACL for an open file.
func dropACLOf(fd int) error {
	return dropACL(func(attr string) error { return unix.Fremovexattr(fd, attr) })
}

// carryACL gives a copy with its source's mode the source's ACL too. Where that
// cannot be, and NFSv3 has none, the group gets what the ACL gives it and not the
// mask: a file that one more user may write to must not be one that a group may.
func (r *Run) carryACL(ctx context.Context, j *job, src Source, sink Sink) error {
	from, ok := src.(*localFile)
	if !ok || !r.opt.Preserve.Mode {
		return nil
	}
	acl := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(from.fd, xattrACL, acl)
	if err != nil {
		return nil // none, or none here
	}
	group, ok := aclGroup(acl[:n])
	if !ok {
		return nil
	}
	if to, local := sink.(*localSink); local && unix.Fsetxattr(to.fd, xattrACL, acl[:n], 0) == nil {
		return nil
	}
	r.opt.Warn("the ACL of " + r.quote(j.srcText) + " is not kept, " + r.quote(j.dstText) + " has only a mode")
	err = sink.SetAttr(ctx, Attr{SetMode: true, Mode: j.src.Mode.Perm()&^0o070 | group<<3})
	if err != nil {
		r.fail(ctx, "preserving permissions for "+r.quote(j.dstText), err)
		return errReported
	}
	return nil
}

// A place is a name of a directory, "." for the directory itself.
type place struct {
	dir  Dir
	name string
	text string
}

// acl reads an ACL; nil says that there is none.
func (p place) acl(attr string) []byte {
	d, ok := p.dir.(*localDir)
	if !ok {
		return nil
	}
	acl := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(join(procFD(d.fd), p.name), attr, acl)
	if err != nil {
		return nil
	}
	return acl[:n]
}

// setACL reports whether the object has the ACL now.
func (p place) setACL(attr string, acl []byte) bool {
	d, ok := p.dir.(*localDir)
	return ok && unix.Lsetxattr(join(procFD(d.fd), p.name), attr, acl, 0) == nil
}

// preserveAt is preserve for a directory or a special file, with the ACLs. The mode
// is set without the mask first, so that the group never gets what is others'.
func (r *Run) preserveAt(ctx context.Context, from, to place, src, cur *Meta, set func(context.Context, Attr) error) bool {
	var acl, def []byte
	narrow := *src
	if r.opt.Preserve.Mode {
		acl, def = from.acl(xattrACL), from.acl(xattrDefault)
	}
	if group, ok := aclGroup(acl); ok {
		narrow.Mode = narrow.Mode&^0o070 | group<<3
	}
	ok := r.preserve(ctx, to.text, &narrow, cur, set)
	if acl != nil && !to.setACL(xattrACL, acl) || def != nil && !to.setACL(xattrDefault, def) {
		r.opt.Warn("the ACL of " + r.quote(from.text) + " is not kept, " + r.quote(to.text) + " has only a mode")
	}
	return ok
}
