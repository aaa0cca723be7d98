// Lanes: the export that a call may wait for, and the calls that wait.

package nfsserver

import (
	"encoding/binary"
	"path"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Each export is one of the transport's lanes: calls blocked on its disk use no more than the
// lane's share of the workers. All procedures' arguments begin with a handle, and a procedure uses
// only the export in that handle.

// The longest READ and WRITE, in bytes, for which other calls of the connection wait.
const (
	quickRead  = 16 << 10
	quickWrite = 16 << 10
)

// laneByHandle returns the lane for an NFS call. The handle has not been authenticated yet. A call
// with a forged handle may wait in an export's lane, but the sender learns nothing.
func (s *Server) laneByHandle(c *transport.Call) (lane int) {
	args := *c.Args
	b := args.Opaque(nfs3.FHSize) // no FH, because decoding an FH copies, in each call
	if args.Err() != nil || len(b) <= handleHeader {
		return -1
	}
	e := s.table.Load().byID[binary.BigEndian.Uint32(b[4:])]
	if e == nil {
		return -1
	}
	return e.x.lane
}

// laneByPath returns the lane for a MNT: the lane of the export at the path's start, before any
// symbolic link.
func (s *Server) laneByPath(c *transport.Call) (lane int) {
	args := *c.Args
	var a mount3.PathArgs
	a.DecodeXDR(&args)
	if args.Err() != nil {
		return -1
	}
	if above := s.table.Load().above(path.Clean(a.Path)); len(above) > 0 {
		return above[0].e.x.lane
	}
	return -1
}

// quick reports whether the object's attributes and rights, and a short WRITE to it, need no disk.
func (q *request) quick() bool {
	return q.x.info.Quick && (q.x.opt.now == nil || q.x.opt.now.InUse(q.ref))
}

// busyUnlessQuick is called by procedures before they read the object's attributes. It makes a call
// busy if the call may wait for a disk or, with needsUser, for a lookup of groups, which may query
// a directory service.
func (q *request) busyUnlessQuick(needsUser bool) error {
	if q.quick() && (!needsUser || q.srv.knowsUser(q.call)) {
		return nil
	}
	return q.call.Busy()
}

// knowsUser reports whether a call's effective user is known without a lookup.
func (s *Server) knowsUser(c *transport.Call) bool {
	owner := s.owner(c)
	return !s.squash.ManageGIDs && (owner.Kind != transport.OwnerLocal || owner.UID == 0 || s.squash.All)
}

// busy returns the Busy function of a handler's procedure. It replies with the status
// NFS3ERR_JUKEBOX, "try the operation with a new XID later" (RFC 1813 §2.6), without attributes.
func busy[A, R any, PR results[R]](handler[A, R]) func(*transport.Call) {
	return func(c *transport.Call) {
		var res R
		PR(&res).SetStatus(nfs3.ErrJukebox)
		PR(&res).EncodeXDR(c.Res)
	}
}

// mntBusy is the Busy function of MNT, which has no status for a busy server.
func mntBusy(c *transport.Call) {
	res := mount3.MntRes{Status: mount3.ErrServerFault}
	res.EncodeXDR(c.Res)
}
