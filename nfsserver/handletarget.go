// What other programs than NFS and MOUNT ask of the server: which file a handle names, and as whom
// a caller acts on it.

package nfsserver

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Target is the file of a call to a program beside NFS that takes its handles.
type Target struct {
	FS       FS
	Locks    Locker // of FS; nil: other programs cannot lock its files
	Ref      Ref
	Export   string // the name of its export
	ReadOnly bool   // the export is, for this caller
	Cred     Cred   // as whom the caller acts; GIDs may be part of the call
}

// OnTarget calls do with the file of a handle. The call has been authorized (Listen.Programs are).
// ErrStale: there is no such file, or the handle is none; ErrBusy: its export is not open yet, or
// it is not yet known whether the caller may use it; another error: it is not allowed to. do has
// not been called then.
func (s *Server) OnTarget(c *transport.Call, fh []byte, do func(Target)) error {
	h, err := nfs3.MakeFH(fh)
	if err != nil {
		return ErrStale
	}
	_, o, err := s.open(c, &h)
	switch status(err) {
	case nfs3.OK:
	case nfs3.ErrStale, nfs3.ErrBadHandle:
		return ErrStale
	default:
		return err
	}
	defer o.x.leave()
	do(Target{FS: o.x.fs, Locks: o.x.opt.locks, Ref: o.ref, Export: o.x.name, ReadOnly: o.may.readOnly, Cred: s.who(c, o.may)})
	return nil
}

// Lane returns the lane of the export that a handle names, which Programs with lanes return from
// Procedure.Lane, or -1. The handle need not be authentic: it decides only which calls this one
// waits beside.
func (s *Server) Lane(fh []byte) int {
	if len(fh) <= handleHeader {
		return -1
	}
	if e := s.table.Load().byID[binary.BigEndian.Uint32(fh[4:])]; e != nil {
		return e.x.lane
	}
	return -1
}

// EndGrace ends the time to reclaim locks in, for exports that are open (Locker.EndGrace). For one
// that is opened later the next call does.
func (s *Server) EndGrace() {
	for _, e := range s.table.Load().entries {
		if !e.x.enter() {
			continue
		}
		if e.x.ready.Load() && e.x.opt.locks != nil {
			e.x.opt.locks.EndGrace()
		}
		e.x.leave()
	}
}
