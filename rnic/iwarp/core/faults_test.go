// The receive table, row by row: a hand-made peer's segment, and the resulting Terminate, byte by
// byte.

package core

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// world is the receiver's state for a fault row: regions and two posted receives of 16 bytes.
type world struct {
	wr, rd   *rnic.MR // remote write, remote read; 64 bytes
	other    *rnic.MR // of another PD
	bound    *rnic.MR // bound to another QP
	gone     *rnic.MR // invalidated
	readSink *rnic.MR // sink of our outstanding Read, if the row wants one
}

func newWorld(t *testing.T, s *script) *world {
	t.Helper()
	reg := func(pd *rnic.PD, a rnic.Access) *rnic.MR {
		mr, err := pd.RegMR(make([]byte, 64), a)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		return mr
	}
	w := &world{wr: reg(s.pd, rnic.RemoteWrite), rd: reg(s.pd, rnic.RemoteRead),
		other: reg(s.dev.AllocPD(), rnic.RemoteRead|rnic.RemoteWrite), bound: reg(s.pd, rnic.RemoteRead|rnic.RemoteWrite),
		gone: reg(s.pd, rnic.RemoteRead|rnic.RemoteWrite), readSink: reg(s.pd, rnic.LocalWrite)}
	w.bound.Bind(new(rnic.QP))
	w.gone.Invalidate()
	recv(t, s.qp, 1, make([]byte, 16))
	recv(t, s.qp, 2, make([]byte, 16))
	return w
}

// A faultRow is the last segment from the peer, and the parts of the Terminate that must answer it.
type faultRow struct {
	name  string // with the ids of the proved requirements
	first func(w *world) [][]byte
	seg   func(w *world) []byte
	lt    byte // layer and type
	code  byte
	hdrs  int // 0: none; 14, 18: DDP header; 46: that and the Read Request
}

func write(mr func(*world) *rnic.MR, off int64, n int) func(*world) []byte {
	return func(w *world) []byte {
		return tagged(0xc1, 0x40, mr(w).STag(), mr(w).Base()+uint64(off), make([]byte, n))
	}
}

func read(mr func(*world) *rnic.MR, off int64, n uint32) func(*world) []byte {
	return func(w *world) []byte {
		return untagged(0x41, 0x41, 0, 1, 1, 0, readReq(7, 7, n, mr(w).STag(), mr(w).Base()+uint64(off)))
	}
}

func fixed(seg []byte) func(*world) []byte { return func(*world) []byte { return seg } }

func inval(mr func(*world) *rnic.MR) func(*world) []byte {
	return func(w *world) []byte { return untagged(0x41, 0x44, mr(w).STag(), 0, 1, 0, nil) }
}

func theWR(w *world) *rnic.MR    { return w.wr }
func theRD(w *world) *rnic.MR    { return w.rd }
func theOther(w *world) *rnic.MR { return w.other }
func theBound(w *world) *rnic.MR { return w.bound }
func theGone(w *world) *rnic.MR  { return w.gone }

var faultRows = []faultRow{
	{"short tagged R5041-051 R5041-112", nil, fixed([]byte{0xc1, 0x40, 1}), 0x10, 0, 0},
	{"short untagged R5041-112 R5041-051 R5040-082", nil, fixed(make([]byte, 17)), 0x10, 0, 0},
	{"DV tagged R5041-117 R5041-031", nil, fixed(tagged(0xc2, 0x40, 1, 0, []byte{1})), 0x11, 4, 14},
	{"DV untagged R5041-123 R5041-031", nil, fixed(untagged(0x42, 0x43, 0, 0, 1, 0, nil)), 0x12, 6, 18},
	{"RV R5040-194 R5040-071", nil, fixed(untagged(0x41, 0x83, 0, 0, 1, 0, nil)), 0x02, 5, 18},
	{"opcode 15 R5040-193 R5040-036 R5040-072", nil, fixed(untagged(0x41, 0x4f, 0, 0, 1, 0, nil)), 0x02, 6, 18},
	{"opcode 10 R5040-193", nil, fixed(untagged(0x41, 0x4a, 0, 1, 1, 0, make([]byte, 52))), 0x02, 6, 18},
	{"Send tagged R5040-072", nil, fixed(tagged(0xc1, 0x43, 1, 0, nil)), 0x02, 6, 14},
	{"Write untagged R5040-072", nil, fixed(untagged(0x41, 0x40, 0, 0, 1, 0, nil)), 0x02, 6, 18},
	{"QN 7 R5041-118 R5041-093", nil, fixed(untagged(0x41, 0x43, 0, 7, 1, 0, nil)), 0x12, 1, 18},
	{"Send on QN 1 R5040-193", nil, fixed(untagged(0x41, 0x43, 0, 1, 1, 0, nil)), 0x02, 6, 18},
	{"MSN ahead R5041-120 R5041-100", nil, fixed(untagged(0x41, 0x43, 0, 0, 2, 0, nil)), 0x12, 3, 18},
	{"MSN behind R5041-100 R5041-018 R5041-071", sends(1), fixed(untagged(0x41, 0x43, 0, 0, 1, 0, nil)), 0x12, 3, 18},
	{"no buffer R5041-119 R5041-094 R5040-122 R8166-008", sends(2), fixed(untagged(0x41, 0x43, 0, 0, 3, 0, nil)), 0x12, 2, 18},
	{"first MO R5041-098", nil, fixed(untagged(0x41, 0x43, 0, 0, 1, 4, []byte{1})), 0x12, 4, 18},
	{"MO gap R5041-121 R5041-066", part, fixed(untagged(0x41, 0x43, 0, 0, 1, 9, []byte{1})), 0x12, 4, 18},
	{"too long R5041-122 R5041-004 R5040-017 R5040-124 R8166-008", nil, fixed(untagged(0x41, 0x43, 0, 0, 1, 0, make([]byte, 17))), 0x12, 5, 18},
	{"too long later R5041-099 R5041-122", part, fixed(untagged(0x41, 0x43, 0, 0, 1, 8, make([]byte, 9))), 0x12, 5, 18},
	{"other opcode inside", part, fixed(untagged(0x41, 0x45, 0, 0, 1, 8, nil)), 0x02, 6, 18},

	{"Write STag unknown R5041-113 R5041-035 R5040-019", nil, fixed(tagged(0xc1, 0x40, 0xffffffff, 0, []byte{1})), 0x11, 0, 14},
	{"Write STag gone R5041-101 R5040-090", nil, write(theGone, 0, 1), 0x11, 0, 14},
	{"Write other PD R5041-127 R5041-115 R5041-126 R5041-136 R5040-204 R8166-199", nil, write(theOther, 0, 1), 0x11, 2, 14},
	{"Write other QP R5041-128 R5041-126 R5041-133 R5041-137 R5040-205 R5040-249", nil, write(theBound, 0, 1), 0x11, 2, 14},
	{"Write no right R5041-102 R5041-140 R5040-208", nil, write(theRD, 0, 1), 0x11, 0, 14},
	{"Write below R5041-103 R5041-114 R5041-131", nil, write(theWR, -1, 1), 0x11, 1, 14},
	{"Write past end R5041-104 R5041-114 R5041-138 R5040-206", nil, write(theWR, 1, 64), 0x11, 1, 14},
	{"Write wrap R5041-105 R5041-116", nil, func(w *world) []byte {
		return tagged(0xc1, 0x40, w.wr.STag(), 1<<64-1, []byte{1, 2})
	}, 0x11, 3, 14},
	{"Write wrong key R5041-101", nil, func(w *world) []byte {
		return tagged(0xc1, 0x40, w.wr.STag()^1, w.wr.Base(), []byte{1})
	}, 0x11, 0, 14},

	{"Read unknown R5040-064 R5040-084", nil, fixed(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(1, 2, 3, 0xffffff00, 5))), 0x01, 0, 46},
	{"Read gone R5040-197 R5040-022 R5040-101 R5040-108", nil, read(theGone, 0, 1), 0x01, 0, 46},
	{"Read other PD R5040-067 R5040-204", nil, read(theOther, 0, 1), 0x01, 3, 46},
	{"Read other QP R5040-198 R5040-205", nil, read(theBound, 0, 1), 0x01, 3, 46},
	{"Read no right R5040-202 R5040-066 R5040-208", nil, read(theWR, 0, 1), 0x01, 2, 46},
	{"Read below R5040-199 R5040-065", nil, read(theRD, -1, 1), 0x01, 1, 46},
	{"Read past end R5040-065 R5040-200 R5040-206", nil, read(theRD, 0, 65), 0x01, 1, 46},
	{"Read wrap R5040-201 R5040-068", nil, func(w *world) []byte {
		return untagged(0x41, 0x41, 0, 1, 1, 0, readReq(7, 7, 2, w.rd.STag(), 1<<64-1))
	}, 0x01, 4, 46},
	{"Read MSN", nil, fixed(untagged(0x41, 0x41, 0, 1, 2, 0, readReq(1, 2, 0, 3, 4))), 0x12, 3, 18},
	{"Read MO", nil, fixed(untagged(0x41, 0x41, 0, 1, 1, 8, readReq(1, 2, 0, 3, 4))), 0x12, 4, 18},
	{"Read too long", nil, fixed(untagged(0x41, 0x41, 0, 1, 1, 0, make([]byte, 29))), 0x12, 5, 18},
	{"Read too short", nil, fixed(untagged(0x41, 0x41, 0, 1, 1, 0, make([]byte, 27))), 0x02, 7, 18},
	{"Read not last", nil, fixed(untagged(0x01, 0x41, 0, 1, 1, 0, make([]byte, 28))), 0x02, 7, 18},

	{"Response unasked R5040-115", nil, fixed(tagged(0xc1, 0x42, 1, 0, nil)), 0x02, 6, 14},
	{"invalidate unknown R5040-075", nil, fixed(untagged(0x41, 0x44, 0xffffff00, 0, 1, 0, nil)), 0x02, 9, 18},
	{"invalidate gone R5040-195", nil, inval(theGone), 0x02, 9, 18},
	{"invalidate other PD R5040-069 R5040-087 R5040-133 R5040-135", nil, inval(theOther), 0x01, 9, 18},
	{"invalidate other QP R5040-196 R5040-133", nil, inval(theBound), 0x01, 9, 18},
}

// sends returns n good Sends.
func sends(n uint32) func(*world) [][]byte {
	return func(*world) (segs [][]byte) {
		for i := range n {
			segs = append(segs, untagged(0x41, 0x43, 0, 0, i+1, 0, []byte("ok")))
		}
		return segs
	}
}

// part returns 8 bytes of an incomplete Send.
func part(*world) [][]byte { return [][]byte{untagged(0x01, 0x43, 0, 0, 1, 0, make([]byte, 8))} }

func TestFaultsOfThePeer(t *testing.T) {
	conformance.Proves(t, "R5040-012", "R5040-014", "R5040-057", "R5040-058", "R5040-059", "R5040-060", "R5040-061", "R5040-079",
		"R5040-080", "R5040-081", "R5040-083", "R5040-086", "R5040-143", "R5040-145", "R5040-180", "R5040-184", "R5040-185",
		"R5040-186", "R5040-187", "R5040-189", "R5040-190", "R5040-192", "R5040-206", "R5041-015", "R5041-017", "R5041-078",
		"R5041-088", "R5041-091", "R5041-106", "R5041-107", "R5041-108", "R5041-109", "R5041-110", "R5041-125", "R5041-135",
		"R5044-161", "R8166-197")
	for _, row := range faultRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			conformance.ProvesNamed(t)
			s := scriptInitiator(t, rnic.ConnParams{})
			w := newWorld(t, s)
			s.open()
			if row.first != nil {
				for _, seg := range row.first(w) {
					s.fpdu(seg)
				}
			}
			seg := row.seg(w)
			// Bytes after the fault are ignored: none is placed (RFC 5041 §7.1 [R5041-109]).
			evil := tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), []byte("evil"))
			s.say(mpa.AppendFPDU(mpa.AppendFPDU(nil, true, seg), true, evil))
			var back []byte
			ctrl := byte(0)
			switch row.hdrs {
			case 14, 18:
				back, ctrl = bad(seg, row.hdrs), 0xc0
			case 46:
				back, ctrl = bad(seg, 46), 0xe0
			}
			want := mpa.AppendFPDU(nil, true, terminate(row.lt, row.code, ctrl, back))
			s.wantBytes(want)
			s.wantEOF()
			s.c.Close()
			<-s.qp.Done()
			var e *term.Error
			wantCode := term.Code{Layer: row.lt >> 4, EType: row.lt & 15, Code: row.code}
			if !errors.As(s.qp.Err(), &e) || e.Code != wantCode {
				t.Fatalf("Err is %v, want %v", s.qp.Err(), wantCode)
			}
			if !bytes.Equal(bufOf(w.wr), make([]byte, 64)) {
				t.Fatal("bytes were placed")
			}
			flushedRest(t, s)
		})
	}
}

// flushedRest requires that both receives have completed, in order, and none successfully after a
// flushed one.
func flushedRest(t *testing.T, s *script) {
	t.Helper()
	wcs := make([]rnic.WC, 8)
	n := s.cq.Poll(wcs)
	if n != 2 || wcs[0].ID != 1 || wcs[1].ID != 2 {
		t.Fatalf("completions %+v, want 1 and 2", wcs[:n])
	}
	for i := 1; i < n; i++ {
		if wcs[i-1].Status == rnic.WCFlushErr && wcs[i].Status != rnic.WCFlushErr {
			t.Fatal("a receive completed after a flushed one")
		}
	}
}

// TestCRCFault: nothing of an FPDU with a wrong CRC is placed (RFC 5044 §4.4 [R5044-065], RFC 5044
// §6 [R5044-083 R5044-087]).
func TestCRCFault(t *testing.T) {
	conformance.Proves(t, "R5040-057", "R5040-078", "R5041-013", "R5041-087", "R5041-151", "R5044-065", "R5044-083", "R5044-084",
		"R5044-085", "R5044-087", "R5044-152", "R5044-161", "R5044-162", "R5044-163")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	s.open()
	b := mpa.AppendFPDU(nil, true, tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), []byte("evil")))
	b[len(b)-1] ^= 1
	s.say(mpa.AppendFPDU(b, true, tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), []byte("evil"))))
	s.wantBytes(must.Hex(t, "0016414700000000000000020000000100000000200200007fe42585"))
	s.wantEOF()
	s.c.Close()
	<-s.qp.Done()
	if !bytes.Equal(bufOf(w.wr), make([]byte, 64)) {
		t.Fatal("bytes were placed")
	}
}

// TestByteByByte: FPDUs may come in any pieces (RFC 5044 §5.1 [R5044-080]); padding and reserved
// bits are ignored (RFC 5044 §4.1 [R5044-020], RFC 5040 §4.1 [R5040-041], RFC 5041 §4.1
// [R5041-029]).
func TestByteByByte(t *testing.T) {
	conformance.Proves(t, "R5040-041", "R5040-163", "R5041-003", "R5041-005", "R5041-011", "R5041-026", "R5041-027", "R5041-029",
		"R5041-038", "R5041-050", "R5041-074", "R5041-075", "R5044-020", "R5044-080", "R5044-086", "R5044-173")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	b := mpa.AppendFPDU(nil, true, tagged(0x81|0x3c, 0x40|0x30, w.wr.STag(), w.wr.Base()+1, []byte("abc")))
	b = mpa.AppendFPDU(b, true, untagged(0x01, 0x73, 0xffffffff, 0, 1, 0, []byte("hel")))
	b = mpa.AppendFPDU(b, true, tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base()+4, []byte("d")))
	b = mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 3, []byte("lo")))
	for i := range b {
		s.say(b[i : i+1])
	}
	if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Len != 5 || string(bufOf(w.wr)[1:5]) != "abcd" {
		t.Fatalf("%+v %q", wc, bufOf(w.wr))
	}
}

// TestLongestMessage: a Send of 2^32 bytes is too long for any buffer (RFC 5041 §5.2 [R5041-055]).
func TestLongestMessage(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 1<<32+4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Skip("no address space: ", err)
	}
	defer unix.Munmap(mem)
	s := newSide(t, rnic.DeviceConfig{}, 4)
	recv(t, s.qp, 1, mem)
	in := &s.end.in
	s.end.start(Modes{}, 1, 1, false)
	wr, _ := s.end.q.NextRecv()
	in.recv = inboundSend{open: true, op: rdmap.OpSend, wr: wr, placed: 1<<32 - 16}
	one := func(seg []byte) error {
		a, err := in.check(seg, len(seg))
		if err == nil {
			err = in.do(&a)
		}
		return err
	}
	if err := one(untagged(0x01, 0x43, 0, 0, 1, 1<<32-16, make([]byte, 15))); err != nil {
		t.Fatalf("a segment that ends at 2^32-1: %v", err)
	}
	if err := one(untagged(0x41, 0x43, 0, 0, 1, 1<<32-1, make([]byte, 1))); err != error(errLong) {
		t.Fatalf("one byte more: %v, want %v", err, errLong)
	}
}
