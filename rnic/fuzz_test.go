// Any octets at all, fed to the receiver: no panic, no octet outside of what is registered, no hang.

package rnic

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// FuzzReceiver feeds ULPDUs in good FPDUs (mode 0), or plain octets with CRC off (mode
// 1) or with markers (mode 2), to a QP that has regions, receives and a Read outstanding;
// in mode 3 they are the piece and the plan of fuzzDirect.
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
		w.qp.rx.start(&session{crc: mode == 0, recvMarks: mode == 2, early: b})
		w.qp.rx.consume()
		for _, mr := range []*MR{w.rd, w.other, w.bound} {
			if !bytes.Equal(mr.buf, make([]byte, 64)) {
				t.Fatal("octets were placed where none may be")
			}
		}
		if !bytes.Equal(w.guard[:8], make([]byte, 8)) || !bytes.Equal(w.guard[72:], make([]byte, 8)) {
			t.Fatal("octets were placed beside the region")
		}
	})
}

type fuzzing struct {
	*world
	*side
	guard []byte // the region for Writes, with 8 octets before and after
}

func fuzzWorld(t testing.TB) *fuzzing {
	s := newSide(t, DeviceConfig{}, 4)
	w := &fuzzing{side: s, guard: make([]byte, 80)}
	reg := func(pd *PD, buf []byte, a Access, stag uint32) *MR {
		mr := &MR{pd: pd, index: stag >> 8, base: 1 << 20, buf: buf, access: a, valid: true}
		mr.stag.Store(stag)
		sh := s.dev.stags.shard(mr.index)
		if sh.m == nil {
			sh.m = make(map[uint32]*MR)
		}
		sh.m[mr.index] = mr
		return mr
	}
	w.world = &world{wr: reg(s.pd, w.guard[8:72:72], RemoteWrite, 0x101), rd: reg(s.pd, make([]byte, 64), RemoteRead, 0x202),
		other: reg(s.dev.AllocPD(), make([]byte, 64), RemoteRead|RemoteWrite, 0x303),
		bound: reg(s.pd, make([]byte, 64), RemoteRead|RemoteWrite, 0x404),
		gone:  reg(s.pd, nil, 0, 0x505), readSink: reg(s.pd, make([]byte, 64), LocalWrite, 0x606)}
	w.bound.Bind(new(QP))
	w.gone.valid = false
	s.qp.sq.setReads(2, 2)
	s.qp.sq.push(&SendWR{Op: OpRead, MR: w.readSink, Length: 64}, nil)
	e := s.qp.sq.at(0)
	e.sinkSTag = w.readSink.STag()
	s.qp.sq.next, s.qp.sq.readTail = 1, 1
	recv(t, s.qp, 1, make([]byte, 16))
	return w
}
