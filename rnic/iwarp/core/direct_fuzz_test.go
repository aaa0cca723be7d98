// Both ways of receiving, on the same bytes: the result must be the same.

package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// fuzzDirect makes segments, some of them large, from plan. Two receivers get them in pieces; only
// one reads directly. Memory, completions and error must be equal when the stream is complete. A
// failing segment has touched nothing. All this is repeated with CRCs, which are good.
func fuzzDirect(t *testing.T, plan []byte, piece uint16) {
	if len(plan) > 32 {
		return
	}
	p := int(piece) + 1
	if p < 500 && len(plan) > 4 {
		p += 500 // single bytes only for small plans
	}
	for _, crc := range []bool{false, true} {
		sameResult(t, runPlan(t, plan, p, Modes{CRC: crc, Direct: true}), runPlan(t, plan, p, Modes{CRC: crc}))
	}
}

func sameResult(t *testing.T, got, want result) {
	t.Helper()
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

type result struct {
	err error
	wcs []rnic.WC
	mem [][]byte
}

// runPlan receives the segments of plan in pieces, and returns the result. Each two bytes of plan
// are a segment: its kind, and its length in steps of 257.
func runPlan(t *testing.T, plan []byte, piece int, modes Modes) (o result) {
	const room = 200_000
	s := newSide(t, rnic.DeviceConfig{}, 16)
	countSTags(t)
	mem := make([]byte, 2*room)
	w, _ := s.pd.RegMR(mem[:room:room], rnic.RemoteWrite)
	sink, _ := s.pd.RegMR(mem[room:], rnic.LocalWrite)
	o.mem = [][]byte{mem}
	for i := range uint64(4) {
		o.mem = append(o.mem, make([]byte, 60_000))
		recv(t, s.qp, i, o.mem[1+i])
	}
	s.end.start(modes, 2, 2, false)
	post(t, s.qp, rnic.SendWR{ID: 9, Op: rnic.OpRead, MR: sink, Length: room})
	for b := planBytes(plan, w, sink, room, modes.CRC); len(b) > 0; {
		n := min(piece, len(b))
		s.end.receive(b[:n])
		b = b[n:]
	}
	(&hangUp{&script{side: s}}).Close()
	o.err = s.qp.Err()
	wcs := make([]rnic.WC, 16)
	o.wcs = wcs[:s.cq.Poll(wcs)]
	return o
}

func planBytes(plan []byte, w, sink *rnic.MR, room int, crc bool) (b []byte) {
	to, ro, mo, msn := uint64(0), uint64(0), uint32(0), uint32(1)
	for ; len(plan) > 1; plan = plan[2:] {
		n := int(plan[1]) * 257
		data := bytes.Repeat([]byte{plan[1]}, min(n, 65_500))
		n = len(data)
		var seg []byte
		switch plan[0] % 6 {
		case 0: // Write
			// This segment is the Write's last, unless the plan's next segment continues the Write.
			ctrl := byte(0xc1)
			if len(plan) > 3 && plan[2]%6 == 0 && to%uint64(room)+2*65_500 < uint64(room) {
				ctrl = 0x81
			}
			seg = tagged(ctrl, 0x40, w.STag(), w.Base()+to%uint64(room), data)
			to += uint64(n)
		case 1: // Read Response
			last := byte(0x81)
			if ro+uint64(n) == uint64(room) {
				last = 0xc1
			}
			seg = tagged(last, 0x42, sink.STag(), sink.Base()+ro, data)
			ro += uint64(n)
		case 2: // Send, last
			seg = untagged(0x41, 0x43, 0, 0, msn, mo, data)
			mo, msn = 0, msn+1
		case 3: // Send, more to come
			seg = untagged(0x01, 0x43, 0, 0, msn, mo, data)
			mo += uint32(n)
		case 4: // a wrong STag
			seg = tagged(0xc1, 0x40, w.STag()+1, w.Base(), data)
		default: // Send with Invalidate of the region
			seg = untagged(0x41, 0x44, w.STag(), 0, msn, mo, data)
			mo, msn = 0, msn+1
		}
		from := len(b)
		b = binary.BigEndian.AppendUint16(b, uint16(len(seg)))
		b = append(b, seg...)
		b = append(b, make([]byte, mpa.Pad(len(seg))+mpa.CRCLen)...)
		if crc {
			mpa.PutCRC(b[len(b)-mpa.CRCLen:], mpa.CRC32C(b[from:len(b)-mpa.CRCLen]))
		}
	}
	return b
}
