// ACLs: GETACL and SETACL of NFSACL, the program that servers have beside NFS (100227, on its
// port).

package nfsclient

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// The procedures of NFSACL are counted on from those of NFS, in procs and in StatusError.Proc.
const (
	procGetACL = nfs3.NumProcs + nfsacl3.ProcGetACL
	procSetACL = nfs3.NumProcs + nfsacl3.ProcSetACL
	numProcs   = procSetACL + 1
)

// aclReply is room for a reply whose lists have aclFew entries each, which most have not. The size
// of lists is not known before (RFC 8267 §5.2), and room for the largest would have every call
// over RDMA register memory for a Reply chunk: with this much the reply comes inline. Only
// where the server says that it is too little, the call is made again with room for all.
const (
	aclFew   = 32
	aclReply = nfsacl3.MaxReply - 2*12*(nfsacl3.MaxEntries-aclFew)
)

// aclProcs are the rows of procs for NFSACL. SETACL's reply has a status and attributes alone.
var aclProcs = [numProcs - nfs3.NumProcs]transport.Proc{
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcNull, Name: "ACL_NULL"},
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcGetACL, Name: "GETACL", MaxReply: aclReply},
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcSetACL, Name: "SETACL", MaxReply: aclReply},
}

// ACLs are those of one object.
type ACLs struct {
	// Access decides about the object. Where it has only a mode, it is what that says (see
	// posixacl.ACL.IsMode).
	Access posixacl.ACL
	// Default is what objects that are made in the directory begin with; empty: nothing.
	Default posixacl.ACL
}

// aclServer is whether the server has NFSACL. It is shared by all that As returns.
type aclServer struct{ absent atomic.Bool }

// noACL is the error of a server without NFSACL, which is not asked again.
func noACL(proc uint32) error { return &StatusError{Proc: proc, Status: nfs3.ErrNotSupp} }

// learn makes of the error of a call what the caller is told, and notes a server without the
// program.
func (s *aclServer) learn(proc uint32, err error) error {
	var vers *transport.MismatchError
	if errors.Is(err, transport.ErrProgUnavail) || errors.Is(err, transport.ErrProcUnavail) || errors.As(err, &vers) && vers.Prog != 0 {
		s.absent.Store(true)
		return noACL(proc)
	}
	return err
}

// HasACLs reports whether the server speaks NFSACL. It asks once.
func (c *Client) HasACLs(ctx context.Context) (bool, error) {
	_, err := c.conn(0).call(ctx, 0, c.auth, nfs3.NumProcs+nfsacl3.ProcNull, void{}, void{}, nil, 0)
	if err = c.acl.learn(procGetACL, err); c.acl.absent.Load() {
		return false, nil
	}
	return err == nil, err
}

// GetACL reads the ACLs of an object. attr is what the reply said of it, of a refusal too. A server
// that does not have NFSACL is errors.ErrUnsupported, and not asked again.
func (c *Client) GetACL(ctx context.Context, fh nfs3.FH) (acls ACLs, attr nfs3.PostOpAttr, err error) {
	if c.acl.absent.Load() {
		return ACLs{}, attr, noACL(procGetACL)
	}
	args := nfsacl3.GetACLArgs{FH: fh, Mask: nfsacl3.MaskAll}
	var res nfsacl3.GetACLRes
	err = c.call(ctx, procGetACL, &args, &res, &res.Status, nil, 0)
	if errors.Is(err, transport.ErrNoRoom) {
		err = c.call(ctx, procGetACL, &args, &res, &res.Status, nil, nfsacl3.MaxReply-aclReply)
	}
	if err = c.acl.learn(procGetACL, err); err != nil {
		return ACLs{}, res.Attr, err
	}
	acls.Access, acls.Default = fromWire(res.ACLs.Access), fromWire(res.ACLs.Default)
	if acls.Access.Validate() != nil || acls.Default.Validate() != nil {
		return ACLs{}, res.Attr, errBadReply
	}
	if len(acls.Access) == 0 && res.Attr.Present {
		acls.Access = posixacl.FromMode(res.Attr.Attr.Mode)
	}
	return acls, res.Attr, nil
}

// SetACL sets the ACLs of an object, of a directory both: NFSACL has no call that leaves one of the
// two as it is (Linux's server takes away the one that is not sent). Permission bits change with
// acls.Access, which must not be empty. attr is what the reply said of the object.
func (c *Client) SetACL(ctx context.Context, fh nfs3.FH, acls ACLs, dir bool) (attr nfs3.PostOpAttr, err error) {
	if c.acl.absent.Load() {
		return attr, noACL(procSetACL)
	}
	mask := nfsacl3.MaskAccess
	if dir {
		mask |= nfsacl3.MaskDefault
	}
	if !sendable(acls.Access) || len(acls.Access) == 0 || !sendable(acls.Default) {
		return attr, &StatusError{Proc: procSetACL, Status: nfs3.ErrInval}
	}
	args := nfsacl3.SetACLArgs{FH: fh, ACLs: nfsacl3.ACLs{Mask: mask, Access: toWire(acls.Access), Default: toWire(acls.Default)}}
	var res nfsacl3.SetACLRes
	err = c.call(ctx, procSetACL, &args, &res, &res.Status, nil, 0)
	return res.Attr, c.acl.learn(procSetACL, err)
}

// sendable reports whether the list is valid and has no more entries than the protocol carries.
func sendable(a posixacl.ACL) bool { return a.Validate() == nil && len(a) <= nfsacl3.MaxEntries }

func fromWire(list []nfsacl3.Entry) posixacl.ACL {
	if len(list) == 0 {
		return nil
	}
	acl := make(posixacl.ACL, len(list))
	for i, e := range list {
		acl[i] = posixacl.Entry{Tag: posixacl.Tag(e.Tag), Perm: uint16(e.Perm), ID: e.ID}
		if t := acl[i].Tag; t != posixacl.User && t != posixacl.Group {
			acl[i].ID = posixacl.NoID // servers put the object's owner and group there
		}
	}
	return acl
}

func toWire(acl posixacl.ACL) []nfsacl3.Entry {
	list := make([]nfsacl3.Entry, len(acl))
	for i, e := range acl {
		list[i] = nfsacl3.Entry{Tag: uint32(e.Tag), Perm: uint32(e.Perm)}
		if e.Tag == posixacl.User || e.Tag == posixacl.Group {
			list[i].ID = e.ID
		}
	}
	return list
}

// ACLs reads the ACLs of what name leads to.
func (f *FS) ACLs(ctx context.Context, name string) (ACLs, error) {
	n, err := f.walk(ctx, name, true)
	var acls ACLs
	if err == nil {
		acls, _, err = f.c.GetACL(ctx, n.FH)
	}
	return acls, pathError("getacl", name, err)
}

// SetACLs sets the ACLs of what name leads to: of a directory both, of anything else Access.
func (f *FS) SetACLs(ctx context.Context, name string, acls ACLs) error {
	n, err := f.walk(ctx, name, true)
	if err == nil && n.Attr.Type == 0 { // the root, which no LOOKUP has brought
		n.Attr, err = f.c.Getattr(ctx, n.FH)
	}
	dir := n.Attr.Type == nfs3.TypeDir
	if err == nil && !dir && len(acls.Default) > 0 {
		err = &StatusError{Proc: procSetACL, Status: nfs3.ErrAcces} // as of setxattr(2)
	}
	if err == nil {
		_, err = f.c.SetACL(ctx, n.FH, acls, dir)
	}
	return pathError("setacl", name, err)
}
