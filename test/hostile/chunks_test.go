// Chunk lists that lie: Positions, lengths and counts.

package hostile

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// write sends a WRITE of n bytes. list makes the Read list from the data's Position.
func (a *target) write(fh nfs3.FH, n int, list func(pos uint32) []chunks.ReadSegment) (xid uint32) {
	a.t.Helper()
	xid = peer.XID()
	stream, pos := peer.Reduced(xid, nfs3.ProcWrite, &nfs3.WriteArgs{FH: fh, Count: uint32(n), Data: make([]byte, n)})
	head := peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) { h.Read = list(pos) })
	a.Message(append(head, stream...))
	return xid
}

// one returns a Read chunk of one segment.
func one(pos, handle uint32, n int, off uint64) []chunks.ReadSegment {
	return []chunks.ReadSegment{{Position: pos, Segment: chunks.Segment{Handle: handle, Length: uint32(n), Offset: off}}}
}

// noRead wants no Reads from the server.
func (a *target) noRead(what string) {
	a.t.Helper()
	if len(a.Reads) > 0 {
		a.t.Errorf("%s: the server has read %d bytes", what, a.Reads[0].Size)
	}
}

// content wants the file to have this content, read inline.
func (a *target) content(what string, fh nfs3.FH, want []byte) {
	a.t.Helper()
	xid := peer.XID()
	a.Message(peer.Inline(xid, peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 3000})))
	r := a.WantAccept(what, xid, oncrpc.Success)
	var res nfs3.ReadRes
	res.DecodeXDR(r.D)
	if !bytes.Equal(res.Data, want) {
		a.t.Errorf("%s: the file has %x, want %x (%v)", what, res.Data, want, res.Status)
	}
}

// TestReadListPositionOffByOne: a Position that is not a multiple of four is refused (RFC 8166
// §3.4.5 [R8166-061]).
func TestReadListPositionOffByOne(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	off := a.memory(9, pattern(100))
	for _, d := range []int32{-3, -2, -1, 1, 2, 3} {
		xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one(uint32(int32(pos)+d), 9, 100, off) })
		a.WantErrChunk(fmt.Sprintf("Position off by %d", d), xid)
	}
	a.noRead("bad Position")
	a.content("bad Position", fh, nil)
	a.works()
}

// TestReadListPositionOfNoItem: a Position at a multiple of four, but without an item there, is
// refused (RFC 8166 §6.1 [R8166-189]).
func TestReadListPositionOfNoItem(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	off := a.memory(9, pattern(100))
	for _, d := range []int32{-60, -8, -4} {
		xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one(uint32(int32(pos)+d), 9, 100, off) })
		a.WantErrChunk(fmt.Sprintf("Position off by %d", d), xid)
	}
	// A call without any item.
	xid := peer.XID()
	stream := peer.NFS(xid, nfs3.ProcGetattr, &nfs3.GetattrArgs{FH: fh})
	a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) { h.Read = one(uint32(len(stream)), 9, 100, off) }), stream...))
	a.WantErrChunk("Read chunk of GETATTR", xid)
	a.content("Position of no item", fh, nil)
	a.works()
}

func TestReadListPositionBeyondMessage(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	off := a.memory(9, pattern(100))
	for _, d := range []uint32{4, 1000, 1 << 31, 1<<32 - 400} {
		xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one((pos+d)&^3, 9, 100, off) })
		a.WantErrChunk(fmt.Sprintf("Position %d beyond", d), xid)
	}
	a.noRead("Position beyond the message")
	a.content("Position beyond the message", fh, nil)
	a.works()
}

// TestSegmentLengthsOverflow: the lengths add up to 2^32 + 100, which is 100 in 32 bits (RFC 8166
// §3.4.4 [R8166-049]). The server refuses them before it reads anything.
func TestSegmentLengthsOverflow(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	off := a.memory(9, pattern(100))
	for _, first := range []uint32{1 << 31, 1<<32 - 1, 1<<32 - 50} {
		xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment {
			l := append(one(pos, 9, int(first), off), one(pos, 9, int(100-first), off)...)
			return l
		})
		a.WantErrChunk(fmt.Sprintf("%d + %d bytes", first, 100-first), xid)
	}
	a.noRead("lengths that overflow")
	// Such lengths in Write chunks are only an offer: the server uses as much as it needs.
	xid := peer.XID()
	a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
		h.AddWrite(chunks.Segment{Handle: 9, Length: 1<<32 - 1, Offset: off}, chunks.Segment{Handle: 9, Length: 1<<32 - 1, Offset: off})
	}), peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 100})...))
	a.WantStatus("READ with a Write chunk of 8 GiB", xid, nfs3.OK)
	a.works()
}

// TestZeroLengthSegments: segments of no bytes are legal in a Read chunk and hold nothing (RFC 8166
// §3.4.3 [R8166-046]).
func TestZeroLengthSegments(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	data := pattern(100)
	off := a.memory(9, data)
	xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment {
		l := append(one(pos, 0xbad, 0, 77), one(pos, 9, 60, off)...)
		return append(append(l, one(pos, 0xbad, 0, 1<<63)...), append(one(pos, 9, 40, off+60), one(pos, 0, 0, 0)...)...)
	})
	a.WantStatus("WRITE from 60 + 40 bytes and nothing", xid, nfs3.OK)
	a.content("zero-length segments", fh, data)
	xid = a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one(pos, 9, 0, off) })
	a.WantAccept("WRITE of 100 bytes from nothing", xid, oncrpc.GarbageArgs)
	for _, n := range []int{99, 101, 104} {
		a.Memory[9].B = make([]byte, 200)
		xid = a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one(pos, 9, n, off) })
		a.WantAccept(fmt.Sprintf("WRITE of 100 bytes from %d", n), xid, oncrpc.GarbageArgs)
	}
	a.content("chunks of other lengths than their items", fh, data)
	a.works()
}

// TestZeroSegmentChunks: the item for a Write chunk without segments stays inline. The reply has
// this chunk, and an empty Reply chunk, as in the call (RFC 8166 §3.4.6 [R8166-075]).
func TestZeroSegmentChunks(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	data := pattern(100)
	off := a.memory(9, data)
	a.WantStatus("WRITE", a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return one(pos, 9, 100, off) }), nfs3.OK)
	for _, reply := range []bool{false, true} {
		xid := peer.XID()
		lists := func(h *rpcrdma.Header) {
			h.AddWrite()
			if reply {
				h.SetReply()
			}
		}
		a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, lists), peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 100})...))
		r := a.WantAccept("READ with an empty Write chunk", xid, oncrpc.Success)
		var res nfs3.ReadRes
		res.DecodeXDR(r.D)
		if len(r.Write) != 1 || len(r.Write[0]) != 0 || r.HasReply != reply || len(r.Header.Reply) != 0 || !bytes.Equal(res.Data, data) {
			t.Errorf("returned %d Write chunks, Reply chunk %v, data %x", len(r.Write), r.HasReply, res.Data)
		}
	}
	a.works()
}

// TestOverlappingChunks: two segments of one Read chunk, or of one Write chunk, may cover the same
// bytes.
func TestOverlappingChunks(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	data := pattern(60)
	off := a.memory(9, data)
	xid := a.write(fh, 100, func(pos uint32) []chunks.ReadSegment { return append(one(pos, 9, 60, off), one(pos, 9, 40, off+10)...) })
	a.WantStatus("WRITE from overlapping segments", xid, nfs3.OK)
	want := append(bytes.Clone(data), data[10:50]...)
	a.content("overlapping segments", fh, want)

	sink := make([]byte, 60)
	off = a.memory(10, sink)
	xid = peer.XID()
	a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
		h.AddWrite(chunks.Segment{Handle: 10, Length: 60, Offset: off}, chunks.Segment{Handle: 10, Length: 60, Offset: off})
	}), peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 100})...))
	r := a.WantStatus("READ to overlapping segments", xid, nfs3.OK)
	if r.Write[0][0].Length != 60 || r.Write[0][1].Length != 40 || !bytes.Equal(sink[:40], want[60:]) || !bytes.Equal(sink[40:], want[40:60]) {
		t.Errorf("returned %v, sink %x", r.Write, sink)
	}
	a.works()
}

// TestSegmentCounts: a segment count larger than the bytes in the message is refused.
func TestSegmentCounts(t *testing.T) {
	a := attack(t)
	for _, n := range []uint32{2, 100, 513, 1 << 16, 1 << 28, 1 << 31, 1<<32 - 1} {
		seg := peer.Words(5, 100, 0, 0)
		xid := peer.XID()
		a.Message(append(append(peer.Words(xid, 1, 32, 0, 0, 1, n), seg...), peer.Words(0, 0)...))
		a.WantErrChunk(fmt.Sprintf("Write chunk of %d segments", n), xid)
		xid = peer.XID()
		a.Message(append(peer.Words(xid, 1, 32, 0, 0, 0, 1, n), seg...))
		a.WantErrChunk(fmt.Sprintf("Reply chunk of %d segments", n), xid)
	}
	// The Read list has no count: it just goes on.
	xid := peer.XID()
	a.Message(append(peer.Words(xid, 1, 32, 0), bytes.Repeat(peer.Words(1, 40, 5, 1, 0, 0), 160)...))
	a.WantErrChunk("endless Read list", xid)
	xid = peer.XID()
	a.Message(append(peer.Words(xid, 1, 32, 0, 0), bytes.Repeat(peer.Words(1, 0), 400)...))
	a.WantErrChunk("400 Write chunks", xid)
	a.Null("counts")
	a.works()
}

// TestChunksOfManySegments: a chunk may have as many segments as a header can hold, of one byte
// each, in both directions.
func TestChunksOfManySegments(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	const n = 150
	data := pattern(n)
	off := a.memory(9, data)
	xid := a.write(fh, n, func(pos uint32) (l []chunks.ReadSegment) {
		for i := range n {
			l = append(l, one(pos, 9, 1, off+uint64(i))...)
		}
		return l
	})
	a.WantStatus("WRITE from 150 segments", xid, nfs3.OK)
	a.content("150 segments", fh, data)
	sink := make([]byte, 230)
	off = a.memory(10, sink)
	xid = peer.XID()
	a.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
		var segs []chunks.Segment
		for i := range 230 {
			segs = append(segs, chunks.Segment{Handle: 10, Length: 1, Offset: off + uint64(i)})
		}
		h.AddWrite(segs...)
	}), peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: n})...))
	r := a.WantStatus("READ to 230 segments", xid, nfs3.OK)
	if got := chunks.Chunk(r.Write[0]).Len(); got != n || !bytes.Equal(sink[:n], data) || len(a.Writes) != n {
		t.Errorf("%d bytes returned, %d RDMA Writes", got, len(a.Writes))
	}
	a.works()
}
