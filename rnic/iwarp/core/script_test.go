// The core without a network: the test sends and receives FPDUs by hand, in one goroutine and
// without delay.

package core

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// Constructors for segments made by hand.
var (
	tagged    = rnictest.Tagged
	untagged  = rnictest.Untagged
	readReq   = rnictest.ReadReq
	terminate = rnictest.Terminate
	bad       = rnictest.Returned
)

// A memoryProvider is a provider without a network: its endpoints are cores, and it keeps their
// output.
type memoryProvider struct{ cfg rnic.DeviceConfig }

func (p *memoryProvider) Caps() rnic.Caps {
	return rnic.Caps{Provider: "slate", Services: 1 << rnic.RC, RDMARead: true, RemoteInval: true, Reliable: true,
		Immediate: p.cfg.Extensions, Atomics: p.cfg.Extensions}
}

func (p *memoryProvider) NewEndpoint(q *rnic.ProviderQP, cfg rnic.QPConfig) (rnic.Endpoint, error) {
	e := &memoryEndpoint{q: q, cfg: p.cfg, mss: 65_480, room: 1 << 40}
	e.work.Init(q, cfg.SQDepth)
	e.in.Init(q, &e.work)
	e.out.Init(q, &e.work)
	return e, nil
}

func (*memoryProvider) Connect(context.Context, rnic.Endpoint, string, rnic.ConnParams) error {
	return errors.ErrUnsupported
}
func (*memoryProvider) Listen(rnic.Service, string, string) (rnic.Listener, error) {
	return nil, errors.ErrUnsupported
}

// A memoryEndpoint is a core and both directions of its stream.
type memoryEndpoint struct {
	q    *rnic.ProviderQP
	cfg  rnic.DeviceConfig
	work Work
	in   Inbound
	out  Outbound

	left  []byte // received and unused
	sent  []byte // sent and unread
	room  int    // the number of bytes TCP still takes
	mss   int
	batch int // number of batches made
	ended bool
	peer  *memoryEndpoint // not nil: receives this end's output
}

// start begins the stream, as after MPA start-up.
func (e *memoryEndpoint) start(m Modes, ird, ord int, gated bool) {
	if !e.q.Established(rnic.Connected{IRD: ird, ORD: ord}) {
		panic("not idle")
	}
	e.in.Start(m)
	e.out.Start(m)
	e.work.Start(ird, ord, gated)
}

func (e *memoryEndpoint) PostSend(wrs []rnic.Posted) error {
	mine, err := e.work.Post(wrs)
	if mine {
		e.send()
	}
	return err
}

// send transmits while there is work and TCP takes it.
func (e *memoryEndpoint) send() {
	for !e.ended {
		fresh := e.out.b.empty()
		if fresh && e.out.NeedsMSS() {
			e.out.SetMSS(e.mss)
		}
		if err := e.out.Fill(); err != nil {
			e.fail(err)
			return
		}
		pieces, _ := e.out.Pending()
		if len(pieces) == 0 {
			if e.work.Rest() {
				e.deliver()
				return
			}
			continue
		}
		if fresh {
			e.batch++
		}
		n := 0
		for _, p := range pieces {
			p = p[:min(len(p), e.room)]
			e.sent = append(e.sent, p...)
			n += len(p)
			e.room -= len(p)
		}
		if !e.out.Sent(n) {
			e.fail(rnic.ErrCQOverrun)
			return
		}
		if e.room == 0 {
			e.work.HandOver()
			return
		}
	}
}

// deliver passes the sent bytes to the peer, if there is one.
func (e *memoryEndpoint) deliver() {
	if p := e.peer; p != nil && len(e.sent) > 0 {
		b := e.sent
		e.sent = nil
		p.receive(b)
	}
}

// grant makes TCP take n more bytes.
func (e *memoryEndpoint) grant(n int) {
	if e.room += n; e.work.TurnOfLoop() {
		e.send()
	}
}

// receive takes the peer's bytes, with calls in the same order as for a socket.
func (e *memoryEndpoint) receive(b []byte) {
	for {
		if e.in.Direct() > 0 {
			if p, ok := e.in.Borrow(); ok {
				b = b[e.in.Return(copy(p, b)):]
			}
		} else {
			e.left = append(e.left, b...)
			b = nil
		}
		used, err := e.in.Consume(e.left)
		e.left = e.left[used:]
		if e.in.Stopped() {
			e.left, b = nil, nil
			e.in.Discard()
		}
		if err != nil {
			e.fail(err)
		}
		if len(b) == 0 {
			break
		}
	}
	if e.work.Uncork() {
		e.send()
	}
	e.q.Notify()
}

// fail ends the stream like a provider's loops.
func (e *memoryEndpoint) fail(err error) {
	var f *Fault
	if errors.Is(err, rnic.ErrCQOverrun) {
		f = LocalFault(err)
	} else if errors.As(err, &f) {
		err = f.Err
	}
	if !e.q.Fail(err, f != nil) {
		return
	}
	rest := e.out.Stop()
	e.in.Stop()
	e.work.Flush()
	e.q.Flushed()
	if f != nil && !e.work.Gated() {
		rest = e.out.Terminate(rest, f)
	}
	e.sent = append(e.sent, rest...)
	e.in.Release()
	e.work.GiveUp()
	e.q.Ended()
	e.ended = true
	e.deliver()
}

func (e *memoryEndpoint) Release(mr *rnic.MR)              { e.out.Detach(mr) }
func (e *memoryEndpoint) Abort(err error)                  { e.fail(err) }
func (e *memoryEndpoint) Disconnect(context.Context) error { return errors.ErrUnsupported }
func (e *memoryEndpoint) ReceivesPosted()                  {}
func (e *memoryEndpoint) Leave(netip.Addr)                 {}
func (e *memoryEndpoint) Join(netip.Addr) (rnic.AddressHandle, error) {
	return rnic.AddressHandle{}, errors.ErrUnsupported
}
func (e *memoryEndpoint) Wait()                {}
func (e *memoryEndpoint) Moved() uint64        { return 0 }
func (e *memoryEndpoint) LocalAddr() net.Addr  { return nil }
func (e *memoryEndpoint) RemoteAddr() net.Addr { return nil }

// A side is one end of a connection under test.
type side struct {
	dev *rnic.Device
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
	end *memoryEndpoint
}

func newSide(t testing.TB, cfg rnic.DeviceConfig, depth int) *side {
	return newSideCQ(t, cfg, depth, 2*depth)
}

func newSideCQ(t testing.TB, cfg rnic.DeviceConfig, depth, completions int) *side {
	t.Helper()
	s := &side{dev: rnic.NewDevice(&memoryProvider{cfg})}
	s.pd = s.dev.AllocPD()
	s.cq = s.dev.NewCQ(completions)
	var err error
	s.qp, err = s.pd.CreateQP(rnic.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SQDepth: depth, RQDepth: depth})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	s.end = rnic.EndpointOf(s.qp).(*memoryEndpoint)
	return s
}

// joined returns two connected sides; a is the initiator.
func joined(t testing.TB, acfg, bcfg rnic.DeviceConfig, depth int) (a, b *side) {
	t.Helper()
	a, b = newSide(t, acfg, depth), newSide(t, bcfg, depth)
	join(a, b)
	return a, b
}

func join(a, b *side) {
	crc := a.end.cfg.CRC == rnic.CRCOn || b.end.cfg.CRC == rnic.CRCOn
	am, bm := a.end.cfg.Markers, b.end.cfg.Markers
	ord := 128
	for _, s := range []*side{a, b} {
		if n := s.end.cfg.MaxORD; n > 0 {
			ord = min(ord, n)
		}
	}
	a.end.start(Modes{CRC: crc, SendMarkers: bm, RecvMarkers: am, Direct: true, WholeTrailer: crc, Extensions: a.end.cfg.Extensions}, 128, ord, false)
	b.end.start(Modes{CRC: crc, SendMarkers: am, RecvMarkers: bm, Direct: true, Extensions: b.end.cfg.Extensions}, 128, ord, true)
	a.end.peer, b.end.peer = b.end, a.end
}

// next returns the next completion.
func (s *side) next(t testing.TB) rnic.WC {
	t.Helper()
	var wc [1]rnic.WC
	if s.cq.Poll(wc[:]) == 0 {
		t.Fatalf("no completion (QP: %v)", s.qp.Err())
	}
	return wc[0]
}

// want takes the next completion, and requires opcode, id and status.
func (s *side) want(t testing.TB, op rnic.Opcode, id uint64, st rnic.Status) rnic.WC {
	t.Helper()
	wc := s.next(t)
	if wc.Op != op || wc.ID != id || wc.Status != st {
		t.Fatalf("completion %+v, want opcode %d id %d status %d (QP: %v)", wc, op, id, st, s.qp.Err())
	}
	return wc
}

// wantEnd requires that the QP has ended with the error target.
func (s *side) wantEnd(t *testing.T, target error) {
	t.Helper()
	if err := s.qp.Err(); err == nil || !errors.Is(err, target) && err != target {
		t.Fatalf("Err is %v, want %v", err, target)
	}
}

func post(t testing.TB, qp *rnic.QP, wrs ...rnic.SendWR) {
	t.Helper()
	if err := qp.PostSend(wrs...); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
}

func recv(t testing.TB, qp *rnic.QP, id uint64, buf []byte) {
	t.Helper()
	if err := qp.PostRecv(rnic.RecvWR{ID: id, Buf: buf}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// bufOf returns a region's current memory without a check: nil if it is invalid.
func bufOf(mr *rnic.MR) []byte { return reflect.ValueOf(mr).Elem().FieldByName("buf").Bytes() }

// holds reports whether the region begins with want.
func holds(mr *rnic.MR, want []byte) bool { return bytes.HasPrefix(bufOf(mr), want) }

// A script is the other end of a side's conversation.
type script struct {
	*side
	t *testing.T
	c hangUp
}

// A hangUp closes the stream at the peer's side.
type hangUp struct{ s *script }

// Close gives the stream the peer's FIN.
func (h hangUp) Close() error {
	e := h.s.end
	if len(e.left) > 0 || e.in.InPlacement() {
		e.fail(rnic.ErrConnLost)
	} else if e.work.Outstanding() || e.in.InMessage() {
		e.fail(rnic.ErrConnLost)
	} else {
		e.fail(io.EOF)
	}
	return nil
}

// scriptInitiator connects a hand-made peer to our QP, with CRCs.
func scriptInitiator(t *testing.T, p rnic.ConnParams) *script {
	t.Helper()
	return scriptWith(t, rnic.DeviceConfig{}, p)
}

// scriptWith does the same as scriptInitiator, for a device configured by cfg. The peer requests
// CRCs if we do.
func scriptWith(t *testing.T, cfg rnic.DeviceConfig, p rnic.ConnParams) *script {
	t.Helper()
	return scriptCQ(t, cfg, p, 32)
}

func scriptCQ(t *testing.T, cfg rnic.DeviceConfig, p rnic.ConnParams, completions int) *script {
	t.Helper()
	s := &script{side: newSideCQ(t, cfg, 16, completions), t: t}
	s.c.s = s
	if p.IRD == 0 {
		p.IRD = 128
	}
	if p.ORD == 0 {
		p.ORD = 16
	}
	s.end.start(Modes{CRC: cfg.CRC == rnic.CRCOn || cfg.CRC == rnic.CRCStrict, Strict: cfg.CRC == rnic.CRCStrict, RecvMarkers: cfg.Markers, Extensions: cfg.Extensions, Direct: true}, p.IRD, p.ORD, true)
	return s
}

func (s *script) say(b []byte) { s.end.receive(b) }

// fpdu sends one FPDU with a good CRC.
func (s *script) fpdu(parts ...[]byte) { s.say(mpa.AppendFPDU(nil, true, parts...)) }

func (s *script) hear(n int) []byte {
	s.t.Helper()
	if len(s.end.sent) < n {
		s.end.grant(n - len(s.end.sent))
	}
	if len(s.end.sent) < n {
		s.t.Fatalf("wanted %d bytes, got %x (QP: %v)", n, s.end.sent, s.qp.Err())
	}
	b := s.end.sent[:n:n]
	s.end.sent = s.end.sent[n:]
	return b
}

// hearULPDU reads one FPDU and checks its CRC.
func (s *script) hearULPDU() []byte {
	s.t.Helper()
	b := s.hear(2)
	b = append(b, s.hear(mpa.FPDULen(int(b[0])<<8|int(b[1]))-2)...)
	u, _, err := mpa.ParseFPDU(b, s.end.out.crc)
	if err != nil {
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

// wantSegment requires one segment, header and payload.
func (s *script) wantSegment(want []byte) {
	s.t.Helper()
	if got := s.hearULPDU(); !bytes.Equal(got, want) {
		s.t.Fatalf("segment of %d bytes %x…, want %d bytes %x…", len(got), got[:min(len(got), 18)], len(want), want[:min(len(want), 18)])
	}
}

// wantIdle requires that nothing was sent.
func (s *script) wantIdle() {
	s.t.Helper()
	if len(s.end.sent) > 0 {
		s.t.Fatalf("sent %x", s.end.sent)
	}
}

// wantEOF requires the end of our output and nothing before it.
func (s *script) wantEOF() {
	s.t.Helper()
	if !s.end.ended || len(s.end.sent) > 0 {
		s.t.Fatalf("wanted the end, got %x (QP: %v)", s.end.sent, s.qp.Err())
	}
}

// open sends an FPDU that opens the gate and has no other effect: an empty Write.
func (s *script) open() { s.fpdu(tagged(0xc1, 0x40, 1, 0, nil)) }
