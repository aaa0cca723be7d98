// The two ends of FuzzConn: a peer that validates received messages, and our calls, which it
// answers.

package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A fuzzPeer records its own offers and ours.
type fuzzPeer struct {
	t    *testing.T
	peer *rnictest.Peer

	// turn holds a token while the fields below are used.
	turn        chan struct{}
	read, write []chunks.Segment    // for our RDMA Reads and Writes
	calls       []Header            // received
	asked       []rdmap.ReadRequest // received, not answered
	msg         []byte              // the Send being received
	granted     bool                // a message that may be a reply, and so grant credits, was sent
}

func newFuzzPeer(t *testing.T, p *rnictest.Peer) *fuzzPeer {
	return &fuzzPeer{t: t, peer: p, turn: make(chan struct{}, 1)}
}

func (p *fuzzPeer) lock()   { p.turn <- struct{}{} }
func (p *fuzzPeer) unlock() { <-p.turn }

// send sends a message, which invalidates inv if that is not 0.
func (p *fuzzPeer) send(inv uint32, msg []byte) error {
	p.lock()
	var h Header
	if h.Parse(msg) == nil {
		segmentsOf(&h, false, func(s chunks.Segment) { p.read = append(p.read, s) })
		segmentsOf(&h, true, func(s chunks.Segment) { p.write = append(p.write, s) })
		call := h.Proc == ProcMsg && len(msg) >= h.Len+8 && binary.BigEndian.Uint32(msg[h.Len+4:]) == 0
		p.granted = p.granted || !call
	}
	p.unlock()
	op := rdmap.OpSend
	if inv != 0 {
		op = rdmap.OpSendInvalidate
	}
	return p.peer.Segment(ddp.Header{Last: true, Inv: inv}, op, msg)
}

// call sends a call. The script has its procedure, shape, length and count of segments, and
// argument. The shape selects the lists present, and whether their contents fit.
func (p *fuzzPeer) call(s *rnictest.Script) error {
	proc, shape, n, count, arg := s.Byte(), s.Byte(), uint32(s.Word()), int(s.Byte()&3), s.Word()
	h := Header{XID: 0x1000 + uint32(s.Byte()), Version: 1, Credits: 9}
	body := words(h.XID, 0, int(proc), arg)
	if proc == procWrite || proc == procPair {
		body = words(h.XID, 0, int(proc), int(n)*max(count, 1))
	}
	segs := make([]chunks.Segment, max(count, 1))
	for i := range segs {
		segs[i] = chunks.Segment{Handle: 0x7000 + uint32(i), Length: n, Offset: uint64(i) << 20}
	}
	for _, seg := range segs {
		if shape&1 != 0 {
			h.Read = append(h.Read, chunks.ReadSegment{Position: uint32(len(body)), Segment: seg})
		}
		if shape&2 != 0 && proc != procWrite { // a long call
			h.Proc = ProcNoMsg
			h.Read = append(h.Read, chunks.ReadSegment{Segment: seg})
		}
	}
	if shape&4 != 0 {
		h.AddWrite(segs...)
	}
	if shape&8 != 0 {
		h.SetReply(segs...)
	}
	if shape&0x10 != 0 && len(h.Read) > 0 {
		h.Read[0].Position += 4
	}
	if shape&0x20 != 0 && len(h.Read) > 0 {
		h.Read[len(h.Read)-1].Length++
	}
	if shape&0x40 != 0 {
		body = append(body, words(0, int(n))...)
	}
	if h.Proc == ProcNoMsg {
		body = nil
	}
	return p.send(0, append(h.Append(nil), body...))
}

// pick returns a received call, or a header with an XID that no call has.
func (p *fuzzPeer) pick(i byte) Header {
	p.lock()
	defer p.unlock()
	if int(i) < len(p.calls) {
		return p.calls[i]
	}
	return Header{XID: 0xbad}
}

// target returns a segment offered by a call.
func (p *fuzzPeer) target(call, i byte) (seg chunks.Segment) {
	h := p.pick(call)
	segmentsOf(&h, i&0x80 == 0, func(s chunks.Segment) {
		if i&0x7f == 0 {
			seg = s
		}
		i--
	})
	return seg
}

// reply sends a reply. The script has the call, flags, the bytes that chunks hold, and the rest of
// the message.
func (p *fuzzPeer) reply(s *rnictest.Script) error {
	call, flags, placed := p.pick(s.Byte()), s.Byte(), uint32(s.Byte())*8
	body := append(words(call.XID, 1, 0), s.Take(int(s.Byte()))...)
	h := Header{XID: call.XID, Version: 1, Credits: uint32(flags & 7)}
	hold := func(c chunks.Chunk) (out []chunks.Segment) {
		left := placed
		for _, seg := range c {
			seg.Length = min(seg.Length, left)
			left -= seg.Length
			out = append(out, seg)
		}
		return out
	}
	if flags&8 == 0 {
		for _, c := range call.Write {
			h.AddWrite(hold(c)...)
		}
		if call.HasReply {
			h.SetReply(hold(call.Reply)...)
		}
	}
	if flags&0x10 != 0 {
		h.Proc, body = ProcNoMsg, nil
	}
	var inv uint32
	if flags&0x20 != 0 {
		segmentsOf(&call, flags&0x40 != 0, func(s chunks.Segment) { inv = s.Handle })
	}
	return p.send(inv, append(h.Append(nil), body...))
}

// answer answers the oldest RDMA Read: correctly if how is 0, and otherwise at another offset, with
// more bytes, or in shorter segments.
func (p *fuzzPeer) answer(how byte) error {
	p.lock()
	var q rdmap.ReadRequest
	if len(p.asked) > 0 {
		q, p.asked = p.asked[0], p.asked[1:]
	}
	p.unlock()
	q.SinkTO += uint64(how & 7)
	return p.peer.Answer(&q, make([]byte, min(q.Size+uint32(how>>6), 1<<15)), 4096-int(how&0x38)*64)
}

// hear validates a segment.
func (p *fuzzPeer) hear(s *rnictest.Segment) error {
	p.lock()
	defer p.unlock()
	switch {
	case s.Op == rdmap.OpWrite:
		if !within(p.write, s.Header.STag, s.Header.TO, len(s.Payload)) {
			return fmt.Errorf("an RDMA Write that no chunk allows: %+v", s.Header)
		}
	case s.Op == rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(s.Payload)
		if err != nil || !within(p.read, q.SrcSTag, q.SrcTO, int(q.Size)) {
			return fmt.Errorf("an RDMA Read that no chunk allows: %+v, %v", q, err)
		}
		p.asked = append(p.asked, q)
	case s.Op == rdmap.OpReadResponse:
		if bytes.IndexByte(s.Payload, taken) >= 0 {
			return fmt.Errorf("bytes that Do had given back: %+v", s.Header)
		}
	case s.Op.IsSend():
		if p.msg = append(p.msg, s.Payload...); s.Header.Last {
			msg := p.msg
			p.msg = nil
			return p.message(msg)
		}
	}
	return nil
}

func within(segs []chunks.Segment, stag uint32, to uint64, n int) bool {
	for _, s := range segs {
		if s.Handle == stag && to >= s.Offset && to-s.Offset <= uint64(s.Length) && uint64(n) <= uint64(s.Length)-(to-s.Offset) {
			return true
		}
	}
	return n == 0
}

func (p *fuzzPeer) message(msg []byte) error {
	var h Header
	if err := h.Parse(msg); err != nil || h.Credits == 0 {
		return fmt.Errorf("%x: %w", msg, err)
	}
	if h.XID>>16 != ourXID {
		return nil
	}
	p.calls = append(p.calls, h)
	if !p.granted && len(p.calls) > 1 {
		return fmt.Errorf("%d calls with one credit", len(p.calls))
	}
	return nil
}

// ourXID is the upper half of our calls' XIDs.
const ourXID = 0xca11

// taken fills the memory of an ended call; FuzzConn removes this byte from scripts.
const taken = 0xee

// fuzzCalls are our calls.
type fuzzCalls struct {
	t       *testing.T
	c       *Conn
	running sync.WaitGroup
	cancels []context.CancelFunc

	mu    sync.Mutex
	sinks [][]byte // memory of ended calls, with the bytes around it
}

// start begins a call. kind selects NULL, READ with or without a sink, WRITE, a long call, or a
// pair.
func (f *fuzzCalls) start(kind byte, n int) {
	if len(f.cancels) == 12 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	xid := ourXID<<16 | len(f.cancels)
	f.cancels = append(f.cancels, cancel)
	n = min(n, 1<<13)
	args := make([]byte, n)
	whole := make([]byte, n+16)
	sink := whole[8 : 8+n : 8+n]
	f.running.Go(func() {
		defer cancel()
		k := f.c.NewCall()
		defer k.Release()
		e := xdr.NewEncoder(k.Scratch())
		e.Raw(words(xid, 0, int(kind%6)))
		k.MaxReply = 20
		switch kind % 6 {
		case 1:
			k.Sink = sink
		case 2:
			k.MaxReply += xdr.RoundUp(n)
		case 3:
			e.Item(args)
		case 4:
			e.Opaque(args)
			k.MaxReply += xdr.RoundUp(n)
		case 5:
			e.Item(args[:n/2])
			e.Item(args[n/2:])
			k.Sink = sink
		}
		setMsg(k, e)
		err := f.c.Do(ctx, k)
		if err == nil {
			f.checkReply(k, uint32(xid))
		}
		if bytes.Count(whole[:8], []byte{0}) != 8 || bytes.Count(whole[8+n:], []byte{0}) != 8 {
			f.t.Errorf("bytes beside a sink of %d", n)
		}
		for i := range whole {
			whole[i] = taken
		}
		for i := range args {
			args[i] = taken
		}
		f.mu.Lock()
		f.sinks = append(f.sinks, whole)
		f.mu.Unlock()
	})
}

// checkReply checks a reply as an upper layer would.
func (f *fuzzCalls) checkReply(k *Call, xid uint32) {
	b := k.Reply.Stream
	if len(b) < rpcMinLen || binary.BigEndian.Uint32(b) != xid {
		f.t.Errorf("reply %x to %x", b, xid)
	}
	for _, item := range k.Reply.Items {
		if len(item.Data) > len(k.Sink) || len(item.Data) > 0 && &item.Data[0] != &k.Sink[0] {
			f.t.Errorf("%d bytes outside of the sink", len(item.Data))
		}
	}
}

// look checks that the memory of ended calls is unchanged.
func (f *fuzzCalls) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.sinks {
		if bytes.Count(b, []byte{taken}) != len(b) {
			f.t.Fatal("bytes were placed after Do had returned")
		}
	}
}

// A fuzzServer is the echoServer with three more procedures: one refuses its chunks, one has no
// reply, one replies later.
type fuzzServer struct {
	echoServer
	mu   sync.Mutex
	held []*Request
}

func (s *fuzzServer) ServeRPC(r *Request) (leads bool) {
	var proc uint32
	if b := r.Msg.Stream; len(b) >= 12 {
		proc = binary.BigEndian.Uint32(b[8:])
	}
	switch proc {
	case 5:
		_ = r.RejectChunks()
	case 6:
		r.Drop()
	case 7:
		s.mu.Lock()
		s.held = append(s.held, r)
		s.mu.Unlock()
	default:
		return s.echoServer.ServeRPC(r)
	}
	return true
}

func (s *fuzzServer) replyHeld() {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, r := range held {
		s.serve(r)
	}
}
