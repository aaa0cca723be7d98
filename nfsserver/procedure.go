// The path from a call to a handler and back, common to all procedures on objects: the call's lane,
// and whether the call may wait.

package nfsserver

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A request is a call on an object while the call's handler runs. The memory is reused for another
// call once the results are encoded.
type request struct {
	object // from the handle at the start of the arguments
	entry  *entry
	srv    *Server
	call   *transport.Call

	id         CallID // for a change, if the FS records calls; else zero
	identified bool

	acted    bool // the effective user is known, and has this uid and gid
	uid, gid uint32
}

// who returns the call's effective user. It may look up groups, so handlers that need no permission
// do not call it.
func (q *request) who() Cred {
	w := q.srv.who(q.call, q.may)
	q.acted, q.uid, q.gid = true, w.UID, w.GID
	if q.identified {
		w.Call = &q.id
	}
	return w
}

// A handler does the work of one procedure, from arguments to results. After an error it also fills
// in the fields of res sent with an error; the adapter sets the status.
type handler[A, R any] func(q *request, a *A, res *R) error

// arguments is the interface of pointers to a procedure's arguments.
type arguments[A any] interface {
	*A
	DecodeXDR(d *xdr.Decoder)
	Object() *nfs3.FH
}

// results is the interface of pointers to a procedure's results.
type results[R any] interface {
	*R
	SetStatus(s nfs3.Status)
	EncodeXDR(e *xdr.Encoder)
}

// A frame holds one call's state. Frames are pooled, so a call allocates nothing.
type frame[A, R any] struct {
	req  request
	args A
	res  R
}

// adapt returns a handler's function for the dispatcher. It decodes and checks the arguments, finds
// the object, and encodes the results with the error's status. authorize has already checked the
// caller's credential.
func adapt[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R]) func(*transport.Call) error {
	return adaptOpened[A, R, PA, PR](s, s.open, run, nil)
}

// adaptAtMount is adapt for a procedure that a client calls before it has chosen its flavor.
func adaptAtMount[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R]) func(*transport.Call) error {
	return adaptOpened[A, R, PA, PR](s, s.openAtMount, run, nil)
}

// adaptChange is adapt for a procedure that changes names or attributes. It reports each call to
// the Auditor, with the arguments added by describe.
func adaptChange[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R], describe func(*Change, *A, *R)) func(*transport.Call) error {
	return adaptOpened[A, R, PA, PR](s, s.open, run, describe)
}

// adaptOpened is adapt for objects found by open.
func adaptOpened[A, R any, PA arguments[A], PR results[R]](s *Server, open opener, run handler[A, R], describe func(*Change, *A, *R)) func(*transport.Call) error {
	frames := sync.Pool{New: func() any { return new(frame[A, R]) }}
	return func(c *transport.Call) error {
		f := frames.Get().(*frame[A, R])
		defer func() {
			*f = frame[A, R]{} // drops all references to the call
			frames.Put(f)
		}()
		args, res := PA(&f.args), PR(&f.res)
		unread := *c.Args
		args.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		e, o, err := open(c, args.Object())
		if err == nil {
			defer o.x.leave() // even after a panic in run
			f.req = request{object: o, entry: e, srv: s, call: c}
			if o.x.info.RecordsCalls && describe != nil {
				f.req.identified = true
				f.req.id.identify(c, &unread)
			}
			err = run(&f.req, &f.args, &f.res)
		}
		if errors.Is(err, transport.ErrShed) {
			return err
		}
		st := status(err)
		res.SetStatus(st)
		if s.audit != nil && describe != nil {
			audited(&f.req, s, c, args.Object(), st, describe, &f.args, &f.res)
		}
		res.EncodeXDR(c.Res)
		return nil
	}
}

// The longest READ and WRITE, in bytes, for which other calls of the connection wait.
const (
	quickRead  = 16 << 10
	quickWrite = 16 << 10
)

// laneByHandle returns the lane for an NFS call. Each export is one of the transport's lanes: calls
// blocked on its disk use no more than the lane's share of the workers. All procedures' arguments
// begin with a handle, and a procedure uses only the export in that handle. The handle has not been
// authenticated yet. A call with a forged handle may wait in an export's lane, but the sender
// learns nothing.
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
