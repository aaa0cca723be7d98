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

// TestShortMessages: no call is shorter than 28 bytes. A shorter message gets no answer, and its
// receive is posted again (RFC 8166 §4.5 [R8166-146], RFC 8166 §3.3.1 [R8166-032]). 28 bytes are a
// header with nothing after it.
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

// TestUnknownKind: MSGP and unknown kinds get ERR_CHUNK. DONE and ERROR get no answer (RFC 8166
// §4.5.2 [R8166-158]).
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

// TestWrongVersion: another version gets ERR_VERS (RFC 8166 §4.5 [R8166-147], RFC 8166 §4.5.1
// [R8166-156]).
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

// TestXIDMismatch: different XIDs in the header and the RPC message get ERR_CHUNK, inline and in a
// long call (RFC 8166 §4.5.2 [R8166-160]).
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

// TestKindAndPositionZero: RDMA_NOMSG needs a Position-zero chunk and no inline message. RDMA_MSG
// must have no such chunk (RFC 8166 §4.2.4 [R8166-110], RFC 8166 §4.5.2 [R8166-159]).
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

// TestReplyThatDoesNotFit: a reply that does not fit the call's offer is ERR_CHUNK, with no byte
// written (RFC 8166 §4.5.3 [R8166-165]).
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

// TestSendLargerThanReceive: a Send larger than the receive ends the stream (R5041 §7.1: too long).
// A Send that fills the receive does not.
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

// TestReplyToServer: a server drops replies, because it has made no call.
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

// TestCreditRequests: a call's credits are only a request. The grant is the same for 0, 1 and
// 2^32-1.
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
