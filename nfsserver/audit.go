// The seam to an audit log: what calls ask to change of names and attributes, who asks, and what
// becomes of it.

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

// An Auditor is told of each call that asks for a change of names or attributes (CREATE, MKDIR,
// SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK, SETATTR, and SETACL of NFSACL), once its status is
// known and before it is answered. It is not told of calls that the server answers without a look
// at them: a repeated one, from the duplicate request cache; one that is told to come again because
// too many wait for the same export; and one whose caller is not believed.
type Auditor interface {
	// Change must not wait, as the call does meanwhile. c and all it points at are valid until it
	// returns. Concurrency: many calls at once; of two changes that depend on one another the first
	// is told first.
	Change(c *Change)
}

// A Change is such a call.
type Change struct {
	Time   time.Time // when its status was known
	Remote net.Addr
	RDMA   bool

	Named    bool // the caller says who it is (AUTH_SYS): UID and GID
	UID, GID uint32
	// Acted: it was found out as whom the call acts (Squash, and the rules of the export): ActsUID
	// and ActsGID. A call that was refused before has no such user.
	Acted            bool
	ActsUID, ActsGID uint32

	Operation string  // such as "CREATE"
	Export    string  // "": its handle is of none
	Root      nfs3.FH // of the export, where At, To or their directories may be that; else empty
	Status    nfs3.Status

	At     Place
	To     Place  // of RENAME and LINK
	Fileid uint64 // of the object made or changed; 0: not known

	// What was asked for; nil, or zero, where the operation has no such argument.
	Attr   *nfs3.Sattr
	How    *nfs3.CreateMode
	Type   nfs3.FileType // of MKNOD
	Rdev   nfs3.Specdata // of MKNOD
	Target []byte        // of SYMLINK
	ACLs   *nfsacl3.ACLs // of SETACL
}

// A Place is a name in a directory, as a call names it; or an object, where Name is nil.
type Place struct {
	FH     nfs3.FH
	Name   []byte
	Fileid uint64 // of the directory; 0: not known
}

var changes = sync.Pool{New: func() any { return new(Change) }}

// audited tells the Auditor of a call that has ended with st; describe adds its arguments and
// results.
func audited[A, R any](q *request, s *Server, c *transport.Call, fh *nfs3.FH, st nfs3.Status, describe func(*Change, *A, *R), a *A, r *R) {
	ch := changes.Get().(*Change)
	*ch = Change{Time: time.Now(), Remote: c.Remote, RDMA: c.RDMA, Status: st,
		Acted: q.acted, ActsUID: q.uid, ActsGID: q.gid}
	if c.Cred.Flavor == oncrpc.FlavorSys {
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
	*ch = Change{} // keeps nothing of the call
	changes.Put(ch)
}

// in is a name in a directory, whose attributes after the call say its number.
func in(w *nfs3.DirOpArgs, wcc *nfs3.WccData) Place {
	p := Place{FH: w.Dir, Name: w.Name, Fileid: fileid(&wcc.After)}
	if p.Name == nil {
		p.Name = []byte{} // an empty name is one
	}
	return p
}

func fileid(a *nfs3.PostOpAttr) uint64 {
	if !a.Present {
		return 0
	}
	return a.Attr.Fileid
}

// made is what the four operations that make an object share.
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
