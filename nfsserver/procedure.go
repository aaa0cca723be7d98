// From a call on the wire to a handler and back: what all procedures on objects share.

package nfsserver

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A request is a call on an object while its handler runs. It is used again for another call
// once the results are encoded.
type request struct {
	object // of the handle that the arguments begin with
	srv    *Server
	call   *transport.Call
}

// who returns the user as whom the call acts. It may take a look-up of groups, so
// handlers that ask no permission do without.
func (q *request) who() Cred { return q.srv.who(q.call) }

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

// A frame is what one call of a procedure needs; frames are pooled, so that a call allocates nothing.
type frame[A, R any] struct {
	req  request
	args A
	res  R
}

// adapt makes of a handler what the dispatcher runs: the arguments are decoded and
// checked, the object is found, and the results are encoded with the status of the error.
// That the caller is believed has been checked before (authorize).
func adapt[A, R any, PA arguments[A], PR results[R]](s *Server, run handler[A, R]) func(*transport.Call) error {
	frames := sync.Pool{New: func() any { return new(frame[A, R]) }}
	return func(c *transport.Call) error {
		f := frames.Get().(*frame[A, R])
		defer func() {
			*f = frame[A, R]{} // keeps nothing of the call
			frames.Put(f)
		}()
		args, res := PA(&f.args), PR(&f.res)
		args.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		o, err := s.open(args.Object())
		if err == nil {
			f.req = request{object: o, srv: s, call: c}
			err = run(&f.req, &f.args, &f.res)
		}
		res.SetStatus(status(err))
		res.EncodeXDR(c.Res)
		return nil
	}
}
