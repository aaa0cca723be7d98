// Our output, byte by byte, to a peer that reads it by hand.

package core

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestSendBytes compares each kind of work request with the RFCs' layouts (RFC 5040 §4.1 [R5040-028
// R5040-029 R5040-030 R5040-031 R5040-032 R5040-033 R5040-034], RFC 5041 §4.2 [R5041-032], RFC 5041
// §4.3 [R5041-040], RFC 5041 §5.2 [R5041-063]).
func TestSendBytes(t *testing.T) {
	conformance.Proves(t, "R5040-003", "R5040-004", "R5040-005", "R5040-010", "R5040-024", "R5040-025", "R5040-026", "R5040-027",
		"R5040-028", "R5040-029", "R5040-030", "R5040-031", "R5040-032", "R5040-033", "R5040-034", "R5040-038", "R5040-040",
		"R5040-042", "R5040-044", "R5040-088", "R5040-093", "R5040-094", "R5040-097", "R5040-104", "R5040-114", "R5040-120",
		"R5040-121", "R5040-128", "R5040-129", "R5040-130", "R5040-160", "R5040-162", "R5040-166", "R5040-169", "R5040-170",
		"R5040-239", "R5040-240", "R5040-241", "R5041-005", "R5041-022", "R5041-028", "R5041-030", "R5041-032", "R5041-040",
		"R5041-045", "R5041-046", "R5041-049", "R5041-061", "R5041-063", "R5041-067")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	sink, _ := s.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
	post(t, s.qp,
		rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{[]byte("he"), []byte("llo")}, Invalidate: 9},
		rnic.SendWR{ID: 2, Op: rnic.OpSendInvalidate, SGL: [][]byte{[]byte("done")}, Invalidate: 0x1a2b3c05},
		rnic.SendWR{ID: 3, Op: rnic.OpSendSE},
		rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{[]byte("IJKLM")}, RemoteSTag: 0x00ab1207, RemoteTO: 0x00007f0000001008},
		rnic.SendWR{ID: 5, Op: rnic.OpWrite, RemoteSTag: 1},
		rnic.SendWR{ID: 6, Op: rnic.OpRead, MR: sink, Offset: 2, Length: 6, RemoteSTag: 0x00ef5602, RemoteTO: 0x20000},
		rnic.SendWR{ID: 7, Op: rnic.OpSendSEInvalidate, Invalidate: 5})
	s.wantBytes(must.Hex(t, "001741430000000000000000000000010000000068656c6c6f000000b990b10c"))
	s.wantBytes(must.Hex(t, "001641441a2b3c05000000000000000200000000646f6e6574fe729c"))
	s.wantBytes(must.Hex(t, "0012414500000000000000000000000300000000331b7c71"))
	s.wantBytes(must.Hex(t, "0013c14000ab120700007f0000001008494a4b4c4d000000f7d5a7c0"))
	s.wantBytes(must.Hex(t, "000ec140000000010000000000000000ebd34c5f"))
	req := untagged(0x41, 0x41, 0, 1, 1, 0, readReq(sink.STag(), sink.Base()+2, 6, 0x00ef5602, 0x20000))
	if got := s.hearULPDU(); !bytes.Equal(got, req) {
		t.Fatalf("got %x want %x", got, req)
	}
	if got := s.hearULPDU(); !bytes.Equal(got, untagged(0x41, 0x46, 5, 0, 4, 0, nil)) {
		t.Fatalf("got %x", got)
	}
	// Completions are in posting order: work after the Read waits for it, although it has left.
	for id, op := range []rnic.Opcode{rnic.OpSend, rnic.OpSendInvalidate, rnic.OpSendSE, rnic.OpWrite, rnic.OpWrite} {
		s.want(t, op, uint64(id+1), rnic.WCSuccess)
	}
	if n := s.cq.Poll(make([]rnic.WC, 1)); n != 0 {
		t.Fatal("a completion overtook the Read")
	}
	s.fpdu(tagged(0x81, 0x42, sink.STag(), sink.Base()+2, []byte("abcd")))
	s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base()+6, []byte("ef")))
	s.want(t, rnic.OpRead, 6, rnic.WCSuccess)
	s.want(t, rnic.OpSendSEInvalidate, 7, rnic.WCSuccess)
	if string(bufOf(sink)) != "\x00\x00abcdef" {
		t.Fatalf("%q", bufOf(sink))
	}
}

// TestSegments: a long message is cut at MULPDU into contiguous segments with the same MSN. Only
// the last one has the L bit (RFC 5041 §4.1 [R5041-022 R5041-023], RFC 5041 §4.3 [R5041-048], RFC
// 5041 §5.2 [R5041-054], RFC 5044 §4.5 [R5044-072]).
func TestSegments(t *testing.T) {
	conformance.Proves(t, "R5040-007", "R5041-022", "R5041-023", "R5041-024", "R5041-025", "R5041-048", "R5041-049", "R5041-050",
		"R5041-056", "R5041-058", "R5041-068", "R5041-149", "R5044-072")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	data := noise(200_000)
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data[:70_001], data[70_001:]}})
	var got []byte
	for last := false; !last; {
		u := s.hearULPDU()
		if len(u) > mpa.MaxULPDU {
			t.Fatalf("segment of %d bytes, want at most %d", len(u), mpa.MaxULPDU)
		}
		if msn, mo := binary.BigEndian.Uint32(u[10:]), binary.BigEndian.Uint32(u[14:]); msn != 1 || int(mo) != len(got) {
			t.Fatalf("MSN %d, MO %d, want 1, %d", msn, mo, len(got))
		}
		got = append(got, u[18:]...)
		last = u[0]&0x40 != 0
		if last != (len(got) >= len(data)) {
			t.Fatal("L is in the wrong place")
		}
	}
	if !bytes.Equal(got, data) {
		t.Fatal("payload")
	}
}

// TestManyPieces sends a gather list longer than one system call takes.
func TestManyPieces(t *testing.T) {
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 8)
	data := noise(300 * 2000)
	var sgl [][]byte
	for i := 0; i < len(data); i += 300 {
		sgl = append(sgl, data[i:i+300], nil)
	}
	mem := make([]byte, len(data))
	recv(t, b.qp, 1, mem)
	post(t, a.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: sgl})
	b.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
	if !bytes.Equal(mem, data) {
		t.Fatal("payload")
	}
}

// TestORD: no more Reads are on the wire than agreed; the rest of the queue waits, and then
// continues (RFC 5040 §6.1 [R5040-173 R5040-174]).
func TestORD(t *testing.T) {
	conformance.Proves(t, "R5040-173")
	s := scriptInitiator(t, rnic.ConnParams{ORD: 2})
	s.open()
	if s.qp.ORD() != 2 {
		t.Fatal("ORD", s.qp.ORD())
	}
	sink, _ := s.pd.RegMR(make([]byte, 1), rnic.LocalWrite)
	for id := range uint64(3) {
		post(t, s.qp, rnic.SendWR{ID: id, Op: rnic.OpRead, MR: sink, Length: 1, RemoteSTag: 1})
	}
	post(t, s.qp, rnic.SendWR{ID: 3, Op: rnic.OpSend}, rnic.SendWR{ID: 4, Op: rnic.OpSend, Fence: true})
	answer := func() { s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base(), []byte{1})) }
	wantOp := func(op byte) {
		t.Helper()
		if u := s.hearULPDU(); u[1] != op {
			t.Fatalf("got %x, want opcode byte %x", u, op)
		}
	}
	wantOp(0x41)
	wantOp(0x41)
	answer()
	wantOp(0x41) // the third, and the later Send
	wantOp(0x43)
	answer()
	answer() // the fence opens
	wantOp(0x43)
	for id := range uint64(3) {
		s.want(t, rnic.OpRead, id, rnic.WCSuccess)
	}
	s.want(t, rnic.OpSend, 3, rnic.WCSuccess)
	s.want(t, rnic.OpSend, 4, rnic.WCSuccess)
}

// TestIRDOverflow: one Read Request more than the IRD ends the stream (RFC 5040 §6.1 [R5040-175],
// RFC 5042 §6.4.3.3 [R5040-256]).
func TestIRDOverflow(t *testing.T) {
	conformance.Proves(t, "R5040-098", "R5040-175", "R5040-256")
	s := scriptInitiator(t, rnic.ConnParams{IRD: 2})
	big, _ := s.pd.RegMR(make([]byte, 32<<20), rnic.RemoteRead)
	s.open()
	s.end.room = 1000 // blocks the responses, with their slots taken
	for i := range uint32(3) {
		s.fpdu(untagged(0x41, 0x41, 0, 1, i+1, 0, readReq(1, 0, uint32(len(bufOf(big))), big.STag(), big.Base())))
	}
	if s.qp.Err() != error(errNoIRD) {
		t.Fatalf("Err: %v, want %v", s.qp.Err(), errNoIRD)
	}
	big.Invalidate() // must not wait for the peer
	s.c.Close()
}

// TestReadResponses: each Read needs its right; a Read of zero length may have any STag (RFC 5040
// §5.2.1 [R5040-109 R5040-103], RFC 5040 §4.4 [R5040-048]).
func TestReadResponses(t *testing.T) {
	conformance.Proves(t, "R5040-048", "R5040-050", "R5040-053", "R5040-099", "R5040-100", "R5040-103", "R5040-106", "R5040-109",
		"R5040-110", "R5040-111", "R5040-112", "R5040-116", "R5040-119", "R5040-167", "R5040-248", "R5041-053")
	s := scriptInitiator(t, rnic.ConnParams{})
	mr, _ := s.pd.RegMR([]byte("0123456789"), rnic.RemoteRead)
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(0x77, 1<<64-2, 4, mr.STag(), mr.Base()+3)))
	s.fpdu(untagged(0x41, 0x41, 0, 1, 2, 0, readReq(0xffffffff, 5, 0, 0xffffffff, 1<<64-1)))
	for _, want := range [][]byte{tagged(0xc1, 0x42, 0x77, 1<<64-2, []byte("3456")), tagged(0xc1, 0x42, 0xffffffff, 5, nil)} {
		if got := s.hearULPDU(); !bytes.Equal(got, want) {
			t.Fatalf("got %x want %x", got, want)
		}
	}
}

// TestRevokedMidResponse: a region invalidated while its bytes wait for a slow peer is released at
// once; the rest that is not yet cut into segments is refused, and the Terminate has the request
// for this rest (RFC 5040 §4.8 [R5040-085], RFC 5040 §8.1.1 [R5040-209]).
func TestRevokedMidResponse(t *testing.T) {
	conformance.Proves(t, "R5040-085", "R5040-209", "R5041-141")
	s := scriptInitiator(t, rnic.ConnParams{})
	mem := noise(32 << 20)
	data := bytes.Clone(mem)
	mr, _ := s.pd.RegMR(mem, rnic.RemoteRead)
	stag, base := mr.STag(), mr.Base()
	s.open()
	s.end.room = 300_000
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 100, uint32(len(mem)), stag, base)))
	got := 0
	first := s.hearULPDU()
	got += len(first) - 14
	mr.Invalidate()
	clear(mem) // ours again
	s.end.grant(1 << 40)
	for {
		u := s.hearULPDU()
		if u[1] == 0x47 {
			req := untagged(0x41, 0x41, 0, 1, 1, 0, nil)
			rest := readReq(9, 100+uint64(got), uint32(len(mem)-got), stag, base+uint64(got))
			want := terminate(0x01, 0, 0xe0, append(append([]byte{0, 46}, req...), rest...))
			if !bytes.Equal(u, want) {
				t.Fatalf("got  %x\nwant %x", u, want)
			}
			break
		}
		if !bytes.Equal(u[14:], data[got:got+len(u)-14]) {
			t.Fatalf("bytes from %d on are not those of the region", got)
		}
		got += len(u) - 14
	}
	s.wantEOF()
}

// TestLocalInvalidate: a local invalidation keeps its place in the queue, after earlier Reads.
func TestLocalInvalidate(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 4), rnic.LocalWrite)
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: mr, Length: 4},
		rnic.SendWR{ID: 2, Op: rnic.OpLocalInvalidate, MR: mr}, rnic.SendWR{ID: 3, Op: rnic.OpSend})
	s.hearULPDU()
	if !mr.Valid() {
		t.Fatal("invalidated too early")
	}
	s.fpdu(tagged(0xc1, 0x42, mr.STag(), mr.Base(), []byte("abcd")))
	s.hearULPDU()
	s.want(t, rnic.OpRead, 1, rnic.WCSuccess)
	s.want(t, rnic.OpLocalInvalidate, 2, rnic.WCSuccess)
	s.want(t, rnic.OpSend, 3, rnic.WCSuccess)
	if mr.Valid() {
		t.Fatal("still valid")
	}
}

// TestPostRefused: a wrong work request is refused at posting, and no request of the same call is
// queued.
func TestPostRefused(t *testing.T) {
	conformance.Proves(t, "R5040-015", "R5040-020", "R5040-204")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 4), rnic.RemoteRead)
	foreign, _ := s.dev.AllocPD().RegMR(make([]byte, 4), rnic.LocalWrite)
	for _, wr := range []rnic.SendWR{{Op: rnic.OpRecv}, {Op: rnic.OpSendInvalidate}, {Op: rnic.OpRead}, {Op: rnic.OpRead, MR: foreign},
		{Op: rnic.OpRead, MR: mr, Length: 4}, {Op: rnic.OpLocalInvalidate}, {Op: rnic.OpLocalInvalidate, MR: foreign}} {
		if err := s.qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpSend}, wr); err == nil {
			t.Errorf("%+v was taken", wr)
		}
	}
	if err := s.qp.PostSend(make([]rnic.SendWR, 17)...); err != rnic.ErrSQFull {
		t.Errorf("PostSend: %v, want %v", err, rnic.ErrSQFull)
	}
	if err := s.qp.PostRecv(make([]rnic.RecvWR, 17)...); err != rnic.ErrRQFull {
		t.Errorf("PostRecv: %v, want %v", err, rnic.ErrRQFull)
	}
	post(t, s.qp, rnic.SendWR{ID: 5, Op: rnic.OpSend})
	s.want(t, rnic.OpSend, 5, rnic.WCSuccess)
}

// TestSentIsForgotten: once all has left, the transmitter keeps no payload from the garbage
// collector.
func TestSentIsForgotten(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, 1000)}})
	s.hearULPDU()
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
	for _, p := range s.end.out.b.pieces[:cap(s.end.out.b.pieces)] {
		if p != nil {
			t.Fatal("a range is still there")
		}
	}
}

// TestMSNWraps: 0 follows 2^32-1, on both queues and in both directions (RFC 5041 §4.3
// [R5041-047]).
func TestMSNWraps(t *testing.T) {
	conformance.Proves(t, "R5041-047")
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 16)
	mr, _ := b.pd.RegMR([]byte("data"), rnic.RemoteRead)
	mem := make([]byte, 4)
	sink, _ := a.pd.RegMR(mem, rnic.LocalWrite)
	const last = 1<<32 - 2
	a.end.out.sendMSN, a.end.out.readMSN = last, last
	b.end.in.sendMSN, b.end.in.readMSN = last, last
	for id := range uint64(4) {
		recv(t, b.qp, id, nil)
		post(t, a.qp, rnic.SendWR{ID: id, Op: rnic.OpSend}, rnic.SendWR{ID: id, Op: rnic.OpRead, MR: sink, Length: 4, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.want(t, rnic.OpSend, id, rnic.WCSuccess)
		a.want(t, rnic.OpRead, id, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, id, rnic.WCSuccess)
	}
}
