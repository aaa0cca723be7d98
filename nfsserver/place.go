// Placing: which export a call may wait for, and whether it may run where it arrived.

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

// quickRead is the longest READ that runs where it arrived: calls after it on the connection wait
// for the copy.
const quickRead = 16 << 10

// quickWrite is the longest WRITE that is Short.
const quickWrite = 16 << 10

// placeByHandle is the Lane of an NFS procedure. The handle has not been authenticated yet: one
// that is no handle of this server may wait with those of an export, and learns nothing.
func (s *Server) placeByHandle(c *transport.Call) (lane int, inline bool) {
	return s.place(c, func(x *export, r Ref) bool { return x.opt.now == nil || x.opt.now.InUse(r) })
}

// place is placeByHandle; quick reports whether a call waits for no disk of an object, of an export
// that is Quick.
func (s *Server) place(c *transport.Call, quick func(*export, Ref) bool) (lane int, inline bool) {
	args := *c.Args
	b := args.Opaque(nfs3.FHSize) // no FH: this is done for each call, and needs no copy
	if args.Err() != nil || len(b) <= handleHeader {
		return -1, true
	}
	e := s.table.Load().byID[binary.BigEndian.Uint32(b[4:])]
	if e == nil {
		return -1, true
	}
	x := e.x
	if !x.ready.Load() {
		return x.lane, true
	}
	if !x.info.Quick {
		return x.lane, false
	}
	if !x.enter() {
		return x.lane, false // it is just being replaced
	}
	defer x.leave()
	r, ok := MakeRef(b[handleHeader:])
	return x.lane, !ok || quick(x, r)
}

// placeAccess is placeByHandle of ACCESS and LOOKUP, which ask as whom the call acts: where that
// takes a look-up of groups, no other call waits for it, as it may be one in a directory service.
func (s *Server) placeAccess(c *transport.Call) (lane int, inline bool) {
	lane, inline = s.placeByHandle(c)
	return lane, inline && s.knows(c)
}

// knows reports whether it takes no look-up to know as whom a call acts.
func (s *Server) knows(c *transport.Call) bool {
	owner := s.owner(c)
	return !s.squash.ManageGIDs && (owner.Kind != transport.OwnerLocal || owner.UID == 0 || s.squash.All)
}

// placeRead is placeAccess of READ, of which short ones alone may run where they arrived.
func (s *Server) placeRead(c *transport.Call) (lane int, inline bool) {
	args := *c.Args
	args.Opaque(nfs3.FHSize)
	args.Uint64()
	short := args.Uint32() <= quickRead
	lane, inline = s.place(c, func(x *export, r Ref) bool { return short && x.opt.now != nil && x.opt.now.ReadsInUse(r) })
	return lane, inline && s.knows(c)
}

// shortWrite is the Short of WRITE: one of few bytes that need not be stable, to a file that is in
// use on a disk of this machine, is a copy into the kernel's memory, unless that has too much to
// write already.
func (s *Server) shortWrite(c *transport.Call) bool {
	args := *c.Args
	args.Opaque(nfs3.FHSize)
	args.Uint64()
	if n := args.Uint32(); n > quickWrite || nfs3.StableHow(args.Uint32()) != nfs3.Unstable || args.Err() != nil {
		return false
	}
	_, quick := s.placeByHandle(c)
	return quick && s.knows(c)
}

// placeByPath is the Lane of MNT: that of the export at the start of the path, before any symbolic
// link.
func (s *Server) placeByPath(c *transport.Call) (lane int, inline bool) {
	args := *c.Args
	var a mount3.PathArgs
	a.DecodeXDR(&args)
	if args.Err() != nil {
		return -1, false
	}
	if above := s.table.Load().above(path.Clean(a.Path)); len(above) > 0 {
		return above[0].e.x.lane, false
	}
	return -1, false
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
