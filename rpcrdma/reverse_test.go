// Calls in the reverse direction, byte by byte (RFC 8167).

package rpcrdma

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A peer's call may have the XID of one of ours: each reply ends the call in its own direction, and
// only a reply moves the window.
func TestSameXIDBothWays(t *testing.T) { overProviders(t, testSameXIDBothWays) }

func testSameXIDBothWays(t *bed) {
	conformance.Proves(t, "R8166-001", "R8167-001", "R8167-002", "R8167-003", "R8167-005", "R8167-012", "R8167-013")
	p, c := rawResponder(t, Config{Credits: grant, Handler: &echoServer{}}, r1)
	d := start(t.Context(), c, nullCall(c, 7))
	p.wantCall(7)
	p.send(words(7, 1, 100, 0, 0, 0, 0, 7, 0, procNull))
	p.want("the reply to the reverse call", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0))
	waits := start(t.Context(), c, nullCall(c, 8))
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 }) // the 100 were asked for, not granted
	p.send(nullReply(7, 2))
	p.wantCall(8)
	p.send(nullReply(8, 2))
	for _, do := range []*pendingDo{d, waits} {
		if err := <-do.done; err != nil {
			t.Errorf("Do: %v", err)
		}
		do.k.Release()
	}
}

// Where calls go both ways, an RDMA_ERROR's credits belong to no direction.
func TestCreditsOfErrorsBothWays(t *testing.T) { overProviders(t, testCreditsOfErrorsBothWays) }

func testCreditsOfErrorsBothWays(t *bed) {
	conformance.Proves(t, "R8167-006")
	p, c := rawResponder(t, Config{Credits: 4, Handler: &echoServer{}}, r1)
	if err := answered(t, p, c, 1, 3); err != nil {
		t.Fatalf("answered: %v", err)
	}
	d := start(t.Context(), c, nullCall(c, 2))
	p.wantCall(2)
	p.send(words(2, 1, 1, 4, 2))
	<-d.done
	d.k.Release()
	for i, want := range []uint32{3, 4, 5} { // the window is still three
		d := start(t.Context(), c, nullCall(c, want))
		p.wantCall(want)
		if n := c.outstanding(); n != i+1 {
			t.Fatalf("%d calls are out", n)
		}
		defer func() { p.qp.Close(); <-d.done; d.k.Release() }()
	}
}

// A reverse call has the header of any call, and keeps to the forward reply's threshold.
func TestReverseCall(t *testing.T) { overProviders(t, testReverseCall) }

func testReverseCall(t *bed) {
	conformance.Proves(t, "R8167-007", "R8167-010", "R8167-011", "R8797-017")
	small := AppendPrivateData(nil, PrivateData{SendSize: 4096, RecvSize: 1024})
	p, c := rawRequester(t, serverConfig(&echoServer{}), small)
	p.null("first") // a responder MUST NOT send before
	for _, n := range []int{900, 1000} {
		k := c.NewCall()
		e := xdr.NewEncoder(k.Scratch())
		e.Raw(words(7, 0, procLong))
		e.Opaque(make([]byte, n))
		setMsg(k, e)
		k.MaxReply = 20
		d := start(t.Context(), c, k)
		msg := p.wantCall(7)
		var h Header
		if err := h.Parse(msg); err != nil || len(msg) > 1024 {
			t.Errorf("%d bytes: a message of %d, %v", n, len(msg), err)
		}
		if h.Version != 1 || h.Credits != grant {
			t.Errorf("%d bytes: version %d, credits %d, want 1, %d", n, h.Version, h.Credits, grant)
		}
		if n == 900 && !bytes.HasPrefix(msg[h.Len:], words(7, 0)) {
			t.Errorf("%d bytes: %v %x, want the call inline", n, h.Proc, msg)
		}
		if n == 1000 && h.Proc != ProcNoMsg {
			t.Errorf("%d bytes: %v, want %v", n, h.Proc, ProcNoMsg)
		}
		p.send(words(binary.BigEndian.Uint32(msg), 1, 1, 0, 0, 0, 0, 7, 1, 0))
		if err := <-d.done; err != nil {
			t.Errorf("Do: %v", err)
		}
		k.Release()
	}
}

// TestLongReverseCallOfPendingXID: an RDMA_NOMSG with a Read list is a call, even if our call with
// its XID is pending, because a reply has no Read list.
func TestLongReverseCallOfPendingXID(t *testing.T) { overProviders(t, testLongReverseCallOfPendingXID) }

func testLongReverseCallOfPendingXID(t *bed) {
	p, c := rawResponder(t, Config{Credits: grant, Handler: &echoServer{}}, r1)
	d := start(t.Context(), c, nullCall(c, 7))
	p.wantCall(7)
	call := words(7, 0, procNull)
	mr := p.expose(call, rnic.RemoteRead)
	p.send(words(7, 1, grant, 1, 1, 0, part(mr, 0, len(call)), 0, 0, 0))
	p.want("the reply to the reverse call", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0))
	select {
	case err := <-d.done:
		t.Fatalf("the pending call ended by the call of the peer: %v", err)
	default:
	}
	p.send(nullReply(7, 2))
	if err := <-d.done; err != nil {
		t.Errorf("Do: %v", err)
	}
	d.k.Release()
}
