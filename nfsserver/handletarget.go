// Access for programs besides NFS and MOUNT: the file of a handle, and the caller's effective user.

package nfsserver

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Target is the file named by a handle, in a call to another program that uses NFS handles.
type Target struct {
	FS       FS
	Locks    Locker // of FS; nil: other programs cannot lock the FS's files
	Ref      Ref
	Export   string // the file's export, by name
	Tree     uint64 // with Export.Trees: the number of the file's tree
	ReadOnly bool   // for this caller
	Cred     Cred   // effective user; GIDs may alias the call
}

// OnTarget calls do with a handle's file. The call has been authorized (as Listen.Programs are),
// but need not meet the rule's demands on flavor and connection (security.go).
// ErrStale: no such file exists, or fh is no handle. ErrBusy: the file's export is not open yet, or
// the caller's rights are not known yet. Another error: access is denied. After an error do has not
// been called.
func (s *Server) OnTarget(c *transport.Call, fh []byte, do func(Target)) error {
	h, err := nfs3.MakeFH(fh)
	if err != nil {
		return ErrStale
	}
	_, o, err := s.openAny(c, &h)
	switch status(err) {
	case nfs3.OK:
	case nfs3.ErrStale, nfs3.ErrBadHandle:
		return ErrStale
	default:
		return err
	}
	defer o.x.leave()
	do(Target{FS: o.x.fs, Locks: o.x.locker(), Ref: o.ref, Export: o.x.name, Tree: o.x.number, ReadOnly: o.may.readOnly, Cred: s.who(c, o.may)})
	return nil
}

// Lane returns a handle's export lane, or -1, for other programs' Procedure.Lane. The handle need
// not be authentic, because the lane decides only which calls queue together.
func (s *Server) Lane(fh []byte) int {
	if len(fh) <= handleHeader {
		return -1
	}
	if e := s.table.Load().byID[binary.BigEndian.Uint32(fh[4:])]; e != nil {
		return e.x.lane
	}
	return -1
}

// EndGrace ends the time to reclaim locks, for open exports (Locker.EndGrace). For exports opened
// later, call EndGrace again.
func (s *Server) EndGrace() {
	for _, e := range s.table.Load().entries {
		if !e.x.enter() {
			continue
		}
		if e.x.trees != nil {
			e.x.trees.each(func(x *export) { x.endGrace() })
		}
		e.x.endGrace()
		e.x.leave()
	}
}

// endGrace ends the time to reclaim locks in an open export.
func (x *export) endGrace() {
	if x.ready.Load() && x.opt.locks != nil {
		x.opt.locks.EndGrace()
	}
}
