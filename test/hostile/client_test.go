// Attacks by a hostile server on our client.

package hostile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A prey is a requester of ours, connected to a scripted server.
type prey struct {
	*peer.Peer
	t     *testing.T
	c     *rpcrdma.Conn
	l     *peer.Listener
	calls chan error // the results of its calls
}

func hunt(t *testing.T, credits int) *prey {
	t.Helper()
	rig.NoLeaks(t)
	h := &prey{t: t, l: peer.Listen(t), calls: make(chan error, 1000)}
	got := make(chan error, 1)
	go func() {
		c, err := rpcrdma.Dial(bg, iwarp.Open(rnic.DeviceConfig{}), h.l.Addr(), rpcrdma.Config{Credits: credits})
		h.c = c
		got <- err
	}()
	h.Peer = h.l.Accept()
	if err := <-got; err != nil {
		t.Fatalf("got: %v", err)
	}
	t.Cleanup(func() { h.c.Close() })
	return h
}

// callTime limits a call. It is long, because each of many concurrent calls waits for those before
// it.
const callTime = 10 * time.Minute

// call starts a NULL call, and sends its error to calls.
func (h *prey) call() {
	xid := peer.XID()
	go func() {
		ctx, cancel := context.WithTimeout(bg, callTime)
		defer cancel()
		h.calls <- h.do(ctx, xid)
	}()
}

func (h *prey) do(ctx context.Context, xid uint32) error {
	k := h.c.NewCall()
	defer k.Release()
	k.Msg, k.MaxReply = chunks.Message{Stream: peer.NFS(xid, nfs3.ProcNull, nil)}, oncrpc.ReplySize
	return h.c.Do(ctx, k)
}

// wantCall waits for a call, and wants it to succeed.
func (h *prey) wantCall(what string) {
	h.t.Helper()
	if err := <-h.calls; err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
}

// TestCreditGrants: a grant of 0 counts as 1. A grant of 2^32-1 counts as the number requested by
// the client, which has no more receives (RFC 8166 §3.3.1 [R8166-025]).
func TestCreditGrants(t *testing.T) {
	conformance.Proves(t, "R8166-021", "R8166-025")
	const own = 4
	h := hunt(t, own)
	for range 40 {
		h.call()
	}
	for range 10 { // one at a time
		xid := h.NextCall()
		h.Message(peer.Success(xid, 0))
		h.wantCall("grant of 0")
	}
	xid := h.NextCall()
	h.Message(peer.Success(xid, 1<<32-1))
	h.wantCall("grant of 2^32-1")
	var held []uint32
	for range own {
		held = append(held, h.NextCall())
	}
	h.C.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if msg, err := h.Next(); err == nil {
		t.Fatalf("a call beyond the %d credits: %x", own, msg)
	}
	h.C.SetReadDeadline(time.Now().Add(callTime))
	for n := 11; n < 40; n++ {
		if len(held) == 0 {
			held = append(held, h.NextCall())
		}
		h.Message(peer.Success(held[0], 1<<32-1))
		held = held[1:]
		h.wantCall("grant of 2^32-1")
	}
}

// malformed returns invalid replies to the call xid.
func malformed(xid uint32) [][]byte {
	good := peer.Success(xid, 4)
	return [][]byte{
		good[:0], good[:3], good[:16], good[:27], // short
		peer.Words(xid, 2, 4, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0),          // version
		peer.Words(xid, 1, 4, 2, 0, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0),    // MSGP
		peer.Words(xid, 1, 4, 9, 0, 0, 0, xid, 1, 0, 0, 0, 0),          // unknown kind
		peer.Words(xid, 1, 4, 0, 7, 0, 0, xid, 1, 0, 0, 0, 0),          // list word
		peer.Words(xid, 1, 4, 0, 0, 1, 1<<31, 0, xid, 1, 0, 0, 0, 0),   // count
		peer.Words(xid, 1, 4, 0, 1, 0, 5, 5, 0, 0, 0, 0, 0, xid, 1, 0), // Read list in a reply
		peer.Words(xid, 1, 4, 0, 0, 1, 1, 5, 5, 0, 0, 0, 0, xid, 1, 0), // unoffered Write chunk
		peer.Words(xid, 1, 4, 1, 0, 0, 0),                              // NOMSG without a Reply chunk
		peer.Words(xid, 1, 4, 4, 3),                                    // RDMA_ERROR of no meaning
		peer.Words(xid, 1, 4, 4, 1),                                    // ERR_VERS cut short
	}
}

// TestMalformedReplyThenTheNext: malformed replies are dropped, in all many more than there are
// receives. A valid reply is still received, so each receive is posted again (RFC 8166 §4.5
// [R8166-149], RFC 8166 §3.3.1 [R8166-032]).
func TestMalformedReplyThenTheNext(t *testing.T) {
	conformance.Proves(t, "R8166-032", "R8166-149")
	h := hunt(t, 4)
	// beside the valid reply; a server with more replies than calls has no right to receives
	const burst = 5
	for round := range 60 {
		h.call()
		xid := h.NextCall()
		bad := malformed(xid)
		for i := range burst {
			h.Message(bad[(round*burst+i)%len(bad)])
		}
		h.Message(peer.Success(xid, 4))
		h.wantCall(fmt.Sprintf("round %d", round))
	}
}

// TestUnknownAndRepeatedReplies: replies with an unknown XID, and repeated replies, are dropped
// (RFC 8166 §4.2.4 [R8166-113]).
func TestUnknownAndRepeatedReplies(t *testing.T) {
	h := hunt(t, 4)
	for range 50 {
		h.call()
		xid := h.NextCall()
		h.Message(peer.Success(xid^0x55aa, 4))
		h.Message(peer.Success(xid, 4))
		h.Message(peer.Success(xid, 4))
		h.wantCall("reply between strangers")
	}
}

// TestErrorReplies: RDMA_ERROR ends the call with its XID, which is not sent again.
func TestErrorReplies(t *testing.T) {
	conformance.Proves(t, "R8166-154", "R8267-015")
	h := hunt(t, 4)
	h.call()
	h.Message(peer.Words(h.NextCall(), 1, 4, 4, 2))
	if err := <-h.calls; !errors.Is(err, rpcrdma.ErrChunk) {
		t.Error(err)
	}
	h.call()
	h.Message(peer.Words(h.NextCall(), 1, 4, 4, 1, 2, 9))
	if err := <-h.calls; !errors.Is(err, rpcrdma.ErrVersion) {
		t.Error(err)
	}
	h.call()
	h.Message(peer.Success(h.NextCall(), 4))
	h.wantCall("after errors")
}

// TestInlineReplyTooLarge: a reply larger than the receive ends the stream with DDP's code. The
// call's error has this code.
func TestInlineReplyTooLarge(t *testing.T) {
	h := hunt(t, 4)
	h.call()
	xid := h.NextCall()
	h.Message(append(peer.Success(xid, 4), make([]byte, rpcrdma.DefaultInlineSize+1)...))
	err := <-h.calls
	var e *term.Error
	if !errors.Is(err, rpcrdma.ErrClosed) || !errors.As(err, &e) || e.Code != term.DDPTooLong {
		t.Error(err)
	}
	h.WantTerminate("reply larger than the receive", term.DDPTooLong)
}

// TestWriteAfterTheCall: the client offers an STag to one call only. A Write to it after the call's
// end is refused.
func TestWriteAfterTheCall(t *testing.T) {
	h := hunt(t, 4)
	h.call()
	h.Message(peer.Success(h.NextCall(), 4))
	h.wantCall("before")
	xid := peer.XID()
	sink := make([]byte, 5000)
	go func() {
		k := h.c.NewCall()
		defer k.Release()
		k.Msg, k.Sink, k.MaxReply = chunks.Message{Stream: peer.NFS(xid, nfs3.ProcRead, nil)}, sink, 200
		h.calls <- h.c.Do(bg, k)
	}()
	msg, err := h.Next()
	var hdr rpcrdma.Header
	if err != nil || hdr.Parse(msg) != nil || len(hdr.Write) != 1 {
		t.Fatalf("%x, %v", msg, err)
	}
	seg := hdr.Write[0][0]
	chunk := ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpWrite), STag: seg.Handle, TO: seg.Offset}
	h.Segment(chunk, pattern(5000))
	rep := rpcrdma.Header{XID: xid, Version: 1, Credits: 4}
	rep.AddWrite(hdr.Write[0]...)
	body := append(peer.Words(xid, 1, 0, 0, 0, 0, 0, 0, 5000, 1), peer.Words(5000)...)
	h.Message(append(rep.Append(nil), body...))
	if err := <-h.calls; err != nil {
		t.Fatalf("calls: %v", err)
	}
	if want := pattern(5000); string(sink) != string(want) {
		t.Error("the data is not in its place")
	}
	clear(sink)
	h.Segment(chunk, pattern(10))
	h.WantTerminate("Write after the call", term.DDPInvalidSTag)
	for _, b := range sink {
		if b != 0 {
			t.Fatal("bytes came after the call had ended")
		}
	}
}
