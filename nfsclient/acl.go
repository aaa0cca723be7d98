// ACLs: GETACL and SETACL of NFSACL (program 100227, on the NFS port).

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

// NFSACL procedures are numbered after those of NFS, in procs and in StatusError.Proc.
const (
	procGetACL = nfs3.NumProcs + nfsacl3.ProcGetACL
	procSetACL = nfs3.NumProcs + nfsacl3.ProcSetACL
	numProcs   = procSetACL + 1
)

// aclReply bounds a reply with aclFew entries in each list, in bytes; longer lists are rare. The
// lists' size is unknown before the call (RFC 8267 §5.2). With room for the largest lists, every
// RDMA call would register memory for a Reply chunk. With aclReply bytes the reply comes inline. If
// the server reports too little room, GetACL repeats the call with room for the largest lists.
const (
	aclFew   = 32
	aclReply = nfsacl3.MaxReply - 2*12*(nfsacl3.MaxEntries-aclFew)
)

// aclProcs are the NFSACL rows of procs. SETACL's reply has only a status and attributes.
var aclProcs = [numProcs - nfs3.NumProcs]transport.Proc{
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcNull, Name: "ACL_NULL"},
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcGetACL, Name: "GETACL", MaxReply: aclReply},
	{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: nfsacl3.ProcSetACL, Name: "SETACL", MaxReply: aclReply},
}

// ACLs are the ACLs of one object.
type ACLs struct {
	// Access decides about the object. If the object has only a mode, Access is the equivalent list
	// (see posixacl.ACL.IsMode).
	Access posixacl.ACL
	// Default is the initial ACL for new objects in the directory; empty: none.
	Default posixacl.ACL
}

// aclServer records whether the server has NFSACL. All Clients from As share it.
type aclServer struct{ absent atomic.Bool }

// noACL returns the error for a server known to lack NFSACL, without a call.
func noACL(proc uint32) error { return &StatusError{Proc: proc, Status: nfs3.ErrNotSupp} }

// learn converts a call's error for the caller. It records that the server lacks NFSACL.
func (s *aclServer) learn(proc uint32, err error) error {
	var vers *transport.MismatchError
	if errors.Is(err, transport.ErrProgUnavail) || errors.Is(err, transport.ErrProcUnavail) || errors.As(err, &vers) && vers.Prog != 0 {
		s.absent.Store(true)
		return noACL(proc)
	}
	return err
}

// HasACLs reports whether the server supports NFSACL. It sends one call.
func (c *Client) HasACLs(ctx context.Context) (bool, error) {
	_, err := c.conn(0).call(ctx, 0, c.auth, nfs3.NumProcs+nfsacl3.ProcNull, void{}, void{}, nil, 0)
	if err = c.acl.learn(procGetACL, err); c.acl.absent.Load() {
		return false, nil
	}
	return err == nil, err
}

// GetACL reads an object's ACLs. attr has the object's attributes from the reply, even from a
// refusal. If the server lacks NFSACL the error is errors.ErrUnsupported, and later calls do not
// ask again.
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

// SetACL sets an object's ACLs; for a directory both. One SETACL cannot keep either list (Linux's
// server removes a list not sent). acls.Access must not be empty; permission bits change with it.
// attr has the attributes in the reply.
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

// sendable reports whether the list is valid and fits the protocol's entry limit.
func sendable(a posixacl.ACL) bool { return a.Validate() == nil && len(a) <= nfsacl3.MaxEntries }

// fromWire converts a list from the wire. Only entries for named users and groups keep their ID.
func fromWire(list []nfsacl3.Entry) posixacl.ACL {
	if len(list) == 0 {
		return nil
	}
	acl := make(posixacl.ACL, len(list))
	for i, e := range list {
		acl[i] = posixacl.Entry{Tag: posixacl.Tag(e.Tag), Perm: uint16(e.Perm), ID: e.ID}
		if t := acl[i].Tag; t != posixacl.User && t != posixacl.Group {
			acl[i].ID = posixacl.NoID // servers send the object's owner and group as ID
		}
	}
	return acl
}

// toWire converts a list for the wire, with ID 0 for entries without one.
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

// ACLs reads the ACLs of the object at name.
func (f *FS) ACLs(ctx context.Context, name string) (ACLs, error) {
	n, err := f.walk(ctx, name, true)
	var acls ACLs
	if err == nil {
		acls, _, err = f.c.GetACL(ctx, n.FH)
	}
	return acls, pathError("getacl", name, err)
}

// SetACLs sets the ACLs of the object at name: both for a directory, otherwise Access.
func (f *FS) SetACLs(ctx context.Context, name string, acls ACLs) error {
	n, err := f.walk(ctx, name, true)
	if err == nil && n.Attr.Type == 0 { // the root: no LOOKUP returned its attributes
		n.Attr, err = f.c.Getattr(ctx, n.FH)
	}
	dir := n.Attr.Type == nfs3.TypeDir
	if err == nil && !dir && len(acls.Default) > 0 {
		err = &StatusError{Proc: procSetACL, Status: nfs3.ErrAcces} // like setxattr(2)
	}
	if err == nil {
		_, err = f.c.SetACL(ctx, n.FH, acls, dir)
	}
	return pathError("setacl", name, err)
}
