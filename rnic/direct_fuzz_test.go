// Both ways of receiving, on the same octets: the outcome must be the same.

package rnic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// fuzzDirect makes segments, some of them large, out of plan, and has them read in pieces
// by a receiver that reads directly and by one that does not. Memory, completions and error
// must be equal when the stream is whole; a segment that fails has touched nothing.
func fuzzDirect(t *testing.T, plan []byte, piece uint16) {
	if len(plan) > 32 {
		return
	}
	p := int(piece) + 1
	if p < 500 && len(plan) > 4 {
		p += 500 // octet by octet only when there is little
	}
	want := runPlan(t, plan, p, false)
	got := runPlan(t, plan, p, true)
	if got.err != want.err && !errors.Is(got.err, want.err) {
		t.Fatalf("direct: %v, buffered: %v", got.err, want.err)
	}
	if len(got.wcs) != len(want.wcs) {
		t.Fatalf("direct: %d completions, buffered: %d", len(got.wcs), len(want.wcs))
	}
	for i, wc := range got.wcs {
		if wc.ID != want.wcs[i].ID || wc.Len != want.wcs[i].Len || wc.Op != want.wcs[i].Op {
			t.Fatalf("completion %d: %+v, buffered %+v", i, wc, want.wcs[i])
		}
	}
	for i := range got.mem {
		if !bytes.Equal(got.mem[i], want.mem[i]) {
			t.Fatalf("memory %d differs", i)
		}
	}
}

type outcome struct {
	err error
	wcs []WC
	mem [][]byte
}

// runPlan: each two octets of plan are a segment, its kind and its length in steps of 257.
func runPlan(t *testing.T, plan []byte, piece int, direct bool) (o outcome) {
	const room = 200_000
	s := newSide(t, DeviceConfig{}, 16)
	w := fuzzRegion(s, 0x101, RemoteWrite, room)
	sink := fuzzRegion(s, 0x202, LocalWrite, room)
	o.mem = [][]byte{w.buf, sink.buf}
	for i := range uint64(4) {
		o.mem = append(o.mem, make([]byte, 60_000))
		recv(t, s.qp, i, o.mem[2+i])
	}
	s.qp.sq.setReads(2, 2)
	s.qp.sq.push(&SendWR{ID: 9, Op: OpRead, MR: sink, Length: room}, nil)
	s.qp.sq.next, s.qp.sq.readTail = 1, 1
	s.qp.rx.start(&session{})
	s.qp.rx.direct = direct
	l := &feedLink{b: planOctets(plan, w, sink, room), piece: piece}
	for o.err == nil {
		if o.err = s.qp.rx.consume(); o.err == nil {
			o.err = s.qp.rx.fill(l)
		}
	}
	if e := (*streamFault)(nil); errors.As(o.err, &e) {
		o.err = e.err
	}
	wcs := make([]WC, 16)
	o.wcs = wcs[:s.cq.Poll(wcs)]
	return o
}

func planOctets(plan []byte, w, sink *MR, room int) (b []byte) {
	to, ro, mo, msn := uint64(0), uint64(0), uint32(0), uint32(1)
	for ; len(plan) > 1; plan = plan[2:] {
		n := int(plan[1]) * 257
		data := bytes.Repeat([]byte{plan[1]}, min(n, 65_500))
		n = len(data)
		var seg []byte
		switch plan[0] % 6 {
		case 0: // Write
			seg = tagged(0xc1, 0x40, w.STag(), w.base+to%uint64(room), data)
			to += uint64(n)
		case 1: // Read Response
			last := byte(0x81)
			if ro+uint64(n) == uint64(room) {
				last = 0xc1
			}
			seg = tagged(last, 0x42, sink.STag(), sink.base+ro, data)
			ro += uint64(n)
		case 2: // Send, last
			seg = untagged(0x41, 0x43, 0, 0, msn, mo, data)
			mo, msn = 0, msn+1
		case 3: // Send, more to come
			seg = untagged(0x01, 0x43, 0, 0, msn, mo, data)
			mo += uint32(n)
		case 4: // a wrong STag
			seg = tagged(0xc1, 0x40, w.STag()+1, w.base, data)
		default: // Send with Invalidate of the region
			seg = untagged(0x41, 0x44, w.STag(), 0, msn, mo, data)
			mo, msn = 0, msn+1
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(seg)))
		b = append(b, seg...)
		b = append(b, make([]byte, mpa.Pad(len(seg))+mpa.CRCLen)...)
	}
	return b
}

func fuzzRegion(s *side, stag uint32, a Access, n int) *MR {
	mr := &MR{pd: s.pd, index: stag >> 8, base: 1 << 20, buf: make([]byte, n), access: a, valid: true}
	mr.stag.Store(stag)
	sh := s.dev.stags.shard(mr.index)
	if sh.m == nil {
		sh.m = make(map[uint32]*MR)
	}
	sh.m[mr.index] = mr
	return mr
}

// A feedLink gives b in pieces, the way a socket scatters them.
type feedLink struct {
	link
	b     []byte
	piece int
}

func (l *feedLink) read(s sink) (int, error) {
	if len(l.b) == 0 {
		return 0, io.EOF
	}
	head, rest, ok := s.aim()
	if !ok {
		return 0, nil
	}
	n := min(l.piece, len(l.b))
	k := copy(head, l.b[:n])
	n = k + copy(rest, l.b[k:n])
	s.release(false)
	l.b = l.b[n:]
	return n, nil
}
