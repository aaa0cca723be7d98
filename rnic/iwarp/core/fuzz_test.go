// Arbitrary bytes for the receiver: no panic, no byte outside registered memory, no hang.

package core

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// FuzzReceiver feeds ULPDUs in good FPDUs (mode 0), or plain bytes with CRC off (mode 1) or with
// markers (mode 2), to a QP with regions, receives and an outstanding Read; in mode 3 the bytes are
// the piece and the plan of fuzzDirect.
func FuzzReceiver(f *testing.F) {
	w := fuzzWorld(f)
	for _, row := range faultRows {
		f.Add(uint8(0), row.seg(w.world))
		f.Add(uint8(1), mpa.AppendFPDU(nil, true, row.seg(w.world)))
		f.Add(uint8(2), new(mpa.MarkerSender).Append(nil, true, row.seg(w.world)))
	}
	f.Add(uint8(0), tagged(0xc1, 0x42, w.readSink.STag(), w.readSink.Base(), make([]byte, 64)))
	f.Add(uint8(0), write(theWR, 0, 64)(w.world))
	f.Add(uint8(0), read(theRD, 0, 64)(w.world))
	f.Add(uint8(3), []byte{999 >> 8, 999 & 0xff, 0, 200, 1, 120, 2, 90, 3, 10, 0, 0, 0})
	f.Add(uint8(3), []byte{0, 1, 1, 255, 1, 255, 0, 255, 0, 3})
	f.Add(uint8(3), []byte{40_000 >> 8, 40_000 & 0xff, 2, 160, 2, 0, 4, 9, 0, 100})
	f.Fuzz(func(t *testing.T, mode uint8, b []byte) {
		if mode == 3 {
			if len(b) > 2 {
				fuzzDirect(t, b[2:], binary.BigEndian.Uint16(b))
			}
			return
		}
		w := fuzzWorld(t)
		if mode == 0 {
			if len(b) == 0 || len(b) > mpa.MaxULPDU {
				return
			}
			b = mpa.AppendFPDU(nil, true, b)
		}
		in := &w.end.in
		in.crc, in.markers = mode == 0, nil
		if mode == 2 {
			in.markers = new(mpa.MarkerReceiver)
		}
		in.Consume(b)
		for _, mr := range []*rnic.MR{w.rd, w.other, w.bound} {
			if !bytes.Equal(bufOf(mr), make([]byte, 64)) {
				t.Fatal("bytes were placed where none may be")
			}
		}
		if !bytes.Equal(w.guard[:8], make([]byte, 8)) || !bytes.Equal(w.guard[72:], make([]byte, 8)) {
			t.Fatal("bytes were placed beside the region")
		}
	})
}

type fuzzing struct {
	*world
	*side
	guard []byte // the region for Writes, with 8 guard bytes on both sides
}

func fuzzWorld(t testing.TB) *fuzzing {
	s := newSide(t, rnic.DeviceConfig{}, 4)
	w := &fuzzing{side: s, guard: make([]byte, 80)}
	countSTags(t) // so that an input finds the same regions each time
	reg := func(pd *rnic.PD, buf []byte, a rnic.Access) *rnic.MR {
		mr, err := pd.RegMR(buf, a)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		return mr
	}
	w.world = &world{wr: reg(s.pd, w.guard[8:72:72], rnic.RemoteWrite), rd: reg(s.pd, make([]byte, 64), rnic.RemoteRead),
		other: reg(s.dev.AllocPD(), make([]byte, 64), rnic.RemoteRead|rnic.RemoteWrite),
		bound: reg(s.pd, make([]byte, 64), rnic.RemoteRead|rnic.RemoteWrite),
		gone:  reg(s.pd, nil, 0), readSink: reg(s.pd, make([]byte, 64), rnic.LocalWrite)}
	w.bound.Bind(new(rnic.QP))
	w.gone.Invalidate()
	s.end.start(Modes{}, 2, 2, false)
	post(t, s.qp, rnic.SendWR{Op: rnic.OpRead, MR: w.readSink, Length: 64})
	recv(t, s.qp, 1, make([]byte, 16))
	return w
}
