// Large results without items: they count in the memory budget.

package transport

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const roomProg = 0x20000f11

// roomProgram returns a program with half a megabyte of results, made piece by piece while there is
// room.
func roomProgram() *Program {
	return &Program{Name: "room", Number: roomProg, Version: 1, Procs: []Procedure{{Name: "LIST", Idempotent: true,
		Run: func(c *Call) error {
			piece := bytes.Repeat([]byte{7}, 8<<10)
			start := c.Res.Len()
			for c.Res.Len() < start+512<<10 {
				if !c.Room(len(piece)) {
					return ErrSystem
				}
				if cap(c.Res.Bytes())-c.Res.Len() < len(piece) {
					return errors.New("no room was made")
				}
				c.Res.Fixed(piece)
			}
			return nil
		}}}}
}

// roomByHandle returns a program with a result of the same size, made from one value.
func roomByHandle() *Program {
	return &Program{Name: "room", Number: roomProg, Version: 1, Procs: []Procedure{{Name: "LIST", Idempotent: true,
		Run: Handle(func(_ *Call, _ *xdr.Void, res *repeated) error {
			*res = 512 << 10 / 4
			return nil
		})}}}
}

// listing is a whole result.
type listing struct{ b []byte }

func (l *listing) DecodeXDR(d *xdr.Decoder) { l.b = bytes.Clone(d.Rest()) }

func TestResultsCountInBudget(t *testing.T) {
	for _, program := range []*Program{roomProgram(), roomByHandle()} {
		testResultsCountInBudget(t, program)
	}
}

func testResultsCountInBudget(t *testing.T, program *Program) {
	overEach(t, func(t *testing.T, n network) {
		for _, memory := range []int64{64 << 20, 256 << 10} {
			s := NewServer(ServerConfig{MaxRecord: 64 << 10, Budget: mem.NewBudget(memory)}, program)
			addr, done, err := n.serve(s, "127.0.0.1:0")
			if err != nil {
				t.Fatalf("serve: %v", err)
			}
			c := n.client(t, addr, ClientConfig{MaxRetries: -1})
			var got listing
			p := &Proc{Prog: roomProg, Vers: 1, Name: "LIST", MaxReply: 512 << 10}
			ctx, cancel := context.WithCancel(bg)
			err = c.Call(ctx, p, nil, &got, nil, 0)
			cancel()
			if enough := memory > 1<<20; enough && (err != nil || len(got.b) != 512<<10) {
				t.Errorf("%d bytes, %v", len(got.b), err)
			} else if !enough && !errors.Is(err, ErrSystem) {
				t.Errorf("with no memory: %d bytes, %v", len(got.b), err)
			}
			s.Shutdown(bg)
			<-done
			if used := s.budgetUsed(); used != 0 {
				t.Errorf("%d bytes are still held", used)
			}
		}
	})
}
