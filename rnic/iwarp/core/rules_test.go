// Receiver rules outside the table of faults.

package core

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestEmptyWrite: an empty Write is not checked, for any STag.
func TestEmptyWrite(t *testing.T) {
	conformance.Proves(t, "R5041-064", "R5041-065", "R5040-094")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	for _, seg := range [][]byte{tagged(0xc1, 0x40, 0xffffffff, 1<<64-1, nil), tagged(0xc1, 0x40, w.other.STag(), 0, nil),
		tagged(0x81, 0x40, w.gone.STag(), 5, nil), untagged(0x41, 0x43, 0, 0, 1, 0, []byte("on"))} {
		s.fpdu(seg)
	}
	if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Len != 2 {
		t.Errorf("%+v", wc)
	}
}

// TestWrittenAgain: many Writes can go to one advertised buffer, which keeps the last; each Send
// needs a separate buffer.
func TestWrittenAgain(t *testing.T) {
	conformance.Proves(t, "R5041-006", "R5041-052", "R5040-122")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	for i := range byte(100) {
		s.fpdu(tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base()+3, bytes.Repeat([]byte{i}, 9)))
	}
	s.fpdu(untagged(0x41, 0x43, 0, 0, 1, 0, []byte("a")))
	s.fpdu(untagged(0x41, 0x43, 0, 0, 2, 0, nil))
	s.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
	s.want(t, rnic.OpRecv, 2, rnic.WCSuccess)
	if want := append(make([]byte, 3), bytes.Repeat([]byte{99}, 9)...); !holds(w.wr, want) {
		t.Errorf("%x", bufOf(w.wr))
	}
	s.fpdu(untagged(0x41, 0x43, 0, 0, 3, 0, nil))
	s.wantEnd(t, errNoBuffer)
	s.c.Close()
}

// TestInvalidateFieldIgnored: only invalidating opcodes use the STag in the header.
func TestInvalidateFieldIgnored(t *testing.T) {
	conformance.Proves(t, "R5040-043")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	stag := w.wr.STag()
	s.fpdu(untagged(0x41, 0x43, stag, 0, 1, 0, nil))
	s.fpdu(untagged(0x41, 0x45, stag, 0, 2, 0, nil))
	s.fpdu(untagged(0x41, 0x41, stag, 1, 1, 0, readReq(1, 2, 0, 3, 4)))
	for id := range uint64(2) {
		if wc := s.want(t, rnic.OpRecv, id+1, rnic.WCSuccess); wc.Invalidated != 0 {
			t.Errorf("%+v", wc)
		}
	}
	s.wantSegment(tagged(0xc1, 0x42, 1, 2, nil))
	if !w.wr.Valid() {
		t.Error("invalidated")
	}
	s.fpdu(untagged(0x41, 0x47, stag, 2, 1, 0, []byte{0x11, 2, 0, 0}))
	s.wantEnd(t, &term.PeerError{Code: term.DDPSTagNotOfStream})
	if !w.wr.Valid() {
		t.Error("invalidated by a Terminate")
	}
	s.c.Close()
}

// TestSharedSTag: no peer can invalidate an STag shared by several QPs.
func TestSharedSTag(t *testing.T) {
	conformance.Proves(t, "R5040-135", "R5040-210")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	second, err := s.pd.CreateQP(rnic.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SQDepth: 1, RQDepth: 1})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	defer second.Close()
	s.open()
	seg := untagged(0x41, 0x44, w.wr.STag(), 0, 1, 0, nil)
	s.fpdu(seg)
	s.wantSegment(terminate(0x01, 9, 0xc0, bad(seg, 18)))
	if !w.wr.Valid() {
		t.Error("invalidated")
	}
	s.c.Close()
}

// TestFirstErrorIsReported: of two faults the first is in the Terminate, and there is one
// Terminate.
func TestFirstErrorIsReported(t *testing.T) {
	conformance.Proves(t, "R5040-191", "R5041-110")
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	s.open()
	first := tagged(0xc1, 0x40, w.rd.STag(), w.rd.Base(), []byte("no right"))
	b := mpa.AppendFPDU(nil, true, first)
	s.say(mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 9, 1, 0, nil)))
	s.wantSegment(terminate(0x11, 0, 0xc0, bad(first, 14)))
	s.wantEOF()
	s.c.Close()
}

// TestTerminateNeedsNoReceive: a Terminate takes no receive.
func TestTerminateNeedsNoReceive(t *testing.T) {
	conformance.Proves(t, "R5041-053", "R5040-138", "R5040-139", "R5040-140")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	s.fpdu(terminate(0x02, 6, 0xc0, bad(untagged(0x41, 0x4f, 0, 0, 1, 0, nil), 18)))
	s.wantEnd(t, &term.PeerError{Code: term.RDMAPOpcode})
	var e *term.PeerError
	if !errors.As(s.qp.Err(), &e) || e.SegLen != 18 {
		t.Errorf("%+v", e)
	}
	s.c.Close()
}

// TestWrongResponses: a response must match the oldest Read, byte for byte.
func TestWrongResponses(t *testing.T) {
	conformance.Proves(t, "R5040-115", "R5040-117", "R5040-127", "R5040-187")
	for name, c := range map[string]struct {
		seg  func(w *world) []byte
		want term.Code
	}{
		"another STag": {func(w *world) []byte { return tagged(0xc1, 0x42, w.wr.STag(), w.wr.Base(), make([]byte, 8)) }, term.DDPInvalidSTag},
		"before": {func(w *world) []byte {
			return tagged(0xc1, 0x42, w.readSink.STag(), w.readSink.Base(), make([]byte, 8))
		}, term.DDPBounds},
		"too long": {func(w *world) []byte {
			return tagged(0xc1, 0x42, w.readSink.STag(), w.readSink.Base()+4, make([]byte, 9))
		}, term.DDPBounds},
		"too short": {func(w *world) []byte {
			return tagged(0xc1, 0x42, w.readSink.STag(), w.readSink.Base()+4, make([]byte, 7))
		}, term.DDPBounds},
		"no end": {func(w *world) []byte {
			return tagged(0x81, 0x42, w.readSink.STag(), w.readSink.Base()+4, make([]byte, 8))
		}, term.DDPBounds},
	} {
		s := scriptInitiator(t, rnic.ConnParams{})
		w := newWorld(t, s)
		s.open()
		full := bytes.Repeat([]byte{7}, 64)
		copy(bufOf(w.readSink), full)
		post(t, s.qp, rnic.SendWR{ID: 9, Op: rnic.OpRead, MR: w.readSink, Offset: 4, Length: 8, RemoteSTag: 1})
		s.hearULPDU()
		seg := c.seg(w)
		s.fpdu(seg)
		s.wantSegment(terminate(c.want.Layer<<4|c.want.EType, c.want.Code, 0xc0, bad(seg, 14)))
		s.wantEnd(t, &term.Error{Code: c.want})
		if !bytes.Equal(bufOf(w.readSink), full) || !bytes.Equal(bufOf(w.wr), make([]byte, 64)) {
			t.Errorf("%s: bytes were placed", name)
		}
		s.want(t, rnic.OpRead, 9, rnic.WCFlushErr)
		s.c.Close()
	}
}

// TestAccessMatrix: each set of rights allows its accesses, on its QPs, until it is revoked.
func TestAccessMatrix(t *testing.T) {
	conformance.Proves(t, "R5041-131", "R5041-133", "R5041-139", "R5041-140", "R5040-023", "R5040-207", "R5040-208")
	for rights := range rnic.RemoteRead | rnic.RemoteWrite | rnic.LocalWrite + 1 {
		for _, use := range []string{"Write", "Read", "Write when bound to it", "Write when bound to another", "Write when revoked"} {
			s := scriptInitiator(t, rnic.ConnParams{})
			s.open()
			mr, _ := s.pd.RegMR(make([]byte, 8), rights)
			seg, need := tagged(0xc1, 0x40, mr.STag(), mr.Base(), []byte("12345678")), rnic.RemoteWrite
			switch use {
			case "Read":
				seg, need = untagged(0x41, 0x41, 0, 1, 1, 0, readReq(7, 7, 8, mr.STag(), mr.Base())), rnic.RemoteRead
			case "Write when bound to it":
				mr.Bind(s.qp)
			case "Write when bound to another":
				mr.Bind(new(rnic.QP))
				need = 1 << 7
			case "Write when revoked":
				mr.Invalidate()
				need = 1 << 7
			}
			recv(t, s.qp, 1, nil)
			b := mpa.AppendFPDU(nil, true, seg)
			s.say(mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 0, nil)))
			wc := s.next(t)
			if ok := wc.Status == rnic.WCSuccess; ok != (rights&need == need) {
				t.Errorf("rights %b, %s: allowed is %v", rights, use, ok)
			}
			s.c.Close()
		}
	}
}

// TestLocalErrorHasNoHeaders: a local error is reported without headers from the peer, and after it
// nothing is sent.
func TestLocalErrorHasNoHeaders(t *testing.T) {
	conformance.Proves(t, "R5040-006", "R5040-035", "R5040-063", "R5040-082", "R5040-143", "R5040-188")
	s := scriptCQ(t, rnic.DeviceConfig{}, rnic.ConnParams{}, 1)
	s.open()
	recv(t, s.qp, 1, nil)
	recv(t, s.qp, 2, nil)
	b := mpa.AppendFPDU(nil, true, untagged(0x41, 0x43, 0, 0, 1, 0, nil))
	s.say(mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 2, 0, nil)))
	s.wantSegment(terminate(0, 0, 0, nil))
	s.wantEOF()
	s.wantEnd(t, rnic.ErrCQOverrun)
	s.c.Close()
}

// TestExtensions: the opcodes of RFC 7306 are not served, and undefined ones are refused.
func TestExtensions(t *testing.T) {
	conformance.Proves(t, "R5040-036", "R5040-193", "R5040-257", "R5040-272")
	for op := byte(8); op < 16; op++ {
		qn := map[byte]uint32{10: 1, 11: 3}[op]
		s := scriptInitiator(t, rnic.ConnParams{})
		recv(t, s.qp, 1, make([]byte, 64))
		s.open()
		seg := untagged(0x41, 0x40|op, 0, qn, 1, 0, make([]byte, 8))
		s.fpdu(seg)
		s.wantSegment(terminate(0x02, 6, 0xc0, bad(seg, 18)))
		s.c.Close()
	}
}

// TestPooledReceiveIsBounded: a message longer than the pool's buffers is refused before it takes
// one, in one segment and in several (RFC 5041 §5.2).
func TestPooledReceiveIsBounded(t *testing.T) {
	for _, parts := range [][]int{{101}, {60, 41}} {
		s := scriptInitiator(t, rnic.ConnParams{})
		if err := s.qp.PostRecv(rnic.RecvWR{ID: 1, Pool: rnic.NewBufferPool(100)}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
		s.open()
		at := 0
		for i, n := range parts {
			flags := byte(0x01)
			if i == len(parts)-1 {
				flags = 0x41
			}
			s.fpdu(untagged(flags, 0x43, 0, 0, 1, uint32(at), make([]byte, n)))
			at += n
		}
		s.wantEnd(t, errLong)
	}
}

// TestSmallMessagesTakeSmallBuffers: a small single-segment message holds less than the pool's
// size; one that continues after a small segment has room for the rest.
func TestSmallMessagesTakeSmallBuffers(t *testing.T) {
	const size = 64 << 10
	s := scriptInitiator(t, rnic.ConnParams{})
	pool := rnic.NewBufferPool(size)
	for id := range uint64(3) {
		if err := s.qp.PostRecv(rnic.RecvWR{ID: id, Pool: pool}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}
	s.open()
	data := noise(20_000)
	s.fpdu(untagged(0x41, 0x43, 0, 0, 1, 0, data[:100]))
	s.fpdu(untagged(0x01, 0x43, 0, 0, 2, 0, data[:100]))
	s.fpdu(untagged(0x41, 0x43, 0, 0, 2, 100, data[100:]))
	s.fpdu(untagged(0x41, 0x43, 0, 0, 3, 0, data))
	for id, n := range []int{100, 20_000, 20_000} {
		wc := s.want(t, rnic.OpRecv, uint64(id), rnic.WCSuccess)
		if int(wc.Len) != n || !bytes.Equal(wc.Buf[:n], data[:n]) {
			t.Errorf("message %d: %d bytes, want %d and their content", id, wc.Len, n)
		}
		if small := len(wc.Buf) < size; small != (n == 100) {
			t.Errorf("message %d of %d bytes is in a buffer of %d", id, n, len(wc.Buf))
		}
		pool.Put(wc.Buf)
	}
}
