// Handle: procedures from functions on arguments and results.

package transport

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Handle returns a Procedure.Run that decodes arguments, calls run, and encodes the result. Both
// are zero when run begins, and belong to run until it returns. Their memory is used again for
// other calls, so run MUST NOT keep a reference to it. Procedure.Run returns run's error.
//
// A result that does not fit into the reply's first space is in memory from the server's budget. If
// recent results were as long, it is encoded there at once.
func Handle[A, R any, PA interface {
	*A
	xdr.Unmarshaler
}, PR interface {
	*R
	xdr.Marshaler
}](run func(c *Call, args *A, res *R) error) func(*Call) error {
	type frame struct {
		args A
		res  R
	}
	frames := sync.Pool{New: func() any { return new(frame) }}
	var size resultSize
	return func(c *Call) error {
		f := frames.Get().(*frame)
		defer func() {
			*f = frame{} // drops all references to the call
			frames.Put(f)
		}()
		PA(&f.args).DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		if err := run(c, &f.args, &f.res); err != nil {
			return err
		}
		return size.encode(c, PR(&f.res))
	}
}

// A resultSize is the size of a procedure's recent results in bytes, 0 while they are small. After
// smaller ones it falls by an eighth with each.
type resultSize struct{ recent atomic.Int64 }

// encode appends a result to c's reply. ErrSystem: the budget is exhausted.
func (s *resultSize) encode(c *Call, res xdr.Marshaler) error {
	start, first := c.res.Len(), cap(c.res.Bytes())
	recent := s.recent.Load()
	if need := start + int(recent); recent > 0 && need > first {
		if b := c.via.buffer(c, need); b != nil {
			c.res.Move(b)
		}
	}
	room := cap(c.res.Bytes())
	res.EncodeXDR(&c.res)
	end := c.res.Len()
	n := max(int64(end-start), recent-recent/8)
	if start+int(n) <= first {
		n = 0
	}
	if n != recent {
		s.recent.Store(n)
	}
	if end <= room {
		return nil
	}
	b := c.Buffer(end) // instead of the heap, where the encoder has gone on
	if b == nil {
		return ErrSystem
	}
	c.res.Move(b)
	return nil
}
