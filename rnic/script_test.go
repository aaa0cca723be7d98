// A scripted peer: a raw TCP connection that says octets by hand and reads what comes back.

package rnic

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A script is the other end of the conversation with side s.
type script struct {
	*side
	t *testing.T
	c net.Conn
}

// scriptInitiator has a hand-made peer connect to a QP of ours, CRC on.
func scriptInitiator(t *testing.T, p ConnParams) *script {
	t.Helper()
	return scriptWith(t, DeviceConfig{}, p)
}

// scriptOver is scriptInitiator on a net.Pipe, which has no buffer and no system calls.
func scriptOver(t *testing.T) *script {
	t.Helper()
	s := &script{side: newSide(t, DeviceConfig{}, 16), t: t}
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
		t.Fatal(err)
	}
	go r.Accept(s.qp, ConnParams{})
	s.hear(24)
	return s
}

// scriptWith is scriptInitiator with a device of ours that behaves as cfg says; the
// peer asks for CRCs if we do.
func scriptWith(t *testing.T, cfg DeviceConfig, p ConnParams) *script {
	t.Helper()
	s := &script{side: newSide(t, cfg, 16), t: t}
	l, err := s.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.dial(l.Addr())
	s.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: cfg.CRC == CRCOn, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
	r, err := l.Accept(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Accept(s.qp, p); err != nil {
		t.Fatal(err)
	}
	s.hear(24) // the Reply
	return s
}

func (s *script) dial(a net.Addr) {
	s.t.Helper()
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		s.t.Fatal(err)
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

// fpdu says one FPDU with a good CRC.
func (s *script) fpdu(parts ...[]byte) {
	s.t.Helper()
	s.say(mpa.AppendFPDU(nil, true, parts...))
}

func (s *script) hear(n int) []byte {
	s.t.Helper()
	b := make([]byte, n)
	if m, err := io.ReadFull(s.c, b); err != nil {
		s.t.Fatalf("wanted %d octets, got %x: %v", n, b[:m], err)
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

// wantOctets reads as many octets as want has.
func (s *script) wantOctets(want []byte) {
	s.t.Helper()
	if got := s.hear(len(want)); !bytes.Equal(got, want) {
		s.t.Fatalf("got  %x\nwant %x", got, want)
	}
}

// wantEOF wants the peer's FIN and nothing before it.
func (s *script) wantEOF() {
	s.t.Helper()
	if b, err := io.ReadAll(s.c); err != nil || len(b) > 0 {
		s.t.Fatalf("wanted EOF, got %x, %v", b, err)
	}
}

// open says an FPDU that opens the gate and is no work for anybody: an empty Write.
func (s *script) open() {
	s.t.Helper()
	s.fpdu(tagged(0xc1, 0x40, 1, 0, nil))
}

// tagged is a tagged segment.
func tagged(ddp, ctrl byte, stag STag, to uint64, payload []byte) []byte {
	b := []byte{ddp, ctrl}
	b = binary.BigEndian.AppendUint32(b, uint32(stag))
	b = binary.BigEndian.AppendUint64(b, to)
	return append(b, payload...)
}

// untagged is an untagged segment.
func untagged(ddp, ctrl byte, inv STag, qn, msn, mo uint32, payload []byte) []byte {
	b := []byte{ddp, ctrl}
	for _, v := range []uint32{uint32(inv), qn, msn, mo} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, payload...)
}

// readReq is the payload of a Read Request.
func readReq(sink STag, sinkTO uint64, size uint32, src STag, srcTO uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(sink))
	b = binary.BigEndian.AppendUint64(b, sinkTO)
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, uint32(src))
	return binary.BigEndian.AppendUint64(b, srcTO)
}

// terminate is the Terminate segment of a control field and what goes back.
func terminate(layerType, code, ctrl byte, back []byte) []byte {
	return untagged(0x41, 0x47, 0, 2, 1, 0, append([]byte{layerType, code, ctrl, 0}, back...))
}

// bad is what a Terminate returns of a segment: its length and n octets of it.
func bad(seg []byte, n int) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(seg))), seg[:n]...)
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
