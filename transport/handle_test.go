// Handle: arguments decoded, results encoded, nothing left for the next call.

package transport

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type handleArgs struct{ data []byte }

func (a *handleArgs) DecodeXDR(d *xdr.Decoder) { a.data = d.Opaque(8) }

type handleRes struct{ n, old uint32 }

func (r *handleRes) EncodeXDR(e *xdr.Encoder) { e.Uint32(r.n); e.Uint32(r.old) }

// handle calls run with the bytes of arguments, and returns those of the result.
func handle(run func(*Call) error, args ...byte) ([]byte, error) {
	c := new(Call)
	c.Args, c.Res = &c.args, &c.res
	c.args.Reset(args, nil)
	err := run(c)
	return c.res.Bytes(), err
}

func TestHandle(t *testing.T) {
	failure := errors.New("no")
	run := Handle(func(c *Call, args *handleArgs, res *handleRes) error {
		res.old, res.n = res.n, uint32(len(args.data))
		if len(args.data) == 2 {
			return failure
		}
		return nil
	})
	for range 3 {
		if got, err := handle(run, 0, 0, 0, 1, 9, 0, 0, 0); err != nil || string(got) != "\x00\x00\x00\x01\x00\x00\x00\x00" {
			t.Errorf("a call: got %x, %v, want 0000000100000000: the result begins as zero", got, err)
		}
		if got, err := handle(run, 0, 0, 0, 2, 9, 9, 0, 0); err != failure || len(got) > 0 {
			t.Errorf("a call that fails: got %x, %v, want no result, %v", got, err, failure)
		}
		if got, err := handle(run, 0, 0, 0, 9, 9); err != ErrGarbageArgs || len(got) > 0 {
			t.Errorf("invalid arguments: got %x, %v, want no result, %v", got, err, ErrGarbageArgs)
		}
	}
}

// TestHandleAllocatesNothing: a call takes its memory from a pool.
func TestHandleAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	run := Handle(func(c *Call, args *handleArgs, res *handleRes) error { return nil })
	c := new(Call)
	c.Args, c.Res = &c.args, &c.res
	buf, in := make([]byte, 0, 64), []byte{0, 0, 0, 0}
	if n := testing.AllocsPerRun(100, func() {
		c.args.Reset(in, nil)
		c.res.Reset(buf)
		_ = run(c)
	}); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
