// Placing: which export a call may wait for, and which calls wait.

package nfsserver

import (
	"encoding/binary"
	"path"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Each export is a lane of the transport's: calls on one whose disk does not answer take
// no more than its part of the workers. The arguments of all procedures begin with a
// handle, and that handle's export is the only one that a procedure asks anything of.

// The longest READ and WRITE, in bytes, that other calls of the connection wait for.
const (
	quickRead  = 16 << 10
	quickWrite = 16 << 10
)

// placeByHandle is the Lane of an NFS procedure. The handle has not been authenticated yet: one
// that is no handle of this server may wait with those of an export, and learns nothing.
func (s *Server) placeByHandle(c *transport.Call) (lane int) {
	args := *c.Args
	b := args.Opaque(nfs3.FHSize) // no FH: this is done for each call, and needs no copy
	if args.Err() != nil || len(b) <= handleHeader {
		return -1
	}
	e := s.table.Load().byID[binary.BigEndian.Uint32(b[4:])]
	if e == nil {
		return -1
	}
	return e.x.lane
}

// placeByPath is the Lane of MNT: that of the export at the start of the path, before any symbolic
// link.
func (s *Server) placeByPath(c *transport.Call) (lane int) {
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

// quick reports whether attributes and rights of the object, and a short WRITE to it, wait for no
// disk.
func (q *request) quick() bool {
	return q.x.info.Quick && (q.x.opt.now == nil || q.x.opt.now.InUse(q.ref))
}

// asks is called by procedures that ask for attributes of the object, before they do. With known
// they ask as whom the call acts, too: where that takes a look-up of groups, it may be one in a
// directory service.
func (q *request) asks(known bool) error {
	if q.quick() && (!known || q.srv.knows(q.call)) {
		return nil
	}
	return q.call.Busy()
}

// knows reports whether it takes no look-up to know as whom a call acts.
func (s *Server) knows(c *transport.Call) bool {
	owner := s.owner(c)
	return !s.squash.ManageGIDs && (owner.Kind != transport.OwnerLocal || owner.UID == 0 || s.squash.All)
}

// busy is the Busy of the procedure of a handler: results whose status is NFS3ERR_JUKEBOX,
// "try the operation with a new XID later" (RFC 1813 §2.6), without attributes.
func busy[A, R any, PR results[R]](handler[A, R]) func(*transport.Call) {
	return func(c *transport.Call) {
		var res R
		PR(&res).SetStatus(nfs3.ErrJukebox)
		PR(&res).EncodeXDR(c.Res)
	}
}

// mntBusy is the Busy of MNT, which has no status for it.
func mntBusy(c *transport.Call) {
	res := mount3.MntRes{Status: mount3.ErrServerFault}
	res.EncodeXDR(c.Res)
}
