// A scripted peer's connection: start-up, sending FPDUs, receiving segments.

// Package peer is a scripted peer of our server or client. It consists of each layer's codecs and a
// socket, without a QP, so it can send what a QP never would.
package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// patience limits the wait for bytes before the test fails.
const patience = 5 * time.Minute

// A Peer is one connection. It belongs to one goroutine.
type Peer struct {
	T testing.TB
	C net.Conn

	CRC     bool   // FPDUs have CRCs
	SendMSN uint32 // of the next Send
	ReadMSN uint32 // of the next RDMA Read Request

	Memory map[uint32]*Region // memory that the server may read and write, by STag
	Writes []Write            // the server's writes, in order
	Reads  []rdmap.ReadRequest
	// OnRead, if set, is called before a Read is answered. If it returns false, the Read is not
	// answered, and Next returns ErrRead.
	OnRead func(*rdmap.ReadRequest) bool
	// Strict, set by Dial, fails the test if the server uses unadvertised memory. Without Strict,
	// such an access ends the connection.
	Strict bool

	in  []byte // bytes not yet parsed
	err error  // the error that Next returns again
	msg []byte // the Send being received
}

// A Region is memory advertised to the server.
type Region struct {
	Base     uint64
	B        []byte
	ReadOnly bool
}

// A Write is the destination of an RDMA Write segment.
type Write struct {
	STag uint32
	TO   uint64
	Len  int
}

// Raw connects by TCP and sends nothing.
func Raw(t testing.TB, addr string) *Peer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &Peer{T: t, C: c, CRC: true, SendMSN: 1, ReadMSN: 1, Strict: true, Memory: map[uint32]*Region{}}
}

// Request returns a valid MPA Request with the private data of a client that accepts and sends 4096
// bytes inline and any invalidation.
func Request() *mpa.Frame {
	return &mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16},
		PrivateData: rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})}
}

// Dial connects and performs the MPA start-up.
func Dial(t testing.TB, addr string) *Peer { t.Helper(); return DialWith(t, addr, Request()) }

// DialWith connects like Dial, with another Request. The server must accept it.
func DialWith(t testing.TB, addr string, req *mpa.Frame) *Peer {
	t.Helper()
	p := Raw(t, addr)
	p.Say(mpa.AppendFrame(nil, req))
	if rep := p.Reply(); rep.Reject {
		t.Fatal("the server rejects the connection")
	} else {
		p.CRC = req.CRC || rep.CRC
	}
	return p
}

// Reply reads the server's start-up frame.
func (p *Peer) Reply() mpa.Frame {
	p.T.Helper()
	b := p.hear(mpa.HeaderLen)
	b = append(b, p.hear(int(binary.BigEndian.Uint16(b[18:])))...)
	f, _, err := mpa.ParseFrame(b, true)
	if err != nil {
		p.T.Fatalf("start-up frame %x: %v", b, err)
	}
	return f
}

func (p *Peer) hear(n int) []byte {
	p.T.Helper()
	b := make([]byte, n)
	if m, err := io.ReadFull(p.C, b); err != nil {
		p.T.Fatalf("wanted %d bytes, got %x: %v", n, b[:m], err)
	}
	return b
}

// Say sends raw bytes. A connection closed by the server is no failure.
func (p *Peer) Say(b []byte) {
	p.T.Helper()
	if _, err := p.C.Write(b); err != nil && !gone(err) {
		p.T.Fatal(err)
	}
}

// gone reports whether an error means that the other side has closed the connection.
func gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// FPDU sends one FPDU.
func (p *Peer) FPDU(ulpdu ...[]byte) {
	p.T.Helper()
	p.Say(mpa.AppendFPDU(nil, p.CRC, ulpdu...))
}

// Segment sends one segment with a custom header.
func (p *Peer) Segment(h ddp.Header, payload []byte) {
	p.T.Helper()
	p.FPDU(h.Append(nil), payload)
}

// sendMax is the payload of segments made by Send.
const sendMax = 1400

// Send sends a message with the next MSN for Sends.
func (p *Peer) Send(op rdmap.Opcode, inv uint32, msg ...byte) {
	p.T.Helper()
	var out []byte
	for mo := 0; mo == 0 || mo < len(msg); mo += sendMax {
		end := min(mo+sendMax, len(msg))
		h := ddp.Header{Last: end == len(msg), Ctrl: rdmap.Control(op), Inv: inv, MSN: p.SendMSN, MO: uint32(mo)}
		out = mpa.AppendFPDU(out, p.CRC, h.Append(nil), msg[mo:end])
	}
	p.SendMSN++
	p.Say(out)
}

// Message sends msg by a Send without invalidation.
func (p *Peer) Message(msg []byte) { p.T.Helper(); p.Send(rdmap.OpSend, 0, msg...) }

// A Terminated is a Terminate from the server.
type Terminated struct{ term.Terminate }

func (e *Terminated) Error() string { return "terminated: " + e.Code.String() }

// Next returns the server's next message. While it waits, it answers RDMA Reads and accepts RDMA
// Writes. The error is io.EOF if the connection has ended silently, or a *Terminated. Violations of
// a MUST NOT fail the test.
func (p *Peer) Next() ([]byte, error) {
	p.T.Helper()
	if err := p.err; err != nil {
		p.err = nil
		return nil, err
	}
	for {
		ulpdu, err := p.ulpdu()
		if err != nil {
			return nil, err
		}
		h, payload, err := ddp.Parse(ulpdu)
		if err != nil {
			p.T.Fatalf("segment %x: %v", ulpdu, err)
		}
		op, err := rdmap.ParseControl(h.Ctrl)
		if err == nil {
			err = op.Check(h.Tagged, h.QN)
		}
		if err != nil {
			p.T.Fatalf("segment %x: %v", ulpdu[:14], err)
		}
		if msg, err, done := p.take(op, &h, payload); done {
			return msg, err
		}
	}
}

// Unread makes Next return err again.
func (p *Peer) Unread(err error) { p.err = err }

// readBuffers are shared by the connections, because thousands may be open.
var readBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// ulpdu reads one FPDU.
func (p *Peer) ulpdu() ([]byte, error) {
	buf := readBuffers.Get().(*[64 << 10]byte)
	defer readBuffers.Put(buf)
	for {
		u, n, err := mpa.ParseFPDU(p.in, p.CRC)
		if err != nil {
			p.T.Fatalf("the server sent a bad FPDU: %v", err)
		}
		if n > 0 {
			p.in = p.in[n:]
			return u, nil
		}
		m, err := p.C.Read(buf[:])
		p.in = append(p.in[:len(p.in):len(p.in)], buf[:m]...)
		switch {
		case m > 0:
		case errors.Is(err, io.EOF) && len(p.in) == 0 || gone(err):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("after %d bytes: %w", len(p.in), err)
		}
	}
}

// take handles a segment; done means that Next must return.
func (p *Peer) take(op rdmap.Opcode, h *ddp.Header, payload []byte) (msg []byte, err error, done bool) {
	switch op {
	case rdmap.OpWrite:
		if !p.place(h, payload) {
			return nil, ErrAccess, true
		}
	case rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(payload)
		if err != nil {
			p.T.Fatal(err)
		}
		p.Reads = append(p.Reads, q)
		if p.OnRead != nil && !p.OnRead(&q) {
			return nil, ErrRead, true
		}
		if !p.Respond(&q) {
			return nil, ErrAccess, true
		}
	case rdmap.OpTerminate:
		t, err := term.Parse(payload, false)
		if err != nil {
			p.T.Fatal(err)
		}
		return nil, &Terminated{t}, true
	case rdmap.OpReadResponse:
		return payload, nil, true
	default:
		p.msg = append(p.msg, payload...)
		if h.Last {
			msg, p.msg = p.msg, nil
			return msg, nil, true
		}
	}
	return nil, nil, false
}

// ErrAccess is returned by Next of a Peer without Strict after the server has used unadvertised
// memory.
var ErrAccess = errors.New("access to memory that is not registered")

// ErrRead is returned by Next for an RDMA Read rejected by OnRead.
var ErrRead = errors.New("an RDMA Read that is not answered")

// refused handles a forbidden access.
func (p *Peer) refused(what string, stag uint32, to uint64, n int) bool {
	p.T.Helper()
	if p.Strict {
		p.T.Fatalf("the server %s %d bytes at %x of %08x, which it was not told of", what, n, to, stag)
	}
	return false
}

func (p *Peer) place(h *ddp.Header, payload []byte) bool {
	p.Writes = append(p.Writes, Write{h.STag, h.TO, len(payload)})
	if len(payload) == 0 {
		return true
	}
	r := p.Memory[h.STag]
	if r == nil || r.ReadOnly || h.TO < r.Base || h.TO-r.Base+uint64(len(payload)) > uint64(len(r.B)) {
		return p.refused("writes", h.STag, h.TO, len(payload))
	}
	copy(r.B[h.TO-r.Base:], payload)
	return true
}

// Respond answers an RDMA Read from the server. It returns false if the Read is not permitted.
func (p *Peer) Respond(q *rdmap.ReadRequest) bool {
	p.T.Helper()
	r := p.Memory[q.SrcSTag]
	if q.Size > 0 && (r == nil || q.SrcTO < r.Base || q.SrcTO-r.Base+uint64(q.Size) > uint64(len(r.B))) {
		return p.refused("reads", q.SrcSTag, q.SrcTO, int(q.Size))
	}
	var data []byte
	if q.Size > 0 {
		data = r.B[q.SrcTO-r.Base:][:q.Size]
	}
	const step = 60000
	for at := 0; at == 0 || at < len(data); at += step {
		end := min(at+step, len(data))
		p.Segment(ddp.Header{Tagged: true, Last: end == len(data), Ctrl: rdmap.Control(rdmap.OpReadResponse),
			STag: q.SinkSTag, TO: q.SinkTO + uint64(at)}, data[at:end])
	}
	return true
}
