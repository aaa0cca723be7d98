// A scripted peer: a raw TCP connection that sends hand-made bytes and reads the answers.

package iwarp

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A script is the other end of the conversation with side s.
type script struct {
	*side
	t *testing.T
	c net.Conn
}

// scriptInitiator connects a hand-made peer to our QP, with CRCs.
func scriptInitiator(t *testing.T, p rnic.ConnParams) *script {
	t.Helper()
	return scriptWith(t, rnic.DeviceConfig{}, p)
}

// scriptOver connects a hand-made peer to our QP over a net.Pipe, which has no buffer and makes no
// system calls.
func scriptOver(t *testing.T) *script {
	t.Helper()
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 16), t: t}
	pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l := s.dev.ListenOn(pl)
	defer l.Close()
	ours, theirs := net.Pipe()
	pl.conns <- ours
	s.c = theirs
	t.Cleanup(func() { theirs.Close() })
	s.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
	r, err := l.Accept(context.Background())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	go r.Accept(s.qp, rnic.ConnParams{})
	s.hear(24)
	return s
}

// scriptWith does the same as scriptInitiator, for a device configured by cfg. The peer requests
// CRCs if we do.
func scriptWith(t *testing.T, cfg rnic.DeviceConfig, p rnic.ConnParams) *script {
	t.Helper()
	s := &script{side: newSide(t, cfg, 16), t: t}
	l, err := s.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	s.dial(l.Addr())
	s.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: cfg.CRC == rnic.CRCOn, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
	r, err := l.Accept(context.Background())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if err := r.Accept(s.qp, p); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	s.hear(24) // the Reply
	return s
}

func (s *script) dial(a net.Addr) {
	s.t.Helper()
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		s.t.Fatalf("Dial: %v", err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	s.t.Cleanup(func() { c.Close() })
	s.c = c
}

func (s *script) say(b []byte) {
	s.t.Helper()
	if _, err := s.c.Write(b); err != nil {
		s.t.Fatalf("%v (QP: %v)", err, s.qp.Err())
	}
}

// fpdu sends one FPDU with a good CRC.
func (s *script) fpdu(parts ...[]byte) {
	s.t.Helper()
	s.say(mpa.AppendFPDU(nil, true, parts...))
}

func (s *script) hear(n int) []byte {
	s.t.Helper()
	b := make([]byte, n)
	if m, err := io.ReadFull(s.c, b); err != nil {
		s.t.Fatalf("wanted %d bytes, got %x: %v", n, b[:m], err)
	}
	return b
}

// hearULPDU reads one FPDU and checks its CRC.
func (s *script) hearULPDU() []byte {
	s.t.Helper()
	b := s.hear(2)
	b = append(b, s.hear(mpa.FPDULen(int(binary.BigEndian.Uint16(b)))-2)...)
	u, n, err := mpa.ParseFPDU(b, true)
	if err != nil || n != len(b) {
		s.t.Fatalf("bad FPDU %x: %v", b, err)
	}
	return u
}

// wantBytes reads the bytes in want.
func (s *script) wantBytes(want []byte) {
	s.t.Helper()
	if got := s.hear(len(want)); !bytes.Equal(got, want) {
		s.t.Fatalf("got  %x\nwant %x", got, want)
	}
}

// wantEOF requires the peer's FIN and nothing before it.
func (s *script) wantEOF() {
	s.t.Helper()
	if b, err := io.ReadAll(s.c); err != nil || len(b) > 0 {
		s.t.Fatalf("wanted EOF, got %x, %v", b, err)
	}
}

// open sends an FPDU that opens the gate and has no other effect: an empty Write.
func (s *script) open() {
	s.t.Helper()
	s.fpdu(tagged(0xc1, 0x40, 1, 0, nil))
}

// Constructors for segments made by hand.
var (
	tagged    = rnictest.Tagged
	untagged  = rnictest.Untagged
	readReq   = rnictest.ReadReq
	terminate = rnictest.Terminate
)

// streamOf returns a QP's stream.
func streamOf(qp *rnic.QP) *stream { return rnic.EndpointOf(qp).(*stream) }

// holds reports whether a valid region of s begins with want.
func (s *side) holds(mr *rnic.MR, want []byte) bool {
	q := streamOf(s.qp).q
	p, f := q.Borrow(mr, mr.STag(), mr.Base(), mr.Len(), 0)
	if f != rnic.MemOK {
		return false
	}
	defer q.Return(mr)
	return bytes.HasPrefix(p, want)
}

// wantSegment requires one segment, header and payload.
func (s *script) wantSegment(want []byte) {
	s.t.Helper()
	if got := s.hearULPDU(); !bytes.Equal(got, want) {
		s.t.Fatalf("segment of %d bytes %x…, want %d bytes %x…", len(got), got[:min(len(got), 18)], len(want), want[:min(len(want), 18)])
	}
}

// next waits for the next completion.
func (s *side) next(t *testing.T) rnic.WC {
	t.Helper()
	var wc [1]rnic.WC
	for s.cq.Poll(wc[:]) == 0 {
		if err := s.cq.Wait(t.Context()); err != nil {
			t.Fatalf("Wait: %v", err)
		}
	}
	return wc[0]
}
