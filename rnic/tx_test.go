// What we say, octet by octet, to a peer that reads it by hand.

package rnic

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestSendOctets has each kind of work request against the octets of the RFCs' layouts
// (R5040-028..034, R5041-032, R5041-040, R5041-063).
func TestSendOctets(t *testing.T) {
	conformance.Proves(t, "R5040-003", "R5040-004", "R5040-005", "R5040-010", "R5040-024", "R5040-025", "R5040-026", "R5040-027",
		"R5040-028", "R5040-029", "R5040-030", "R5040-031", "R5040-032", "R5040-033", "R5040-034", "R5040-038", "R5040-040",
		"R5040-042", "R5040-044", "R5040-088", "R5040-093", "R5040-094", "R5040-097", "R5040-104", "R5040-114", "R5040-120",
		"R5040-121", "R5040-128", "R5040-129", "R5040-130", "R5040-160", "R5040-162", "R5040-166", "R5040-169", "R5040-170",
		"R5040-239", "R5040-240", "R5040-241", "R5041-005", "R5041-022", "R5041-028", "R5041-030", "R5041-032", "R5041-040",
		"R5041-045", "R5041-046", "R5041-049", "R5041-061", "R5041-063", "R5041-067")
	s := scriptInitiator(t, ConnParams{})
	s.open()
	sink, _ := s.pd.RegMR(make([]byte, 8), LocalWrite)
	post(t, s.qp,
		SendWR{ID: 1, Op: OpSend, SGL: [][]byte{[]byte("he"), []byte("llo")}, Invalidate: 9},
		SendWR{ID: 2, Op: OpSendInvalidate, SGL: [][]byte{[]byte("done")}, Invalidate: 0x1a2b3c05},
		SendWR{ID: 3, Op: OpSendSE},
		SendWR{ID: 4, Op: OpWrite, SGL: [][]byte{[]byte("IJKLM")}, RemoteSTag: 0x00ab1207, RemoteTO: 0x00007f0000001008},
		SendWR{ID: 5, Op: OpWrite, RemoteSTag: 1},
		SendWR{ID: 6, Op: OpRead, MR: sink, Offset: 2, Length: 6, RemoteSTag: 0x00ef5602, RemoteTO: 0x20000},
		SendWR{ID: 7, Op: OpSendSEInvalidate, Invalidate: 5})
	s.wantOctets(unhex(t, "001741430000000000000000000000010000000068656c6c6f000000b990b10c"))
	s.wantOctets(unhex(t, "001641441a2b3c05000000000000000200000000646f6e6574fe729c"))
	s.wantOctets(unhex(t, "0012414500000000000000000000000300000000331b7c71"))
	s.wantOctets(unhex(t, "0013c14000ab120700007f0000001008494a4b4c4d000000f7d5a7c0"))
	s.wantOctets(unhex(t, "000ec140000000010000000000000000ebd34c5f"))
	req := untagged(0x41, 0x41, 0, 1, 1, 0, readReq(sink.STag(), sink.Base()+2, 6, 0x00ef5602, 0x20000))
	if got := s.hearULPDU(); !bytes.Equal(got, req) {
		t.Fatalf("got %x want %x", got, req)
	}
	if got := s.hearULPDU(); !bytes.Equal(got, untagged(0x41, 0x46, 5, 0, 4, 0, nil)) {
		t.Fatalf("got %x", got)
	}
	// Completions are in posting order: what is behind the Read waits for it, though it has left.
	for id, op := range []Opcode{OpSend, OpSendInvalidate, OpSendSE, OpWrite, OpWrite} {
		s.want(t, op, uint64(id+1), WCSuccess)
	}
	if n := s.cq.Poll(make([]WC, 1)); n != 0 {
		t.Fatal("a completion overtook the Read")
	}
	s.fpdu(tagged(0x81, 0x42, sink.STag(), sink.Base()+2, []byte("abcd")))
	s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base()+6, []byte("ef")))
	s.want(t, OpRead, 6, WCSuccess)
	s.want(t, OpSendSEInvalidate, 7, WCSuccess)
	if string(sink.buf) != "\x00\x00abcdef" {
		t.Fatalf("%q", sink.buf)
	}
}

// TestSegments: a long message is cut at MULPDU, contiguous, L on the last only, MSN
// constant (R5041-022, R5041-023, R5041-048, R5041-054, R5044-072).
func TestSegments(t *testing.T) {
	conformance.Proves(t, "R5040-007", "R5041-022", "R5041-023", "R5041-024", "R5041-025", "R5041-048", "R5041-049", "R5041-050",
		"R5041-056", "R5041-058", "R5041-068", "R5041-149", "R5044-072")
	s := scriptInitiator(t, ConnParams{})
	s.open()
	data := noise(200_000)
	post(t, s.qp, SendWR{Op: OpSend, SGL: [][]byte{data[:70_001], data[70_001:]}})
	var got []byte
	for last := false; !last; {
		u := s.hearULPDU()
		if len(u) > mpa.MaxULPDU || binary.BigEndian.Uint32(u[10:]) != 1 || int(binary.BigEndian.Uint32(u[14:])) != len(got) {
			t.Fatalf("segment of %d octets, header %x, after %d octets", len(u), u[:18], len(got))
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

// TestManyPieces: a gather list longer than one system call takes.
func TestManyPieces(t *testing.T) {
	a, b := joined(t, DeviceConfig{}, DeviceConfig{}, 8)
	data := noise(300 * 2000)
	var sgl [][]byte
	for i := 0; i < len(data); i += 300 {
		sgl = append(sgl, data[i:i+300], nil)
	}
	mem := make([]byte, len(data))
	recv(t, b.qp, 1, mem)
	post(t, a.qp, SendWR{ID: 2, Op: OpSend, SGL: sgl})
	b.want(t, OpRecv, 1, WCSuccess)
	if !bytes.Equal(mem, data) {
		t.Fatal("payload")
	}
}

// TestGate: a responder sends nothing before the first FPDU (RFC 5044 §7.1.2 rule 4, R5044-122).
func TestGate(t *testing.T) {
	conformance.Proves(t, "R5044-133")
	s := scriptInitiator(t, ConnParams{})
	post(t, s.qp, SendWR{ID: 1, Op: OpSend})
	s.c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := s.c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatal("spoke before the first FPDU")
	}
	s.c.SetReadDeadline(time.Now().Add(time.Minute))
	s.open()
	s.hearULPDU()
	s.want(t, OpSend, 1, WCSuccess)
}

// TestORD: no more Reads are on the wire than was agreed; the rest of the queue
// waits behind, and goes on (R5040-173, R5040-174).
func TestORD(t *testing.T) {
	conformance.Proves(t, "R5040-173")
	s := scriptInitiator(t, ConnParams{ORD: 2})
	s.open()
	if s.qp.ORD() != 2 {
		t.Fatal("ORD", s.qp.ORD())
	}
	sink, _ := s.pd.RegMR(make([]byte, 1), LocalWrite)
	for id := range uint64(3) {
		post(t, s.qp, SendWR{ID: id, Op: OpRead, MR: sink, Length: 1, RemoteSTag: 1})
	}
	post(t, s.qp, SendWR{ID: 3, Op: OpSend}, SendWR{ID: 4, Op: OpSend, Fence: true})
	answer := func() { s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base(), []byte{1})) }
	wantOp := func(op byte) {
		t.Helper()
		if u := s.hearULPDU(); u[1] != op {
			t.Fatalf("got %x, want opcode octet %x", u, op)
		}
	}
	wantOp(0x41)
	wantOp(0x41)
	answer()
	wantOp(0x41) // the third, and the Send that waited behind it
	wantOp(0x43)
	answer()
	answer() // the fence opens
	wantOp(0x43)
	for id := range uint64(3) {
		s.want(t, OpRead, id, WCSuccess)
	}
	s.want(t, OpSend, 3, WCSuccess)
	s.want(t, OpSend, 4, WCSuccess)
}

// TestIRDOverflow: one Read Request more than the IRD ends the stream (R5040-175, R5040-256).
func TestIRDOverflow(t *testing.T) {
	conformance.Proves(t, "R5040-098", "R5040-175", "R5040-256")
	s := scriptInitiator(t, ConnParams{IRD: 2})
	big, _ := s.pd.RegMR(make([]byte, 32<<20), RemoteRead)
	s.open()
	// We do not read, so the responses are stuck and their slots taken.
	for i := range uint32(3) {
		s.fpdu(untagged(0x41, 0x41, 0, 1, i+1, 0, readReq(1, 0, uint32(len(big.buf)), big.STag(), big.Base())))
	}
	<-s.qp.Done()
	if s.qp.Err() != error(errNoIRD) {
		t.Fatal(s.qp.Err())
	}
	big.Invalidate() // must not wait for the peer
	s.c.Close()
}

// TestReadResponses: each in its own right, zero length with any STag (R5040-109, R5040-048, R5040-103).
func TestReadResponses(t *testing.T) {
	conformance.Proves(t, "R5040-048", "R5040-050", "R5040-053", "R5040-099", "R5040-100", "R5040-103", "R5040-106", "R5040-109",
		"R5040-110", "R5040-111", "R5040-112", "R5040-116", "R5040-119", "R5040-167", "R5040-248", "R5041-053")
	s := scriptInitiator(t, ConnParams{})
	mr, _ := s.pd.RegMR([]byte("0123456789"), RemoteRead)
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(0x77, 1<<64-2, 4, mr.STag(), mr.Base()+3)))
	s.fpdu(untagged(0x41, 0x41, 0, 1, 2, 0, readReq(0xffffffff, 5, 0, 0xffffffff, 1<<64-1)))
	for _, want := range [][]byte{tagged(0xc1, 0x42, 0x77, 1<<64-2, []byte("3456")), tagged(0xc1, 0x42, 0xffffffff, 5, nil)} {
		if got := s.hearULPDU(); !bytes.Equal(got, want) {
			t.Fatalf("got %x want %x", got, want)
		}
	}
}

// TestRevokedMidResponse: a region that is invalidated while its octets wait for a
// slow peer is let go at once; what was not cut yet is refused with the request
// moved on (R5040-085, R5040-209).
func TestRevokedMidResponse(t *testing.T) {
	conformance.Proves(t, "R5040-085", "R5040-209", "R5041-141")
	s := scriptInitiator(t, ConnParams{})
	mem := noise(32 << 20)
	data := bytes.Clone(mem)
	mr, _ := s.pd.RegMR(mem, RemoteRead)
	stag, base := mr.STag(), mr.Base()
	s.open()
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 100, uint32(len(mem)), stag, base)))
	got := 0
	first := s.hearULPDU()
	got += len(first) - 14
	mr.Invalidate()
	clear(mem) // ours again
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
			t.Fatalf("octets from %d on are not those of the region", got)
		}
		got += len(u) - 14
	}
	s.wantEOF()
}

// TestLocalInvalidate: it takes its turn in the queue, behind the Reads before it.
func TestLocalInvalidate(t *testing.T) {
	s := scriptInitiator(t, ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 4), LocalWrite)
	post(t, s.qp, SendWR{ID: 1, Op: OpRead, MR: mr, Length: 4},
		SendWR{ID: 2, Op: OpLocalInvalidate, MR: mr}, SendWR{ID: 3, Op: OpSend})
	s.hearULPDU()
	if !mr.Valid() {
		t.Fatal("invalidated too early")
	}
	s.fpdu(tagged(0xc1, 0x42, mr.STag(), mr.Base(), []byte("abcd")))
	s.hearULPDU()
	s.want(t, OpRead, 1, WCSuccess)
	s.want(t, OpLocalInvalidate, 2, WCSuccess)
	s.want(t, OpSend, 3, WCSuccess)
	if mr.Valid() {
		t.Fatal("still valid")
	}
}

// TestPostRefused: what is wrong with a work request is said when it is posted,
// and none of its call is queued.
func TestPostRefused(t *testing.T) {
	conformance.Proves(t, "R5040-015", "R5040-020", "R5040-204")
	s := scriptInitiator(t, ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 4), RemoteRead)
	foreign, _ := s.dev.AllocPD().RegMR(make([]byte, 4), LocalWrite)
	for _, wr := range []SendWR{{Op: OpRecv}, {Op: OpSendInvalidate}, {Op: OpRead}, {Op: OpRead, MR: foreign},
		{Op: OpRead, MR: mr, Length: 4}, {Op: OpLocalInvalidate}, {Op: OpLocalInvalidate, MR: foreign}} {
		if err := s.qp.PostSend(SendWR{ID: 1, Op: OpSend}, wr); err == nil {
			t.Errorf("%+v was taken", wr)
		}
	}
	if err := s.qp.PostSend(make([]SendWR, 17)...); err != ErrSQFull {
		t.Error(err)
	}
	if err := s.qp.PostRecv(make([]RecvWR, 17)...); err != ErrRQFull {
		t.Error(err)
	}
	post(t, s.qp, SendWR{ID: 5, Op: OpSend})
	s.want(t, OpSend, 5, WCSuccess)
}

// TestSentIsForgotten: when all has left, nothing of the transmitter keeps payload from
// being collected.
func TestSentIsForgotten(t *testing.T) {
	s := scriptInitiator(t, ConnParams{})
	s.open()
	post(t, s.qp, SendWR{ID: 1, Op: OpSend, SGL: [][]byte{make([]byte, 1000)}})
	s.hearULPDU()
	s.want(t, OpSend, 1, WCSuccess)
	s.qp.tx.mu.Lock()
	defer s.qp.tx.mu.Unlock()
	for _, v := range s.qp.tx.b.iov[:cap(s.qp.tx.b.iov)] {
		if v.Base != nil {
			t.Fatal("a range is still there")
		}
	}
}

// TestMSNWraps: after 2^32-1 comes 0, on both queues and in both directions (R5041-047).
func TestMSNWraps(t *testing.T) {
	conformance.Proves(t, "R5041-047")
	a, b := joined(t, DeviceConfig{}, DeviceConfig{}, 16)
	mr, _ := b.pd.RegMR([]byte("data"), RemoteRead)
	mem := make([]byte, 4)
	sink, _ := a.pd.RegMR(mem, LocalWrite)
	set := func(mu sync.Locker, msn ...*uint32) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range msn {
			*p = 1<<32 - 2
		}
	}
	set(&a.qp.tx.mu, &a.qp.tx.sendMSN, &a.qp.tx.readMSN)
	set(&b.qp.rx.mu, &b.qp.rx.sendMSN, &b.qp.rx.readMSN)
	for id := range uint64(4) {
		recv(t, b.qp, id, nil)
		post(t, a.qp, SendWR{ID: id, Op: OpSend}, SendWR{ID: id, Op: OpRead, MR: sink, Length: 4, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.want(t, OpSend, id, WCSuccess)
		a.want(t, OpRead, id, WCSuccess)
		b.want(t, OpRecv, id, WCSuccess)
	}
}

// TestQueuesWrap: the rings' counters pass 2^32 with work in them.
func TestQueuesWrap(t *testing.T) {
	a, b := newSide(t, DeviceConfig{}, 4), newSide(t, DeviceConfig{}, 4)
	for _, s := range []*side{a, b} {
		const at = 1<<32 - 3
		sq, rq := &s.qp.sq, &s.qp.rq
		sq.head, sq.next, sq.tail = at, at, at
		sq.readHead, sq.readTail = at, at
		sq.irqHead, sq.irqBuilt, sq.irqNext, sq.irqTail = at, at, at, at
		rq.head, rq.tail = at, at
	}
	join(t, a, b)
	transfers(t, a, b)
	transfers(t, b, a)
}
