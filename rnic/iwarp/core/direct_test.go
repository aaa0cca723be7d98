// Payload read straight into its memory: content, pieces, faults, and revoked memory.

package core

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

const bigLen = 60_001 // bytes of payload that make a segment large

func directScript(t *testing.T) *script {
	t.Helper()
	s := scriptWith(t, rnic.DeviceConfig{CRC: rnic.CRCOff}, rnic.ConnParams{})
	s.open()
	return s
}

// TestDirectPlacement: a large segment's bytes are in their memory before it is complete, unlike in
// buffered receiving.
func TestDirectPlacement(t *testing.T) {
	s := directScript(t)
	data := noise(bigLen)
	mr, _ := s.pd.RegMR(make([]byte, bigLen), rnic.RemoteWrite)
	f := mpa.AppendFPDU(nil, true, tagged(0xc1, 0x40, mr.STag(), mr.Base(), data))
	s.say(f[:40_000])
	if !holds(mr, data[:1000]) {
		t.Fatal("not placed")
	}
	if holds(mr, data) {
		t.Fatal("all of it?")
	}
	s.say(f[40_000:])
	if !holds(mr, data) {
		t.Fatal("not placed")
	}
}

// TestDirectPieces: every kind of payload arrives unchanged, in pieces that split headers, payload
// and trailers anywhere, with small messages between (RFC 5044 §5.1 [R5044-080]).
func TestDirectPieces(t *testing.T) {
	conformance.Proves(t, "R5044-055", "R5044-057", "R5044-080", "R5044-106", "R5044-107", "R5044-173")
	for _, piece := range []int{61, 999, 16 << 10, 50_000, 1 << 20} {
		for _, n := range []int{directMin - 20, directMin, directMin + 20, 30_002, bigLen, 65_517} {
			s := directScript(t)
			data := noise(n)
			mr, _ := s.pd.RegMR(make([]byte, n), rnic.RemoteWrite)
			sink, _ := s.pd.RegMR(make([]byte, n), rnic.LocalWrite)
			kept, placed := bufOf(sink), bufOf(mr)
			mem := make([]byte, n)
			recv(t, s.qp, 1, mem)
			recv(t, s.qp, 2, make([]byte, 5))
			post(t, s.qp, rnic.SendWR{ID: 3, Op: rnic.OpReadInvalidate, MR: sink, Length: uint32(n), RemoteSTag: 9})
			s.hear(2 + 46 + 4)
			stag := sink.STag()
			var b []byte
			for _, seg := range [][]byte{untagged(0x41, 0x43, 0, 0, 1, 0, data), tagged(0xc1, 0x40, mr.STag(), mr.Base(), data),
				tagged(0xc1, 0x42, stag, sink.Base(), data), untagged(0x41, 0x44, mr.STag(), 0, 2, 0, []byte("small"))} {
				b = binary.BigEndian.AppendUint16(b, uint16(len(seg)))
				b = append(b, seg...)
				b = append(b, make([]byte, mpa.Pad(len(seg))+4)...)
			}
			for len(b) > 0 {
				k := min(piece, len(b))
				s.say(b[:k])
				b = b[k:]
			}
			if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Len != uint32(n) {
				t.Fatalf("%+v", wc)
			}
			s.want(t, rnic.OpReadInvalidate, 3, rnic.WCSuccess)
			if wc := s.want(t, rnic.OpRecv, 2, rnic.WCSuccess); wc.Len != 5 || wc.Invalidated != mr.STag() {
				t.Fatalf("%+v, want 5 bytes that invalidate %v", wc, mr.STag())
			}
			if mr.Valid() || sink.Valid() {
				t.Fatalf("valid: region %v, sink %v", mr.Valid(), sink.Valid())
			}
			for i, got := range [][]byte{mem, placed, kept} {
				if !bytes.Equal(got, data) {
					t.Fatalf("pieces of %d, %d bytes, message %d: content", piece, n, i)
				}
			}
			s.c.Close()
			s.wantEnd(t, io.EOF)
		}
	}
}

// TestDirectFaults: a large segment is checked completely by its header, before any byte is placed
// or the rest has come. The result is the same as for a small one.
func TestDirectFaults(t *testing.T) {
	conformance.Proves(t, "R5041-106", "R5041-125")
	big := make([]byte, bigLen)
	for i := range big {
		big[i] = 0xee
	}
	for name, row := range map[string]struct {
		seg      func(w *world) []byte
		lt, code byte
	}{
		"STag unknown R5041-113": {func(w *world) []byte { return tagged(0xc1, 0x40, 0xffffff01, 0, big) }, 0x11, 0},
		"STag gone R5041-101":    {func(w *world) []byte { return tagged(0xc1, 0x40, w.gone.STag(), w.gone.Base(), big) }, 0x11, 0},
		"other PD R5041-127":     {func(w *world) []byte { return tagged(0xc1, 0x40, w.other.STag(), w.other.Base(), big) }, 0x11, 2},
		"no right R5041-102":     {func(w *world) []byte { return tagged(0xc1, 0x40, w.rd.STag(), w.rd.Base(), big) }, 0x11, 0},
		"bounds R5041-104":       {func(w *world) []byte { return tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), big) }, 0x11, 1},
		"wrap R5041-105":         {func(w *world) []byte { return tagged(0xc1, 0x40, w.wr.STag(), 1<<64-99, big) }, 0x11, 3},
		"too long R5041-122":     {func(w *world) []byte { return untagged(0x41, 0x43, 0, 0, 1, 0, big) }, 0x12, 5},
		"MSN R5041-120":          {func(w *world) []byte { return untagged(0x41, 0x43, 0, 0, 2, 0, big) }, 0x12, 3},
		"DV R5041-123":           {func(w *world) []byte { return untagged(0x42, 0x43, 0, 0, 1, 0, big) }, 0x12, 6},
		"RV R5040-194":           {func(w *world) []byte { return untagged(0x41, 0x83, 0, 0, 1, 0, big) }, 0x02, 5},
		"unasked":                {func(w *world) []byte { return tagged(0xc1, 0x42, 1, 0, big) }, 0x02, 6},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.ProvesNamed(t)
			s := directScript(t)
			w := newWorld(t, s)
			seg := row.seg(w)
			s.say(mpa.AppendFPDU(nil, false, seg)[:1000]) // the rest never comes
			n := 18
			if seg[0]&0x80 != 0 {
				n = 14
			}
			s.wantBytes(mpa.AppendFPDU(nil, false, terminate(row.lt, row.code, 0xc0, bad(seg, n))))
			s.wantEOF()
			s.c.Close()
			<-s.qp.Done()
			for _, mr := range []*rnic.MR{w.wr, w.rd, w.other} {
				if !bytes.Equal(bufOf(mr), make([]byte, 64)) {
					t.Fatal("bytes were placed")
				}
			}
		})
	}
}

// TestDirectRevoked: Invalidate does not wait for a peer that has stopped within a segment, and no
// later byte is placed (RFC 5040 §8.1.1 [R5040-209], RFC 5041 §8.3.1 [R5041-141]).
func TestDirectRevoked(t *testing.T) {
	conformance.Proves(t, "R5040-207", "R5040-209", "R5041-131", "R5041-132", "R5041-139", "R5041-141")
	for _, how := range []string{"Invalidate", "Dereg", "Rereg"} {
		t.Run(how, func(t *testing.T) {
			s := directScript(t)
			mem, data := make([]byte, bigLen), bytes.Repeat([]byte{7}, bigLen)
			mr, _ := s.pd.RegMR(mem, rnic.RemoteWrite)
			seg := tagged(0xc1, 0x40, mr.STag(), mr.Base(), data)
			f := mpa.AppendFPDU(nil, false, seg)
			s.say(f[:30_000])
			if !holds(mr, data[:1000]) {
				t.Fatal("not placed")
			}
			switch how {
			case "Invalidate":
				mr.Invalidate()
			case "Dereg":
				mr.Dereg()
			case "Rereg":
				mr.Invalidate()
				mr.Rereg(mem, rnic.RemoteWrite)
			}
			clear(mem)
			s.say(f[30_000:])
			s.wantBytes(mpa.AppendFPDU(nil, false, terminate(0x11, 0, 0xc0, bad(seg, 14))))
			s.c.Close()
			<-s.qp.Done()
			if !bytes.Equal(mem, make([]byte, bigLen)) {
				t.Fatal("bytes were placed after the memory was taken away")
			}
			if s.qp.Err() != error(taggedFaults[rnic.MemSTag]) {
				t.Fatalf("Err: %v, want %v", s.qp.Err(), taggedFaults[rnic.MemSTag])
			}
		})
	}
}

// TestDirectFlushed: a receive with half of its Send is completed at once when the QP ends, and is
// not written any more.
func TestDirectFlushed(t *testing.T) {
	s := directScript(t)
	mem, data := make([]byte, bigLen), bytes.Repeat([]byte{7}, bigLen)
	recv(t, s.qp, 1, mem)
	f := mpa.AppendFPDU(nil, false, untagged(0x41, 0x43, 0, 0, 1, 0, data))
	s.say(f[:30_000])
	if !bytes.HasPrefix(mem, data[:29_000]) {
		t.Fatal("not read directly")
	}
	s.end.fail(term.New(term.RDMAPLocal, "as if"))
	s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
	clear(mem)
	s.say(f[30_000:])
	s.c.Close()
	s.qp.Close()
	if !bytes.Equal(mem, make([]byte, bigLen)) {
		t.Fatal("bytes were placed after the flush")
	}
}

// TestDirectCutOff: if the stream ends within payload or trailer, the connection is lost and the
// receive is flushed.
func TestDirectCutOff(t *testing.T) {
	conformance.Proves(t, "R5040-013", "R5041-082", "R5044-151")
	f := mpa.AppendFPDU(nil, false, untagged(0x41, 0x43, 0, 0, 1, 0, make([]byte, bigLen)))
	for _, n := range []int{30_000, len(f) - 4, len(f) - 1} {
		s := directScript(t)
		recv(t, s.qp, 1, make([]byte, bigLen))
		s.say(f[:n])
		s.c.Close()
		s.wantEnd(t, rnic.ErrConnLost)
		s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
	}
}
