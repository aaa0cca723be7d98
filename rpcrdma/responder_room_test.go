// A call's resources before its reply: it holds no memory for the reply.

package rpcrdma

import (
	"sync/atomic"
	"testing"
)

// A roomServer is a leanServer that counts calls holding reply memory before they request it.
type roomServer struct {
	leanServer
	calls, early atomic.Int32
}

func (s *roomServer) ServeRPC(r *Request) (leads bool) {
	s.calls.Add(1)
	if r.scratch != nil {
		s.early.Add(1)
	}
	return s.leanServer.ServeRPC(r)
}

// TestRoomForRepliesIsTakenLate: a call that waits, for its Read chunks or a worker, holds no
// memory for a reply. This holds for a new Request and for a reused one.
func TestRoomForRepliesIsTakenLate(t *testing.T) { overProviders(t, testRoomForRepliesIsTakenLate) }

func testRoomForRepliesIsTakenLate(t *bed) {
	s := &roomServer{}
	c, _ := pair(t, Config{}, Config{Handler: s})
	a := &caller{c: c, xid: 1, data: make([]byte, 70_000)}
	for range 3 {
		for _, proc := range []uint32{procNull, procWrite} { // procWrite by a Read chunk
			if err := a.call(proc); err != nil {
				t.Fatalf("call: %v", err)
			}
		}
	}
	if calls, early := s.calls.Load(), s.early.Load(); calls != 6 || early != 0 {
		t.Errorf("%d of %d calls held room for their reply when they were served", early, calls)
	}
}
