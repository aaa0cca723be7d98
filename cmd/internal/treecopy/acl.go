// The ACL of a local file: to be kept with -p, or not to be widened where it cannot be.

package treecopy

import (
	"context"
	"encoding/binary"
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
