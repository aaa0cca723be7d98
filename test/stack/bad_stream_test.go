// Bad input below RPC-over-RDMA: random and truncated bytes in start-up, first FPDU and mid-stream.

package stack

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// attacked starts a server with other clients, and returns a check that these still work.
func attacked(t *testing.T) (*rig.Server, func()) {
	t.Helper()
	return rig.Attacked(t, rig.Config{})
}

// finish closes the peer's direction: no more bytes will come.
func finish(c net.Conn) { c.(*net.TCPConn).CloseWrite() }

// trials returns the number of random inputs for each stage.
func trials() int {
	if full {
		return 2000
	}
	return 60
}

// TestBadStartup: a Request that is cut short, or random, closes the connection without an answer
// (RFC 5044 §7.1.2 [R5044-123]).
func TestBadStartup(t *testing.T) {
	s, works := attacked(t)
	good := mpa.AppendFrame(nil, peer.Request())
	for n := range good {
		p := peer.Raw(t, s.RDMA)
		p.Say(good[:n])
		finish(p.C)
		p.WantEnd(fmt.Sprintf("%d bytes of a Request", n))
		p.C.Close()
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range trials() {
		b := randomBytes(uint64(i), 1+r.IntN(600))
		if i%2 == 0 { // a good key, then nonsense
			b = append(good[:16:16], b...)
			if len(b) > 17 {
				b[17] |= 0x80 // an unknown revision
			}
		}
		p := peer.Raw(t, s.RDMA)
		p.Say(b)
		finish(p.C)
		p.WantEnd(fmt.Sprintf("start-up %x", b))
		p.C.Close()
	}
	works()
}

// TestBadFirstFPDU: an error in the very first FPDU closes the connection without a Terminate. A
// responder MUST NOT send before it has had a good FPDU (RFC 5044 §7.1.2).
func TestBadFirstFPDU(t *testing.T) {
	s, works := attacked(t)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range trials() {
		p := peer.Dial(t, s.RDMA)
		b := randomBytes(uint64(i), 1+r.IntN(100))
		b[0] |= 0x03 // an unknown DDP version
		switch i % 3 {
		case 0: // framed well
			p.FPDU(b)
		case 1: // not framed, or cut short, or of a bad CRC
			p.Say(b)
			finish(p.C)
		case 2:
			f := mpa.AppendFPDU(nil, true, b)
			f[len(f)-1]++
			p.Say(f)
		}
		p.WantEnd(fmt.Sprintf("first FPDU %x", b))
		p.C.Close()
	}
	works()
}

// pureFault returns the fault in a segment that is wrong in any state of the connection, or nil.
func pureFault(ulpdu []byte) *term.Error {
	var e *term.Error
	h, _, err := ddp.Parse(ulpdu)
	if err == nil {
		var op rdmap.Opcode
		op, err = rdmap.ParseControl(h.Ctrl)
		switch {
		case err != nil:
		case op > rdmap.OpTerminate: // RFC 7306 operations have not been agreed on
			return term.New(term.RDMAPOpcode, "")
		default:
			err = op.Check(h.Tagged, h.QN)
		}
	}
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// TestBadMidStream: random segments in the middle of a stream end it with a Terminate. If the
// segment alone determines the code, it is the table's.
func TestBadMidStream(t *testing.T) {
	s, works := attacked(t)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range trials() {
		p := peer.Dial(t, s.RDMA)
		p.Null("before")
		b := randomBytes(uint64(i), 1+r.IntN(80))
		if i%2 == 0 && len(b) > 2 { // the versions are good
			b[0], b[1] = b[0]&^3|1, b[1]&^0xc0|0x40
		}
		p.FPDU(b)
		_, err := p.Next()
		var got *peer.Terminated
		want := pureFault(b)
		switch op, _ := rdmap.ParseControl(0x40 | b[min(1, len(b)-1)]&0xf); {
		case errors.As(err, &got):
			if want != nil && got.Code != want.Code || !got.Code.Known() {
				t.Errorf("segment %x: Terminate %v, want %v", b, got.Code, want)
			}
			p.WantEnd("Terminate")
		case err == io.EOF && op == rdmap.OpTerminate: // nothing answers a Terminate, good or bad
		default:
			t.Errorf("segment %x: %v", b, err)
		}
		p.C.Close()
	}
	works()
}

// TestCutMidStream: a stream that ends inside an FPDU gets no Terminate. A bad CRC gets one.
func TestCutMidStream(t *testing.T) {
	s, works := attacked(t)
	xid := peer.XID()
	msg := peer.Inline(xid, peer.NFS(xid, 0, nil))
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: 2}
	f := mpa.AppendFPDU(nil, true, h.Append(nil), msg)
	for n := 1; n < len(f); n += 1 + len(f)/trials() {
		p := peer.Dial(t, s.RDMA)
		p.Null("before")
		p.Say(f[:n])
		finish(p.C)
		p.WantEnd(fmt.Sprintf("%d bytes of an FPDU", n))
		p.C.Close()

		p = peer.Dial(t, s.RDMA)
		p.Null("before")
		bad := append([]byte(nil), f...)
		bad[n] ^= 0x10
		if n < 2 {
			bad = append(bad, make([]byte, 1<<16)...) // a larger length has its bytes
		}
		p.Say(bad)
		p.WantTerminate(fmt.Sprintf("byte %d of an FPDU damaged", n), term.MPACRC)
		p.C.Close()
	}
	works()
}
