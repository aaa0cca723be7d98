// The interface to an audit log of changes to names and attributes, with each change's caller and
// status.

package nfsserver

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// An Auditor receives each call to change names or attributes: CREATE, MKDIR, SYMLINK, MKNOD,
// REMOVE, RMDIR, RENAME, LINK, SETATTR, and SETACL of NFSACL. It receives the call once the call's
// status is known, before the reply.
//
// The Auditor does not receive calls that are answered without being examined: a repeated call
// answered from the duplicate request cache; a call refused with NFS3ERR_JUKEBOX because too many
// calls wait for the same export; and a call with a rejected credential.
type Auditor interface {
	// Change must not block, because the call waits for it. c and all memory reachable from c are
	// valid until Change returns. Concurrency: many calls at once. Of two dependent changes the
	// first is reported first.
	Change(c *Change)
}

// A Change is one call to change names or attributes.
type Change struct {
	Time   time.Time // when the call's status was known
	Remote net.Addr
	RDMA   bool

	Named     bool // the credential names a user (AUTH_SYS, RPCSEC_GSS): UID and GID
	UID, GID  uint32
	Flavor    oncrpc.Flavor // for RPCSEC_GSS, the pseudo-flavor
	Principal string        // for RPCSEC_GSS; otherwise ""
	// Acted: the effective user (ActsUID and ActsGID) is known, by Squash and the export's rules. A
	// call refused earlier has no effective user.
	Acted            bool
	ActsUID, ActsGID uint32

	Operation string  // such as "CREATE"
	Export    string  // "": the call's handle belongs to no export
	Root      nfs3.FH // of the export, for comparison with At, To or their directories; else empty
	Status    nfs3.Status

	At     Place
	To     Place  // for RENAME and LINK
	Fileid uint64 // the created or changed object's; 0: unknown

	// The call's arguments; nil, or zero, where the operation lacks that argument.
	Attr   *nfs3.Sattr
	How    *nfs3.CreateMode
	Type   nfs3.FileType // for MKNOD
	Rdev   nfs3.Specdata // for MKNOD
	Target []byte        // for SYMLINK
	ACLs   *nfsacl3.ACLs // for SETACL
}

// A Place is a name in a directory, as sent in the call. Without a Name (nil) the place is the
// object FH itself.
type Place struct {
	FH     nfs3.FH
	Name   []byte
	Fileid uint64 // the directory's; 0: unknown
}

var changes = sync.Pool{New: func() any { return new(Change) }}

// audited reports a call with result st to the Auditor. describe adds the call's arguments and
// results to the Change.
func audited[A, R any](q *request, s *Server, c *transport.Call, fh *nfs3.FH, st nfs3.Status, describe func(*Change, *A, *R), a *A, r *R) {
	ch := changes.Get().(*Change)
	*ch = Change{Time: time.Now(), Remote: c.Remote, RDMA: c.RDMA, Status: st,
		Acted: q.acted, ActsUID: q.uid, ActsGID: q.gid, Flavor: c.Cred.Flavor, Principal: c.Cred.Principal}
	if namesUser(&c.Cred) {
		ch.Named, ch.UID, ch.GID = true, c.Cred.UID, c.Cred.GID
	}
	if q.x != nil {
		ch.Export, ch.Root = q.x.name, s.fh(q.x, &q.x.root)
	} else if id, ok := handleExport(fh.Bytes()); ok {
		if e := s.table.Load().byID[id]; e != nil {
			if _, err := s.ref(e.x, fh); !errors.Is(err, nfs3.ErrBadHandle) {
				ch.Export = e.x.name
			}
		}
	}
	describe(ch, a, r)
	s.audit.Change(ch)
	*ch = Change{} // drops all references to the call
	changes.Put(ch)
}

// in returns the place for a name in a directory, with the directory's fileid from the attributes
// after the call.
func in(w *nfs3.DirOpArgs, wcc *nfs3.WccData) Place {
	p := Place{FH: w.Dir, Name: w.Name, Fileid: fileid(&wcc.After)}
	if p.Name == nil {
		p.Name = []byte{} // an empty name is a name; a nil Name means no name
	}
	return p
}

func fileid(a *nfs3.PostOpAttr) uint64 {
	if !a.Present {
		return 0
	}
	return a.Attr.Fileid
}

// made sets the fields common to the four operations that create an object.
func (c *Change) made(op string, w *nfs3.DirOpArgs, r *nfs3.CreateRes) {
	c.Operation, c.At = op, in(w, &r.DirWcc)
	if c.Status == nfs3.OK {
		c.Fileid = fileid(&r.Attr)
	}
}

func describeCreate(c *Change, a *nfs3.CreateArgs, r *nfs3.CreateRes) {
	c.made("CREATE", &a.Where, r)
	c.How = &a.Mode
	if a.Mode != nfs3.Exclusive {
		c.Attr = &a.Attr
	}
}

func describeMkdir(c *Change, a *nfs3.MkdirArgs, r *nfs3.MkdirRes) {
	c.made("MKDIR", &a.Where, r)
	c.Attr = &a.Attr
}

func describeSymlink(c *Change, a *nfs3.SymlinkArgs, r *nfs3.SymlinkRes) {
	c.made("SYMLINK", &a.Where, r)
	c.Attr, c.Target = &a.Attr, a.Path
}

func describeMknod(c *Change, a *nfs3.MknodArgs, r *nfs3.MknodRes) {
	c.made("MKNOD", &a.Where, r)
	c.Attr, c.Type, c.Rdev = &a.Attr, a.Type, a.Rdev
}

func describeRemove(c *Change, a *nfs3.RemoveArgs, r *nfs3.RemoveRes) {
	c.Operation, c.At = "REMOVE", in(a, &r.Wcc)
}

func describeRmdir(c *Change, a *nfs3.RmdirArgs, r *nfs3.RmdirRes) {
	c.Operation, c.At = "RMDIR", in(a, &r.Wcc)
}

func describeRename(c *Change, a *nfs3.RenameArgs, r *nfs3.RenameRes) {
	c.Operation, c.At, c.To = "RENAME", in(&a.From, &r.FromWcc), in(&a.To, &r.ToWcc)
}

func describeLink(c *Change, a *nfs3.LinkArgs, r *nfs3.LinkRes) {
	c.Operation, c.At, c.To = "LINK", Place{FH: a.FH}, in(&a.Link, &r.DirWcc)
	c.Fileid = fileid(&r.Attr)
}

func describeSetattr(c *Change, a *nfs3.SetattrArgs, r *nfs3.SetattrRes) {
	c.Operation, c.At, c.Attr = "SETATTR", Place{FH: a.FH}, &a.Attr
	c.Fileid = fileid(&r.Wcc.After)
}

func describeSetACL(c *Change, a *nfsacl3.SetACLArgs, r *nfsacl3.SetACLRes) {
	c.Operation, c.At, c.ACLs = "SETACL", Place{FH: a.FH}, &a.ACLs
	c.Fileid = fileid(&r.Attr)
}
