// Speed of a call, and the absence of allocations in steady state.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A leanServer is an echoServer that keeps its Decoder and Encoder, to avoid allocations.
type leanServer struct {
	d xdr.Decoder
	e xdr.Encoder
}

func (s *leanServer) ServeRPC(r *Request) (leads bool) {
	s.d.Reset(r.Msg.Stream, r.Msg.Items)
	xid, _, proc := s.d.Uint32(), s.d.Uint32(), s.d.Uint32()
	s.e.Reset(r.Scratch())
	s.e.Uint32(xid)
	s.e.Uint32(1)
	s.e.Uint32(0)
	switch proc {
	case procRead:
		n := int(s.d.Uint32())
		s.e.Uint32(uint32(n))
		s.e.Item(r.Buffer(n))
	case procWrite:
		s.e.Uint32(0)
		s.e.Uint32(uint32(len(s.d.Item(1 << 24))))
	}
	_ = r.Reply(chunks.Message{Stream: s.e.Bytes(), Items: s.e.Items()})
	return true
}

// A caller repeats one kind of call without allocations of its own.
type caller struct {
	c    *Conn
	e    xdr.Encoder
	xid  uint32
	data []byte
}

func (a *caller) call(proc uint32) error {
	k := a.c.NewCall()
	a.xid++
	a.e.Reset(k.Scratch())
	a.e.Uint32(a.xid)
	a.e.Uint32(0)
	a.e.Uint32(proc)
	k.MaxReply = 20
	switch proc {
	case procRead:
		a.e.Uint32(uint32(len(a.data)))
		k.Sink = a.data
	case procWrite:
		a.e.Item(a.data)
	}
	k.Msg = chunks.Message{Stream: a.e.Bytes(), Items: a.e.Items()}
	err := a.c.Do(context.Background(), k)
	if err == nil && binary.BigEndian.Uint32(k.Reply.Stream[8:]) != 0 {
		err = ErrBadReply
	}
	k.Release()
	return err
}

func benchmark(b *testing.B, proc uint32, n int) {
	c, _ := pair(b, Config{}, Config{Handler: &leanServer{}})
	a := &caller{c: c, data: make([]byte, n)}
	for range 50 {
		if err := a.call(proc); err != nil {
			b.Fatalf("call: %v", err)
		}
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		if err := a.call(proc); err != nil {
			b.Fatalf("call: %v", err)
		}
	}
}

func BenchmarkNull(b *testing.B)       { benchmark(b, procNull, 0) }
func BenchmarkRead1M(b *testing.B)     { benchmark(b, procRead, 1<<20) }
func BenchmarkRead512(b *testing.B)    { benchmark(b, procRead, 512) }
func BenchmarkWrite1M(b *testing.B)    { benchmark(b, procWrite, 1<<20) }
func BenchmarkWrite8K(b *testing.B)    { benchmark(b, procWrite, 8<<10) }
func BenchmarkWrite512(b *testing.B)   { benchmark(b, procWrite, 512) }
func BenchmarkReadInto8K(b *testing.B) { benchmark(b, procRead, 8<<10) }

// A call, a READ and a WRITE allocate nothing on either end.
func TestNoAllocation(t *testing.T) { overProviders(t, testNoAllocation) }

func testNoAllocation(t *bed) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	c, _ := pair(t, Config{}, Config{Handler: &leanServer{}})
	for _, n := range []int{0, 1 << 10, 8 << 10, 1 << 20} {
		a := &caller{c: c, xid: uint32(n), data: make([]byte, n)}
		for _, proc := range []uint32{procNull, procRead, procWrite} {
			call := func() {
				if err := a.call(proc); err != nil {
					t.Fatalf("call: %v", err)
				}
			}
			for range 20 {
				call()
			}
			// Allocations of the call itself occur in each round. Those that refill pools after a
			// garbage collection occur rarely.
			got := testing.AllocsPerRun(200, call)
			for tries := 0; got != 0 && tries < 20; tries++ {
				got = min(got, testing.AllocsPerRun(200, call))
			}
			if got != 0 {
				t.Errorf("procedure %d with %d bytes: %v allocations", proc, n, got)
			}
		}
	}
}
