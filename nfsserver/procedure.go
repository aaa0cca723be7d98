// From a call on the wire to a handler and back: what all procedures on objects share.

package nfsserver

import (
	"errors"

	"sync"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A request is a call on an object while its handler runs. It is used again for another call
// once the results are encoded.
type request struct {
	object // of the handle that the arguments begin with
	entry  *entry
	srv    *Server
	call   *transport.Call

	id   CallID // of a change where the FS is told of calls; else zero
	told bool

	acted    bool // who was asked for, and has the user uid and group gid
	uid, gid uint32
}

// who returns the user as whom the call acts. It may take a look-up of groups, so
// handlers that ask no permission do without.
func (q *request) who() Cred {
	w := q.srv.who(q.call, q.may)
	q.acted, q.uid, q.gid = true, w.UID, w.GID
	if q.told {
		w.Call = &q.id
	}
	return w
}

// A handler does the work of one procedure, from its arguments to its results. It fills in
// those parts of res that stand in the arm of its error too; the status is set by the adapter.
type handler[A, R any] func(q *request, a *A, res *R) error

// arguments is what a pointer to the arguments of a procedure can do.
type arguments[A any] interface {
	*A
	DecodeXDR(d *xdr.Decoder)
	Object() *nfs3.FH
}

// results is what a pointer to the results of a procedure can do.
type results[R any] interface {
	*R
	SetStatus(s nfs3.Status)
	EncodeXDR(e *xdr.Encoder)
}

// A frame is what one call of a procedure needs; frames are pooled, so that a call allocates
// nothing.
type frame[A, R any] struct {
	req  request
	args A
	res  R
}

// adapt makes of a handler what the dispatcher runs: the arguments are decoded and
// checked, the object is found, and the results are encoded with the status of the error.
// That the caller is believed has been checked before (authorize).
func adapt[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R]) func(*transport.Call) error {
	return adaptChange[A, R, PA, PR](s, run, nil)
}

// adaptChange is adapt of a procedure that changes names or attributes, of whose calls describe
// tells the Auditor.
func adaptChange[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R], describe func(*Change, *A, *R)) func(*transport.Call) error {
	frames := sync.Pool{New: func() any { return new(frame[A, R]) }}
	return func(c *transport.Call) error {
		f := frames.Get().(*frame[A, R])
		defer func() {
			*f = frame[A, R]{} // keeps nothing of the call
			frames.Put(f)
		}()
		args, res := PA(&f.args), PR(&f.res)
		unread := *c.Args
		args.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		e, o, err := s.open(c, args.Object())
		if err == nil {
			defer o.x.leave() // even if run panics
			f.req = request{object: o, entry: e, srv: s, call: c}
			if o.x.info.RecordsCalls && describe != nil {
				f.req.told = true
				f.req.id.identify(c, &unread)
			}
			err = run(&f.req, &f.args, &f.res)
		}
		if errors.Is(err, transport.ErrWouldWait) {
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
