// NFSACL 3: POSIX ACLs of files, in addition to NFS.

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// aclProgram returns the NFSACL program, version 3.
func (s *Server) aclProgram() *transport.Program {
	procs := []transport.Procedure{
		nfsacl3.ProcNull:   {Name: "NULL", Run: null, Inline: true, Idempotent: true},
		nfsacl3.ProcGetACL: {Name: "GETACL", Run: adapt(s, getACL), Busy: busy(getACL), Lane: s.laneByHandle, Idempotent: true},
		nfsacl3.ProcSetACL: {Name: "SETACL", Run: adaptChange(s, setACL, describeSetACL), Busy: busy(setACL), Lane: s.laneByHandle},
	}
	return &transport.Program{Name: "nfsacl", Number: nfsacl3.Program, Version: nfsacl3.Version, Procs: procs, Lanes: s.Names(), Authorize: s.authorizeACL}
}

// acls returns the FS's ACLs, or ErrNotSupp if the FS has no ACLs or the export hides them.
func (o *object) acls() (ACLer, error) {
	if o.x.opt.acls == nil || o.may.noACL {
		return nil, nfs3.ErrNotSupp
	}
	return o.x.opt.acls, nil
}

// getACL does GETACL. Like GETATTR the call needs no permission besides the handle.
func getACL(q *request, a *nfsacl3.GetACLArgs, res *nfsacl3.GetACLRes) error {
	// Read the attributes before the ACL: a client that sees the attributes change later asks for
	// the ACL again.
	at, err := q.attr()
	if err != nil {
		return err
	}
	res.Attr = postOp(&at)
	fs, err := q.acls()
	if err != nil {
		return err
	}
	if a.Mask&^nfsacl3.MaskAll != 0 {
		return nfs3.ErrInval
	}
	res.ACLs.Mask = a.Mask
	if a.Mask&(nfsacl3.MaskAccess|nfsacl3.MaskAccessCount) != 0 {
		acl, err := fs.ACL(q.ref, AccessACL)
		if err != nil {
			return err
		}
		if len(acl) == 0 { // without a stored ACL, send the ACL equal to the mode
			acl = posixacl.FromMode(at.Mode)
		}
		res.ACLs.Access = wireACL(acl, &at)
		res.ACLs.AccessCount = nfsacl3.Count(res.ACLs.Access)
	}
	if a.Mask&(nfsacl3.MaskDefault|nfsacl3.MaskDefaultCount) != 0 && at.Type == TypeDir {
		acl, err := fs.ACL(q.ref, DefaultACL)
		if err != nil {
			return err
		}
		res.ACLs.Default = wireACL(acl, &at)
		res.ACLs.DefaultCount = nfsacl3.Count(res.ACLs.Default)
	}
	if len(res.ACLs.Access) > nfsacl3.MaxEntries || len(res.ACLs.Default) > nfsacl3.MaxEntries {
		return nfs3.ErrInval // a local program set an ACL too long for the protocol
	}
	return nil
}

// setACL does SETACL.
func setACL(q *request, a *nfsacl3.SetACLArgs, res *nfsacl3.SetACLRes) error {
	w := q.who()
	lock := q.x.locks.lock(&q.ref)
	err := q.setACLs(&w, &a.ACLs)
	res.Attr = q.post()
	q.x.locks.unlock(lock)
	return q.syncChanged(err, &q.ref)
}

// setACLs sets the received lists; o's lock is held. If a list is invalid, setACLs changes
// nothing.
func (o *object) setACLs(w *Cred, lists *nfsacl3.ACLs) error {
	at, err := o.attr()
	if err != nil {
		return err
	}
	fs, err := o.acls()
	access, dflt := modelACL(lists.Access), modelACL(lists.Default)
	switch {
	case err != nil:
		return err
	case o.may.readOnly:
		return nfs3.ErrROFS
	case access.Validate() != nil || dflt.Validate() != nil:
		return nfs3.ErrInval
	case len(dflt) > 0 && at.Type != TypeDir:
		return nfs3.ErrAcces // as from setxattr(2)
	}
	if lists.Mask&nfsacl3.MaskAccess != 0 {
		if err := fs.SetACL(*w, o.ref, AccessACL, access); err != nil {
			return err
		}
	}
	if lists.Mask&nfsacl3.MaskDefault != 0 && at.Type == TypeDir {
		return fs.SetACL(*w, o.ref, DefaultACL, dflt)
	}
	return nil
}

// wireACL encodes an ACL of an object with attributes at. The wire form also has the owner's
// and the group's ids.
func wireACL(acl posixacl.ACL, at *Attr) []nfsacl3.Entry {
	list := make([]nfsacl3.Entry, len(acl))
	for i, e := range acl {
		w := nfsacl3.Entry{Tag: uint32(e.Tag), Perm: uint32(e.Perm)}
		switch e.Tag {
		case posixacl.UserObj:
			w.ID = at.UID
		case posixacl.GroupObj:
			w.ID = at.GID
		case posixacl.User, posixacl.Group:
			w.ID = e.ID
		}
		list[i] = w
	}
	return list
}

// modelACL converts a decoded list for the FS. The list's tags and permissions have been checked.
func modelACL(list []nfsacl3.Entry) posixacl.ACL {
	acl := make(posixacl.ACL, len(list))
	for i, w := range list {
		e := posixacl.Entry{Tag: posixacl.Tag(w.Tag), Perm: uint16(w.Perm), ID: posixacl.NoID}
		if e.Tag == posixacl.User || e.Tag == posixacl.Group {
			e.ID = w.ID
		}
		acl[i] = e
	}
	return acl
}
