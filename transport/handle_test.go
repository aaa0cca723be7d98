// Handle: arguments decoded, results encoded, nothing left for the next call.

package transport

import (
	"encoding/binary"
	"errors"
	"slices"
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
	c.res.Reset(make([]byte, 0, 64))
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

// A budgetCarrier gives buffers of a size from one block.
type budgetCarrier struct {
	carrier
	block []byte
	asked []int
}

func (b *budgetCarrier) buffer(_ *Call, n int) []byte {
	b.asked = append(b.asked, n)
	return b.block[:n:n]
}

// TestHandleEncodesWhereItFits: a large result ends in memory of the budget, and later ones begin
// there. After small ones the first space is enough.
func TestHandleEncodesWhereItFits(t *testing.T) {
	run := Handle(func(_ *Call, args *handleCount, res *repeated) error {
		*res = repeated(args.n)
		return nil
	})
	const first = 64
	call := func(n int) (asked []int, moved bool) {
		via := &budgetCarrier{block: make([]byte, 1000)}
		c := &Call{via: via}
		c.Args, c.Res = &c.args, &c.res
		space := make([]byte, 0, first)
		c.args.Reset(binary.BigEndian.AppendUint32(nil, uint32(n/4)), nil)
		c.res.Reset(space)
		if err := run(c); err != nil || c.res.Len() != n {
			t.Fatalf("a result of %d bytes: got %d, %v", n, c.res.Len(), err)
		}
		return via.asked, &c.res.Bytes()[0] == &via.block[0]
	}
	for _, want := range []struct {
		n     int
		asked []int
	}{
		{64, nil}, {400, []int{400}}, {400, []int{400}}, {80, []int{400}}, {400, []int{350, 400}}, {4, []int{400}},
	} {
		asked, moved := call(want.n)
		if !slices.Equal(asked, want.asked) || moved != (want.asked != nil) {
			t.Errorf("a result of %d bytes: asked for %v, moved: %v; want %v", want.n, asked, moved, want.asked)
		}
	}
	for range 20 {
		call(4)
	}
	if asked, _ := call(4); asked != nil {
		t.Errorf("a small result after small ones: asked for %v", asked)
	}
}
