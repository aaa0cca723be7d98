// Calls given up while the responder still works on them.

package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// giveUpOn starts a call, receives it at the peer, and gives it up.
func giveUpOn(t testing.TB, p *rawPeer, c *Conn, k *Call, xid uint32) (h Header) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := start(ctx, c, k)
	if err := h.Parse(p.wantCall(xid)); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	cancel()
	if err := <-d.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Do: %v, want %v", err, context.Canceled)
	}
	k.Release()
	return h
}

// stillServes makes a call that must be answered.
func stillServes(t testing.TB, p *rawPeer, c *Conn, xid uint32) {
	t.Helper()
	k := nullCall(c, xid)
	d := start(t.Context(), c, k)
	p.wantCall(xid)
	p.send(nullReply(xid, grant))
	if err := <-d.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	k.Release()
}

// No byte lands in the sink once Do has returned; a late Write by the peer does no harm, and the
// connection continues to serve other calls (RFC 8166 §8.1.4 [R8166-206]).
func TestRequesterCancelFences(t *testing.T) { overProviders(t, testRequesterCancelFences) }

func testRequesterCancelFences(t *bed) {
	conformance.Proves(t, "R8166-142", "R8166-143", "R8166-203", "R8166-206")
	p, c := rawResponder(t, Config{Credits: grant}, r1)
	stillServes(t, p, c, 6) // opens the window
	k := c.NewCall()
	sink := make([]byte, 5000)
	k.Msg = chunks.Message{Stream: words(7, 0, procRead, 5000)}
	k.Sink, k.MaxReply = sink, 20
	h := giveUpOn(t, p, c, k, 7)
	if len(h.Write) != 1 {
		t.Fatalf("%+v", h)
	}
	s := h.Write[0][0]
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{readItem(7, 5000)}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	stillServes(t, p, c, 8) // after the Write
	p.send(words(7, 1, grant, 0, 0, 1, 1, s.Handle, 5000, uint32(s.Offset>>32), uint32(s.Offset), 0, 0, 7, 1, 0, 5000))
	stillServes(t, p, c, 9)
	if !bytes.Equal(sink, make([]byte, 5000)) {
		t.Error("a byte landed after Do had returned")
	}
	checkReleased(t, c)
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{{1}}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	<-c.Done() // after the late reply the STag is stale
}

// A late Read by the peer returns the bytes at the time of the call, even if the caller has changed
// its memory since (RFC 8166 §4.4.1 [R8166-143]).
func TestRequesterCancelKeepsArguments(t *testing.T) {
	overProviders(t, testRequesterCancelKeepsArguments)
}

func testRequesterCancelKeepsArguments(t *bed) {
	conformance.Proves(t, "R8166-143")
	p, c := rawResponder(t, Config{Credits: grant}, r1)
	stillServes(t, p, c, 6) // opens the window
	data := readItem(3, 9000)
	k := c.NewCall()
	e := xdr.NewEncoder(k.Scratch())
	e.Raw(words(7, 0, procWrite))
	e.Item(data)
	setMsg(k, e)
	k.MaxReply = 20
	h := giveUpOn(t, p, c, k, 7)
	if len(h.Read) != 1 {
		t.Fatalf("%+v", h)
	}
	clear(data)
	seg, got := h.Read[0], make([]byte, 9000)
	mr := p.expose(got, rnic.LocalWrite)
	if err := p.qp.PostSend(
		rnic.SendWR{Op: rnic.OpRead, MR: mr, Length: 9000, RemoteSTag: rnic.STag(seg.Handle), RemoteTO: seg.Offset},
		rnic.SendWR{Op: rnic.OpSend, Fence: true, SGL: [][]byte{nullReply(7, grant)}},
	); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	stillServes(t, p, c, 8) // its reply left after the fence
	mr.Invalidate()
	if !bytes.Equal(got, readItem(3, 9000)) {
		t.Error("the peer read something else")
	}
	checkReleased(t, c)
}
