// The cutting of messages into segments, and their order.

package core

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestSegmentVectors: 2048 bytes at a MULPDU of 1500 become the segments of RFC 5041 §5.2. Only the
// offset and the L bit differ between the segments of a message.
func TestSegmentVectors(t *testing.T) {
	conformance.Proves(t, "R5041-033", "R5041-036", "R5041-041", "R5041-044", "R5041-048", "R5041-049", "R5041-054", "R5041-059",
		"R5041-060", "R5040-008", "R5040-026", "R5040-028", "R5040-030", "R5040-032", "R5040-049", "R5040-118", "R5040-132")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	s.cutAt(1500)
	data := noise(2048)
	mr, _ := s.pd.RegMR(data, rnic.RemoteRead)
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSendInvalidate, SGL: [][]byte{data}, Invalidate: 0x1a2b3c05},
		rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: 0x00ab1207, RemoteTO: 16384})
	s.wantSegment(untagged(0x01, 0x44, 0x1a2b3c05, 0, 1, 0, data[:1482]))
	s.wantSegment(untagged(0x41, 0x44, 0x1a2b3c05, 0, 1, 1482, data[1482:]))
	s.wantSegment(tagged(0x81, 0x40, 0x00ab1207, 16384, data[:1486]))
	s.wantSegment(tagged(0xc1, 0x40, 0x00ab1207, 17870, data[1486:]))
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(0x77, 1<<40, 2048, mr.STag(), mr.Base())))
	s.wantSegment(tagged(0x81, 0x42, 0x77, 1<<40, data[:1486]))
	s.wantSegment(tagged(0xc1, 0x42, 0x77, 1<<40+1486, data[1486:]))
}

// cutAt fixes a side's MULPDU.
func (s *side) cutAt(mulpdu int) {
	s.end.out.SetMSS(1500)
	s.end.out.mulpdu, s.end.out.untilMSS = mulpdu, 1<<30
}

// TestSegmentSizeFollows: the segment size follows TCP's.
func TestSegmentSizeFollows(t *testing.T) {
	conformance.Proves(t, "R5041-008", "R5041-054", "R5044-004", "R5044-073", "R5044-076")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.end.mss = 1200
	s.open()
	largest, data := 1<<16, noise(3000)
	for range 8 * mssEvery {
		if s.end.out.untilMSS <= 1 { // the look-up comes next
			s.end.mss = max(600, s.end.mss-100)
		}
		post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{data}})
		seen := 0
		for last := false; !last; {
			u := s.hearULPDU()
			seen, last = max(seen, len(u)), u[0]&0x40 != 0
		}
		s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
		if seen > largest {
			t.Fatalf("a segment of %d bytes behind one of %d", seen, largest)
		}
		largest = seen
	}
	if want := mpa.MULPDU(600, false); largest != want {
		t.Errorf("the segments have %d bytes, want %d", largest, want)
	}
}

// TestWireOrder: messages leave in posting order, each queue with its own numbers.
func TestWireOrder(t *testing.T) {
	conformance.Proves(t, "R5041-045", "R5041-046", "R5041-067", "R5041-068", "R5040-092", "R5040-102", "R5040-129", "R5040-160")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	s.cutAt(1500)
	sink, _ := s.pd.RegMR(make([]byte, 64), rnic.LocalWrite)
	data := noise(5000)
	var wrs []rnic.SendWR
	for i := range uint64(5) {
		wrs = append(wrs, rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: 5, RemoteTO: i << 32},
			rnic.SendWR{Op: rnic.OpRead, MR: sink, Offset: i, Length: 1, RemoteSTag: 6, RemoteTO: i},
			rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data}})
	}
	post(t, s.qp, wrs...)
	for i := range uint32(5) {
		for off := 0; off < len(data); off += 1486 {
			last := byte(0x81)
			if off+1486 >= len(data) {
				last = 0xc1
			}
			s.wantSegment(tagged(last, 0x40, 5, uint64(i)<<32+uint64(off), data[off:min(off+1486, len(data))]))
		}
		s.wantSegment(untagged(0x41, 0x41, 0, 1, i+1, 0, readReq(sink.STag(), sink.Base()+uint64(i), 1, 6, uint64(i))))
		for off := 0; off < len(data); off += 1482 {
			last := byte(0x01)
			if off+1482 >= len(data) {
				last = 0x41
			}
			s.wantSegment(untagged(last, 0x43, 0, 0, i+1, uint32(off), data[off:min(off+1482, len(data))]))
		}
	}
}

// TestMessagesDoNotMix: responses and our work alternate message by message, and responses keep the
// order of their requests.
func TestMessagesDoNotMix(t *testing.T) {
	conformance.Proves(t, "R5041-067", "R5040-049", "R5040-103", "R5040-113", "R5040-116", "R5040-118", "R5040-167", "R5040-172",
		"R5040-248")
	const each, n = 4, 3 << 20
	s := scriptInitiator(t, rnic.ConnParams{IRD: each})
	data := noise(n)
	mr, _ := s.pd.RegMR(data, rnic.RemoteRead)
	s.open()
	for i := range uint32(each) { // all of them at once: unread, so none can complete
		s.fpdu(untagged(0x41, 0x41, 0, 1, i+1, 0, readReq(rnic.STag(100+i), uint64(i)<<40, n, mr.STag(), mr.Base())))
	}
	for range each {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data}})
	}
	responses, sends := uint32(0), uint32(0)
	for responses < each || sends < each {
		off := 0
		for last, kind := false, byte(0); !last; {
			u := s.hearULPDU()
			if off > 0 && u[1] != kind {
				t.Fatalf("opcode %x within a message of %x", u[1], kind)
			}
			kind, last = u[1], u[0]&0x40 != 0
			payload := u[18:]
			if kind == 0x42 {
				payload = u[14:]
				if binary.BigEndian.Uint32(u[2:]) != 100+responses || binary.BigEndian.Uint64(u[6:]) != uint64(responses)<<40+uint64(off) {
					t.Fatalf("response %d at %d: %x", responses, off, u[:14])
				}
			}
			if !bytes.Equal(payload, data[off:off+len(payload)]) {
				t.Fatal("payload")
			}
			if off += len(payload); last && kind == 0x42 {
				responses++
			} else if last {
				sends++
			}
		}
		if off != n {
			t.Fatalf("a message of %d bytes", off)
		}
	}
}

// TestMessageLimits: 2^32 bytes are refused at posting.
func TestMessageLimits(t *testing.T) {
	conformance.Proves(t, "R5040-001", "R5041-055")
	s := scriptInitiator(t, rnic.ConnParams{})
	sgl := make([][]byte, 1<<12)
	part := make([]byte, 1<<20)
	for i := range sgl {
		sgl[i] = part
	}
	for _, op := range []rnic.Opcode{rnic.OpSend, rnic.OpSendSE, rnic.OpWrite} {
		if err := s.qp.PostSend(rnic.SendWR{Op: op, SGL: sgl}); err == nil {
			t.Errorf("opcode %d: %v", op, err)
		}
	}
	sgl[0] = part[1:] // one byte less is a message; it waits for the gate
	post(t, s.qp, rnic.SendWR{Op: rnic.OpWrite, SGL: sgl})
}

// TestLocalCompletion: a Send is complete when TCP has it, even if the peer has read nothing.
func TestLocalCompletion(t *testing.T) {
	conformance.Proves(t, "R5040-154", "R5041-073")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{[]byte("hello")}})
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
	s.hearULPDU()
}
