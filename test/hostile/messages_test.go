// Messages that are no calls, or calls of another kind than they say.

package hostile

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// No call is shorter than 28 bytes: no answer, and the receive is posted again (RFC 8166 §4.5
// [R8166-146], RFC 8166 §3.3.1 [R8166-032]). 28 is a header with nothing after it.
func TestShortMessages(t *testing.T) {
	a := attack(t)
	for round := range 10 { // more than there are receives
		for n := range 29 {
			xid := peer.XID()
			a.Message(peer.Header(xid, rpcrdma.ProcMsg, nil)[:n])
			if n == 28 {
				a.WantErrChunk("header alone", xid)
			}
		}
		a.Null(fmt.Sprintf("round %d of short messages", round))
	}
	a.works()
}

// RFC 8166 §4.5.2 [R8166-158]: MSGP and unknown kinds are ERR_CHUNK; DONE and ERROR are not
// answered.
func TestUnknownKind(t *testing.T) {
	a := attack(t)
	for _, kind := range []uint32{2, 3, 4, 5, 6, 77, 1 << 31, 1<<32 - 1} {
		xid := peer.XID()
		msg := append(peer.Words(xid, 1, 32, kind, 0, 0, 0), peer.NFS(xid, 0, nil)...)
		a.Message(msg)
		if kind == 2 || kind > 4 {
			a.WantErrChunk(fmt.Sprintf("rdma_proc %d", kind), xid)
		}
		a.Null(fmt.Sprintf("rdma_proc %d", kind))
	}
	a.works()
}

// RFC 8166 §4.5 [R8166-147], RFC 8166 §4.5.1 [R8166-156].
func TestWrongVersion(t *testing.T) {
	a := attack(t)
	for _, vers := range []uint32{0, 2, 3, 1 << 24, 1<<32 - 1} {
		xid := peer.XID()
		a.Message(append(peer.Words(xid, vers, 32, 0, 0, 0, 0), peer.NFS(xid, 0, nil)...))
		a.WantErrVers(fmt.Sprintf("version %d", vers), xid, vers)
		a.Null(fmt.Sprintf("version %d", vers))
	}
	a.works()
}

// RFC 8166 §4.5.2 [R8166-160]: the XIDs in the header and the RPC message, inline and long.
func TestXIDMismatch(t *testing.T) {
	a := attack(t)
	xid := peer.XID()
	a.Message(peer.Inline(xid, peer.NFS(xid+1<<20, 0, nil)))
	a.WantErrChunk("another XID inline", xid)
	xid = peer.XID()
	long := peer.NFS(xid+1<<20, 0, nil)
	off := a.memory(9, long)
	a.Message(peer.Header(xid, rpcrdma.ProcNoMsg, func(h *rpcrdma.Header) { h.Read = one(0, 9, len(long), off) }))
	a.WantErrChunk("another XID in a long call", xid)
	a.Null("other XIDs")
	a.works()
}

// RFC 8166 §4.2.4 [R8166-110], RFC 8166 §4.5.2 [R8166-159], and a Position-zero chunk where the
// call is inline.
func TestKindAndPositionZero(t *testing.T) {
	a := attack(t)
	xid := peer.XID()
	long := peer.NFS(xid, 0, nil)
	off := a.memory(9, long)
	a.Message(peer.Header(xid, rpcrdma.ProcNoMsg, nil))
	a.WantErrChunk("RDMA_NOMSG with no message", xid)
	a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) { h.Read = one(0, 9, len(long), off) }), long...))
	a.WantErrChunk("RDMA_MSG with a Position-zero chunk", xid)
	a.Message(append(peer.Header(xid, rpcrdma.ProcNoMsg, func(h *rpcrdma.Header) { h.Read = one(0, 9, len(long), off) }), long...))
	a.WantErrChunk("RDMA_NOMSG with a message inline too", xid)
	a.noRead("kind and chunk at odds")
	a.Message(peer.Header(xid, rpcrdma.ProcNoMsg, func(h *rpcrdma.Header) { h.Read = one(0, 9, len(long), off) }))
	a.WantAccept("a long call as it should be", xid, oncrpc.Success)
	a.works()
}

// A reply that does not fit the call's offer is ERR_CHUNK, with no byte written (RFC 8166 §4.5.3
// [R8166-165]).
func TestReplyThatDoesNotFit(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	off := a.memory(9, pattern(6000))
	a.WantStatus("WRITE", a.write(fh, 6000, func(pos uint32) []chunks.ReadSegment { return one(pos, 9, 6000, off) }), nfs3.OK)
	for what, lists := range map[string]func(h *rpcrdma.Header){
		"no chunk":               nil,
		"Write chunk too short":  func(h *rpcrdma.Header) { h.AddWrite(chunks.Segment{Handle: 9, Length: 5999, Offset: off}) },
		"Reply chunk too short":  func(h *rpcrdma.Header) { h.SetReply(chunks.Segment{Handle: 9, Length: 6000, Offset: off}) },
		"Write chunk of nothing": func(h *rpcrdma.Header) { h.AddWrite() },
	} {
		xid := peer.XID()
		a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, lists), peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 6000})...))
		a.WantErrChunk(what, xid)
	}
	if len(a.Writes) > 0 {
		t.Errorf("%d RDMA Writes before the error", len(a.Writes))
	}
	a.works()
}

// A Send that is larger than the receive ends the stream (R5041 §7.1: too long); one that fills it
// does not.
func TestSendLargerThanReceive(t *testing.T) {
	for _, n := range []int{rpcrdma.DefaultInlineSize, rpcrdma.DefaultInlineSize + 1, 60000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a := attack(t)
			a.Null("before")
			// RDMA_DONE, which is not answered
			a.Message(append(peer.Words(1, 1, 0, 3), make([]byte, n-16)...))
			if n <= rpcrdma.DefaultInlineSize {
				a.Null("a full receive")
			} else {
				a.WantTerminate("Send", term.DDPTooLong)
			}
			a.works()
		})
	}
}

// Replies without a waiter, sent to a server, are dropped.
func TestReplyToServer(t *testing.T) {
	a := attack(t)
	for range 5 {
		for range peer.Grant {
			a.Message(peer.Success(peer.XID(), 1<<32-1))
		}
		a.Null("replies to a server")
	}
	a.works()
}

// A call's credits are only the client's wish: none and all are taken alike.
func TestCreditRequests(t *testing.T) {
	a := attack(t)
	for _, n := range []uint32{0, 1, 1<<32 - 1} {
		xid := peer.XID()
		a.Message(append(peer.Words(xid, 1, n, 0, 0, 0, 0), peer.NFS(xid, 0, nil)...))
		if r := a.WantAccept("NULL", xid, oncrpc.Success); r.Credits != peer.Grant {
			t.Errorf("asked for %d credits, granted %d", n, r.Credits)
		}
	}
	a.works()
}
