// Immediate Data and atomic operations (RFC 7306), byte by byte and between two ends.

package core

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

var extended = rnic.DeviceConfig{Extensions: true}

// bytes8 returns v in wire form.
func bytes8(vs ...uint64) (b []byte) {
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// atomicReq returns the payload of an Atomic Request.
func atomicReq(op, id uint32, stag rnic.STag, to, data, mask, compare, compareMask uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, op)
	b = binary.BigEndian.AppendUint32(b, id)
	b = binary.BigEndian.AppendUint32(b, uint32(stag))
	return append(b, bytes8(to, data, mask, compare, compareMask)...)
}

func atomicResp(id uint32, v uint64) []byte {
	return append(binary.BigEndian.AppendUint32(nil, id), bytes8(v)...)
}

// intAt returns the integer at off in the region.
func intAt(mr *rnic.MR, off int) uint64 { return binary.NativeEndian.Uint64(bufOf(mr)[off:]) }

// Immediate Data keeps its place among the Sends, in both directions.
func TestImmediateBytes(t *testing.T) {
	conformance.Proves(t, "R5040-258", "R5040-260", "R5040-261")
	s := scriptWith(t, extended, rnic.ConnParams{})
	w := newWorld(t, s)
	buf := bytes.Repeat([]byte{9}, 16)
	recv(t, s.qp, 3, buf)
	s.fpdu(untagged(0x41, 0x43, 0, 0, 1, 0, []byte("a")))
	s.fpdu(tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), []byte("written")))
	s.fpdu(untagged(0x41, 0x48, 77, 0, 2, 0, bytes8(0x0102030405060708))) // the STag is ignored
	s.fpdu(untagged(0x41, 0x49, 0, 0, 3, 0, bytes8(5)))
	if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Immediate || wc.Len != 1 {
		t.Errorf("%+v", wc)
	}
	if wc := s.want(t, rnic.OpRecv, 2, rnic.WCSuccess); !reflect.DeepEqual(wc, rnic.WC{ID: 2, QP: s.qp, Op: rnic.OpRecv, Immediate: true, Value: 0x0102030405060708}) {
		t.Errorf("%+v, want Immediate Data alone", wc)
	}
	if !holds(w.wr, []byte("written")) {
		t.Error("completed before the Write was placed")
	}
	if wc := s.want(t, rnic.OpRecv, 3, rnic.WCSuccess); !wc.Immediate || wc.Value != 5 || !wc.Solicited {
		t.Errorf("%+v, want solicited Immediate Data of 5", wc)
	}
	if want := bytes.Repeat([]byte{9}, 16); !bytes.Equal(buf, want) {
		t.Errorf("written %x, want %x", buf, want)
	}
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpImmediate, Immediate: 0x1122334455667788},
		rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{[]byte("b")}}, rnic.SendWR{ID: 3, Op: rnic.OpImmediateSE, Immediate: 1, Invalidate: 7})
	s.wantSegment(untagged(0x41, 0x48, 0, 0, 1, 0, bytes8(0x1122334455667788)))
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 2, 0, []byte("b")))
	s.wantSegment(untagged(0x41, 0x49, 0, 0, 3, 0, bytes8(1)))
	s.want(t, rnic.OpImmediate, 1, rnic.WCSuccess)
	s.want(t, rnic.OpSend, 2, rnic.WCSuccess)
	s.want(t, rnic.OpImmediateSE, 3, rnic.WCSuccess)
	s.c.Close()
}

// The peer's atomic operations are executed and answered in order, among its Reads.
func TestAtomicServed(t *testing.T) {
	conformance.Proves(t, "R5040-262", "R5040-264", "R5040-266", "R5040-268", "R5040-269", "R5040-271")
	s := scriptWith(t, extended, rnic.ConnParams{})
	s.open()
	mem := make([]byte, 24)
	binary.NativeEndian.PutUint64(mem[8:], 100)
	mr, err := s.pd.RegMR(mem, rnic.RemoteAtomic|rnic.RemoteRead)
	if err != nil {
		t.Fatalf("RegMR: %v", err)
	}
	to, all := mr.Base()+8, ^uint64(0)
	for i, c := range []struct {
		op                               uint32
		data, mask, compare, compareMask uint64
		was                              uint64
	}{
		{0, 5, 0, 1, all, 100},
		{0, ^uint64(9), 0, 0, all, 105}, // minus ten
		{2, 7, all, 94, all, 95},        // no match
		{2, 7, all, 95, all, 95},
		{2, 0xff00, 0xf000, 0x17, 0x0f, 7},
		{0xfffffff0, 0, 0, 0, all, 0xf007}, // the other 28 bits are ignored
		{2, 0x00000001_00000001, all, 0, 0, 0xf007},
		{0, 0xffffffff_ffffffff, 1 << 31, 0, all, 0x00000001_00000001}, // two fields of 32 bits
		{0, 0, 0, 0, all, 0},
	} {
		id := uint32(i) * 0x01010101
		s.fpdu(untagged(0x41, 0x4a, 77, 1, uint32(i)+1, 0, atomicReq(c.op, id, mr.STag(), to, c.data, c.mask, c.compare, c.compareMask)))
		s.wantSegment(untagged(0x41, 0x4b, 0, 3, uint32(i)+1, 0, atomicResp(id, c.was)))
	}
	b := mpa.AppendFPDU(nil, true, untagged(0x41, 0x41, 0, 1, 10, 0, readReq(7, 0, 8, mr.STag(), mr.Base())))
	b = mpa.AppendFPDU(b, true, untagged(0x41, 0x4a, 0, 1, 11, 0, atomicReq(0, 1, mr.STag(), to, 3, 0, 0, all)))
	b = mpa.AppendFPDU(b, true, untagged(0x41, 0x41, 0, 1, 12, 0, readReq(7, 0, 8, mr.STag(), to)))
	s.say(mpa.AppendFPDU(b, true, untagged(0x41, 0x4a, 0, 1, 13, 0, atomicReq(0, 2, mr.STag(), to, 0, 0, 0, all))))
	s.wantSegment(tagged(0xc1, 0x42, 7, 0, make([]byte, 8)))
	s.wantSegment(untagged(0x41, 0x4b, 0, 3, 10, 0, atomicResp(1, 0)))
	s.wantSegment(tagged(0xc1, 0x42, 7, 0, binary.NativeEndian.AppendUint64(nil, 3)))
	s.wantSegment(untagged(0x41, 0x4b, 0, 3, 11, 0, atomicResp(2, 3)))
	if got, want := [3]uint64{intAt(mr, 0), intAt(mr, 8), intAt(mr, 16)}, [3]uint64{0, 3, 0}; got != want {
		t.Errorf("memory %v, want %v", got, want)
	}
	s.c.Close()
}

// Our atomic operations leave in order, on the queue of the Reads, and complete with the old value.
func TestAtomicAsked(t *testing.T) {
	conformance.Proves(t, "R5040-258", "R5040-262", "R5040-264")
	s := scriptWith(t, extended, rnic.ConnParams{})
	s.open()
	w := newWorld(t, s)
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpFetchAdd, RemoteSTag: 5, RemoteTO: 16, Atomic: &rnic.Atomic{Data: 3, Mask: 4, Compare: 9}},
		rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: w.readSink, Length: 1, RemoteSTag: 6},
		rnic.SendWR{ID: 3, Op: rnic.OpCmpSwap, RemoteSTag: 5, RemoteTO: 24, Atomic: &rnic.Atomic{Data: 1, Mask: 2, Compare: 3, CompareMask: 4}},
		rnic.SendWR{ID: 4, Op: rnic.OpSwap, RemoteSTag: 5, RemoteTO: 8, Atomic: &rnic.Atomic{Data: 1, Mask: 2, Compare: 3, CompareMask: 4}},
		rnic.SendWR{ID: 5, Op: rnic.OpSend})
	all := ^uint64(0)
	s.wantSegment(untagged(0x41, 0x4a, 0, 1, 1, 0, atomicReq(0, 0, 5, 16, 3, 4, 0, all)))
	s.wantSegment(untagged(0x41, 0x41, 0, 1, 2, 0, readReq(w.readSink.STag(), w.readSink.Base(), 1, 6, 0)))
	s.wantSegment(untagged(0x41, 0x4a, 0, 1, 3, 0, atomicReq(2, 2, 5, 24, 1, 2, 3, 4)))
	s.wantSegment(untagged(0x41, 0x4a, 0, 1, 4, 0, atomicReq(2, 3, 5, 8, 1, all, 0, 0)))
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 1, 0, nil))
	s.fpdu(untagged(0x41, 0x4b, 0, 3, 1, 0, atomicResp(0, 11)))
	s.fpdu(tagged(0xc1, 0x42, w.readSink.STag(), w.readSink.Base(), []byte{1}))
	s.fpdu(untagged(0x41, 0x4b, 0, 3, 2, 0, atomicResp(2, 12)))
	s.fpdu(untagged(0x41, 0x4b, 0, 3, 3, 0, atomicResp(3, all)))
	for id, c := range []struct {
		op rnic.Opcode
		v  uint64
	}{{rnic.OpFetchAdd, 11}, {rnic.OpRead, 0}, {rnic.OpCmpSwap, 12}, {rnic.OpSwap, all}, {rnic.OpSend, 0}} {
		if wc := s.want(t, c.op, uint64(id)+1, rnic.WCSuccess); wc.Value != c.v {
			t.Errorf("%+v", wc)
		}
	}
	s.c.Close()
}

// Each fault has its Terminate, and memory is unchanged.
func TestExtensionFaults(t *testing.T) {
	conformance.Proves(t, "R5040-260", "R5040-264", "R5040-266", "R5040-270")
	atomic := func(op uint32, mr func(w *world) *rnic.MR, off int) func(w *world) []byte {
		return func(w *world) []byte {
			return untagged(0x41, 0x4a, 0, 1, 1, 0, atomicReq(op, 1, mr(w).STag(), mr(w).Base()+uint64(off), 1, 0, 0, 0))
		}
	}
	for name, c := range map[string]struct {
		seg  func(w *world) []byte
		want term.Code
	}{
		"immediate of 7":           {fixed(untagged(0x41, 0x48, 0, 0, 1, 0, make([]byte, 7))), term.RDMAPStream},
		"immediate of 9":           {fixed(untagged(0x41, 0x48, 0, 0, 1, 0, make([]byte, 9))), term.DDPTooLong},
		"immediate in two":         {fixed(untagged(0x01, 0x48, 0, 0, 1, 0, make([]byte, 8))), term.RDMAPStream},
		"immediate MSN":            {fixed(untagged(0x41, 0x49, 0, 0, 2, 0, make([]byte, 8))), term.DDPMSNRange},
		"immediate MO":             {fixed(untagged(0x41, 0x49, 0, 0, 1, 8, make([]byte, 8))), term.DDPInvalidMO},
		"immediate on queue 1":     {fixed(untagged(0x41, 0x48, 0, 1, 1, 0, make([]byte, 8))), term.RDMAPOpcode},
		"atomic on queue 0":        {fixed(untagged(0x41, 0x4a, 0, 0, 1, 0, make([]byte, 52))), term.RDMAPOpcode},
		"atomic of 51":             {fixed(untagged(0x41, 0x4a, 0, 1, 1, 0, make([]byte, 51))), term.RDMAPStream},
		"atomic of 53":             {fixed(untagged(0x41, 0x4a, 0, 1, 1, 0, make([]byte, 53))), term.DDPTooLong},
		"atomic MSN":               {fixed(untagged(0x41, 0x4a, 0, 1, 2, 0, make([]byte, 52))), term.DDPMSNRange},
		"atomic code 1":            {atomic(1, theAtomic, 0), term.RDMAPOpcode},
		"atomic code 15":           {atomic(15, theAtomic, 0), term.RDMAPOpcode},
		"not aligned":              {atomic(0, theAtomic, 4), term.RDMAPStream},
		"swap not aligned":         {atomic(2, theAtomic, 7), term.RDMAPStream},
		"behind the end":           {atomic(0, theAtomic, 64), term.RDMAPBounds},
		"no right":                 {atomic(0, theWR, 0), term.RDMAPAccess},
		"no right either":          {atomic(2, theRD, 0), term.RDMAPAccess},
		"of another PD":            {atomic(0, theOther, 0), term.RDMAPSTagNotOfStream},
		"invalidated":              {atomic(0, theGone, 0), term.RDMAPInvalidSTag},
		"no STag":                  {fixed(untagged(0x41, 0x4a, 0, 1, 1, 0, make([]byte, 52))), term.RDMAPInvalidSTag},
		"response to nothing":      {fixed(untagged(0x41, 0x4b, 0, 3, 1, 0, make([]byte, 12))), term.RDMAPOpcode},
		"response of 32":           {fixed(untagged(0x41, 0x4b, 0, 3, 1, 0, make([]byte, 32))), term.DDPTooLong},
		"response of 11":           {fixed(untagged(0x41, 0x4b, 0, 3, 1, 0, make([]byte, 11))), term.RDMAPStream},
		"response MSN":             {fixed(untagged(0x41, 0x4b, 0, 3, 2, 0, make([]byte, 12))), term.DDPMSNRange},
		"response on queue 1":      {fixed(untagged(0x41, 0x4b, 0, 1, 1, 0, make([]byte, 12))), term.RDMAPOpcode},
		"opcode 12":                {fixed(untagged(0x41, 0x4c, 0, 0, 1, 0, make([]byte, 8))), term.RDMAPOpcode},
		"a tagged immediate":       {fixed(tagged(0xc1, 0x48, 1, 0, make([]byte, 8))), term.RDMAPOpcode},
		"a tagged Atomic Response": {fixed(tagged(0xc1, 0x4b, 1, 0, make([]byte, 12))), term.RDMAPOpcode},
	} {
		s := scriptWith(t, extended, rnic.ConnParams{})
		w := newWorld(t, s)
		if err := w.allowAtomic(); err != nil {
			t.Fatalf("allowAtomic: %v", err)
		}
		s.open()
		seg := c.seg(w)
		s.fpdu(seg)
		n := 18
		if seg[0]&0x80 != 0 {
			n = 14
		}
		s.wantSegment(terminate(c.want.Layer<<4|c.want.EType, c.want.Code, 0xc0, bad(seg, n)))
		for _, mr := range []*rnic.MR{w.wr, w.rd, w.readSink, w.other} {
			if !holds(mr, make([]byte, 64)) {
				t.Errorf("%s: memory was changed", name)
			}
		}
		s.c.Close()
	}
}

// allowAtomic gives the world's readSink, which these tests do not read into, the right under test.
func (w *world) allowAtomic() error {
	w.readSink.Invalidate()
	return w.readSink.Rereg(make([]byte, 64), rnic.RemoteAtomic)
}

func theAtomic(w *world) *rnic.MR { return w.readSink }

// A response must match the oldest request, by kind and by identifier.
func TestAtomicWrongResponse(t *testing.T) {
	for name, seg := range map[string][]byte{
		"name": untagged(0x41, 0x4b, 0, 3, 1, 0, atomicResp(1, 0)),
		"kind": tagged(0xc1, 0x42, 5, 8, make([]byte, 8)),
	} {
		s := scriptWith(t, extended, rnic.ConnParams{})
		s.open()
		post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSwap, RemoteSTag: 5, RemoteTO: 8, Atomic: &rnic.Atomic{}})
		s.hearULPDU()
		s.fpdu(seg)
		if u := s.hearULPDU(); len(u) < 22 || u[1] != 0x47 || u[18] != 2 {
			t.Errorf("%s: %x, want a Terminate of RDMAP", name, u)
		}
		s.want(t, rnic.OpSwap, 1, rnic.WCFlushErr)
		s.c.Close()
	}
}

// Immediate Data is refused within a message, and without a receive.
func TestImmediateOutOfPlace(t *testing.T) {
	s := scriptWith(t, extended, rnic.ConnParams{})
	s.open()
	recv(t, s.qp, 1, make([]byte, 16))
	s.fpdu(untagged(0x01, 0x43, 0, 0, 1, 0, []byte("abcd")))
	seg := untagged(0x41, 0x48, 0, 0, 1, 0, bytes8(1))
	s.fpdu(seg)
	s.wantSegment(terminate(0x02, 6, 0xc0, bad(seg, 18)))
	s.c.Close()

	s = scriptWith(t, extended, rnic.ConnParams{})
	s.open()
	s.fpdu(seg)
	s.wantSegment(terminate(0x12, 2, 0xc0, bad(seg, 18)))
	s.c.Close()
}

// Atomic operations beyond the IRD are refused like Reads.
func TestAtomicIRD(t *testing.T) {
	conformance.Proves(t, "R5040-262")
	s := scriptWith(t, extended, rnic.ConnParams{IRD: 2})
	s.open()
	if s.qp.IRD() != 2 {
		t.Fatalf("IRD %d, want 2", s.qp.IRD())
	}
	mr, _ := s.pd.RegMR(make([]byte, 8), rnic.RemoteAtomic)
	s.end.room = 0 // prevents answers meanwhile
	var b []byte
	for i := range uint32(3) {
		b = mpa.AppendFPDU(b, true, untagged(0x41, 0x4a, 0, 1, i+1, 0, atomicReq(0, i, mr.STag(), mr.Base(), 1, 0, 0, 0)))
	}
	s.say(b)
	s.wantEnd(t, errNoIRD)
	if intAt(mr, 0) != 2 {
		t.Errorf("memory has %d, want 2", intAt(mr, 0))
	}
	s.c.Close()
}

// An end without the extensions does not send them. (TestExtensions: it does not serve them.) An
// end with them refuses work requests without or with misaligned operands.
func TestExtensionsOff(t *testing.T) {
	a, _ := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 4)
	for op := rnic.OpImmediate; op <= rnic.OpSwap; op++ {
		if err := a.qp.PostSend(rnic.SendWR{Op: op, Atomic: &rnic.Atomic{}}); err == nil {
			t.Errorf("%d: %v", op, err)
		}
	}
	if c := a.dev.Caps(); c.Immediate || c.Atomics {
		t.Errorf("%+v", c)
	}
	a, _ = joined(t, extended, extended, 4)
	if c := a.dev.Caps(); !c.Immediate || !c.Atomics {
		t.Errorf("%+v", c)
	}
	for _, wr := range []rnic.SendWR{{Op: rnic.OpSwap}, {Op: rnic.OpSwap, RemoteTO: 4, Atomic: &rnic.Atomic{}}} {
		if err := a.qp.PostSend(wr); err == nil {
			t.Errorf("%+v was taken", wr)
		}
	}
}

// apply matches the pseudocode of RFC 7306 §5.1, bit by bit.
func TestAtomicApply(t *testing.T) {
	conformance.Proves(t, "R5040-268", "R5040-269")
	add := func(v, data, mask uint64) (out uint64) {
		carry := uint64(0)
		for bit := range 64 {
			sum := carry + v>>bit&1 + data>>bit&1
			out |= sum & 1 << bit
			if carry = sum >> 1; mask>>bit&1 == 1 {
				carry = 0
			}
		}
		return out
	}
	x := uint64(88172645463325252)
	next := func() uint64 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x }
	for range 10_000 {
		v, data, mask := next(), next(), next()
		for range 2 { // few field boundaries, so that fields are wide
			mask &= next()
		}
		if got := apply(&rdmap.AtomicRequest{Op: rdmap.FetchAdd, Data: data, DataMask: mask}, v); got != add(v, data, mask) {
			t.Fatalf("%x + %x, fields %x: %x", v, data, mask, got)
		}
		for _, compare := range []uint64{v, v ^ mask, next()} {
			want := v
			if (compare^v)&^mask == 0 {
				want = v&^data | v<<1&data
			}
			if got := apply(&rdmap.AtomicRequest{Op: rdmap.CmpSwap, Data: v << 1, DataMask: data, Compare: compare, CompareMask: ^mask}, v); got != want {
				t.Fatalf("%x: %x, want %x", v, got, want)
			}
		}
	}
}
