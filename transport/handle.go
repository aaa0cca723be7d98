// Handle: procedures from functions on arguments and results.

package transport

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Handle returns a Procedure.Run that decodes arguments, calls run, and encodes the result. Both
// are zero when run begins, and belong to run until it returns. Their memory is used again for
// other calls, so run MUST NOT keep a reference to it. Procedure.Run returns run's error.
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
		PR(&f.res).EncodeXDR(c.Res)
		return nil
	}
}
