// A connection and a peer with arbitrary messages: calls in both directions, in simulated time.

package rpcrdma

import (
	"bytes"
	"context"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Bits of a script's first byte.
const (
	fuzzDial   = 1 << iota // we connect
	fuzzPlain              // the peer has no private data
	fuzzNoCRC              // no CRCs
	fuzzClose              // we close first
	fuzzClient             // we serve nothing
)

// Steps of a script.
const (
	sendMessage      = iota // any bytes as a Send
	sendCall                // a call with chunks
	sendReply               // a reply to our call
	sendErrorReply          // an RDMA_ERROR reply to our call
	sendWrite               // RDMA Write to our call's chunks
	sendReadResponse        // an answer to an RDMA Read
	sendULPDU               // any bytes as segment
	doCall                  // our call
	doCancel
	doWait
	numSteps
)

// Longer scripts add little, and delay other inputs.
const (
	maxScript = 2048
	maxSteps  = 48
)

// FuzzConn: a script's first byte sets the modes, the others control the peer's messages and our
// calls. The test checks that each call ends exactly once, and that everything is released at the
// end. Chunks are used as offered, and memory returned by Do is not touched or read any more.
func FuzzConn(f *testing.F) {
	for _, mode := range []byte{0, fuzzDial, fuzzPlain, fuzzDial | fuzzClient, fuzzNoCRC | fuzzClose} {
		for _, s := range connSeeds() {
			f.Add(append([]byte{mode}, s...))
		}
	}
	for _, g := range goldenHeaders {
		b := must.Hex(f, g.wire)
		f.Add(append([]byte{0, sendMessage, byte(len(b) >> 8), byte(len(b))}, b...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxScript {
			return
		}
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) {
			s := rnictest.Script(bytes.ReplaceAll(b, []byte{taken}, []byte{0}))
			c := newFuzzConn(t, s.Byte())
			for n := 0; n < maxSteps && s.More() && c.step(&s) == nil; n++ {
				synctest.Wait()
			}
			c.end()
		})
	})
}

func connSeeds() [][]byte {
	seeds := [][]byte{nil, {doWait, 70}, {sendMessage, 0, 1, 9}, {sendULPDU, 0, 4, 0x41, 0x43, 0, 0}}
	null := []byte{sendCall, 0, 0, 0, 0, 0, 0, 0, 9}
	for proc := range byte(8) {
		for _, shape := range []byte{0, 1, 2, 4, 8, 0x11, 0x21, 0x06, 0x0a, 0x41} {
			call := []byte{sendCall, proc, shape, 0, 100, 1, 0, 200, 1}
			three := []byte{sendCall, proc, shape, 0, 100, 3, 0, 200, 1, doWait, 1}
			seeds = append(seeds, append(call, sendReadResponse, 0, sendReadResponse, 0, sendReadResponse, 0), append(append(call, call...), null...),
				append(three, sendReadResponse, 0, sendReadResponse, 0, sendReadResponse, 0))
		}
	}
	for kind := range byte(6) {
		for _, n := range []byte{0, 12} {
			call := append(null, doCall, kind, n, 100)
			for _, rest := range [][]byte{
				{sendReadResponse, 0, sendReply, 0, 3, 255, 16, 0, 0, 0, 0, 0, 0, n, 100, 0, 0, 0, 0, 0, 0, 0, 0},
				{sendReadResponse, 0, sendWrite, 0, 0, 0, 0, 0, 100, sendReply, 0, 3, 100, 4, 0, 0, 0, 0},
				{sendReadResponse, 0, sendWrite, 0, 0, 0, 0, 0, 100, sendReply, 0, 0x33, 100, 0},
				{sendReply, 0, 3, 255, 4, 0, 0, 0, 0, sendWrite, 0, 0, 0, 0, 0, 9},
				{sendReply, 0, 0x2b, 0, 0},
				{sendErrorReply, 0, 2, sendReply, 0, 3, 0, 4, 0, 0, 0, 0},
				{doCancel, 0, sendReply, 0, 3, 255, 4, 0, 0, 0, 0},
				{doCancel, 0, sendWrite, 0, 0, 0, 0, 0, 1},
				{doCall, 0, 0, 0, doCall, 0, 0, 0, doCancel, 2, sendReply, 0, 7, 255, 4, 0, 0, 0, 0, sendReply, 1, 7, 0, 0, doWait, 100},
			} {
				seeds = append(seeds, append(call[:len(call):len(call)], rest...))
			}
		}
	}
	return seeds
}

// A fuzzConn is one run of a script.
type fuzzConn struct {
	*fuzzCalls
	*fuzzPeer
	t      *testing.T
	mode   byte
	c      *Conn
	server fuzzServer
	budget *mem.Budget
	heard  chan error
}

func newFuzzConn(t *testing.T, mode byte) *fuzzConn {
	c := &fuzzConn{t: t, mode: mode, budget: mem.NewBudget(1 << 16), heard: make(chan error, 1)}
	cfg := Config{Credits: 4, InlineSize: 1024, MaxPull: 1 << 14, MaxReply: 1 << 14, Budget: c.budget, Handler: &c.server}
	if mode&fuzzClient != 0 {
		cfg.Handler = nil
	}
	dev := iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCAuto})
	l := rnictest.Listen()
	defer l.Close()
	type result struct {
		c   *Conn
		err error
	}
	made := make(chan result, 1)
	if mode&fuzzDial != 0 {
		go func() {
			conn, err := dialOn(t.Context(), dev, l, cfg)
			made <- result{conn, err}
		}()
	} else {
		rl := dev.ListenOn(l)
		defer rl.Close()
		go func() {
			req, err := rl.Accept(context.Background())
			if err != nil {
				made <- result{nil, err}
				return
			}
			conn, err := Accept(dev, req, cfg)
			made <- result{conn, err}
		}()
	}
	near, err := l.Dial()
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	c.fuzzPeer = newFuzzPeer(t, rnictest.NewPeer(near))
	err = c.startUp(mode)
	r := <-made
	if err != nil || r.err != nil {
		t.Fatalf("start-up: %v, %v", err, r.err)
	}
	c.c = r.c
	c.fuzzCalls = &fuzzCalls{t: t, c: c.c}
	go func() { c.heard <- c.peer.Hear(c.hear) }()
	return c
}

// dialOn acts like Dial, for a peer at l's other end.
func dialOn(ctx context.Context, dev *rnic.Device, l *rnictest.Listener, cfg Config) (*Conn, error) {
	c, err := newConn(dev, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.requester.start(); err != nil {
		return nil, c.abandon(err)
	}
	far, err := l.Accept()
	if err != nil {
		return nil, c.abandon(err)
	}
	if err := dev.ConnectOver(ctx, c.qp, far, c.params()); err != nil {
		return nil, c.abandon(err)
	}
	go c.watch()
	return c, nil
}

// startUp does the peer's part of the start-up.
func (p *fuzzPeer) startUp(mode byte) (err error) {
	frame := mpa.Frame{CRC: mode&fuzzNoCRC == 0, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 4, ORD: 4}}
	if mode&fuzzPlain == 0 {
		frame.PrivateData = r1
	}
	if mode&fuzzDial != 0 {
		_, err = p.peer.Respond(frame)
		return err
	}
	_, err = p.peer.Initiate(frame)
	return err
}

// step does one step; after an error the peer reads nothing more.
func (c *fuzzConn) step(s *rnictest.Script) error {
	switch s.Byte() % numSteps {
	case sendMessage:
		return c.send(0, s.Take(s.Word()))
	case sendCall:
		return c.call(s)
	case sendReply:
		return c.reply(s)
	case sendErrorReply:
		h := Header{XID: c.pick(s.Byte()).XID, Version: 1, Credits: 3, Proc: ProcError, Err: ErrCode(s.Byte()), Low: 1, High: 1}
		return c.send(0, h.Append(nil))
	case sendWrite:
		seg, off, n := c.target(s.Byte(), s.Byte()), s.Word(), s.Word()
		return c.peer.Segment(ddp.Header{Tagged: true, Last: true, STag: seg.Handle, TO: seg.Offset + uint64(int16(off))},
			rdmap.OpWrite, bytes.Repeat([]byte{0x55}, min(n, 1<<14)))
	case sendReadResponse:
		return c.answer(s.Byte())
	case sendULPDU:
		return c.peer.ULPDU(s.Take(s.Word()))
	case doCall:
		c.start(s.Byte(), s.Word())
	case doCancel:
		if i := int(s.Byte()); i < len(c.cancels) {
			c.cancels[i]()
		}
	case doWait:
		time.Sleep(time.Duration(s.Byte()) * time.Second)
		c.server.replyHeld()
	}
	return nil
}

// end ends the connection and checks that everything was released.
func (c *fuzzConn) end() {
	if c.mode&fuzzClose != 0 {
		c.c.Close()
	}
	c.peer.Close()
	if err := <-c.heard; err != nil {
		c.t.Errorf("we said %v", err)
	}
	<-c.c.Done()
	c.running.Wait()
	c.server.replyHeld()
	c.c.Close()
	c.look()
	checkReleased(c.t, c.c)
	if free := c.budget.Free(); free != 1<<16 {
		c.t.Errorf("%d bytes of the budget are not back", 1<<16-free)
	}
}

// segmentsOf calls f with a header's segments for the peer to read, or to write.
func segmentsOf(h *Header, write bool, f func(chunks.Segment)) {
	if !write {
		for _, s := range h.Read {
			f(s.Segment)
		}
		return
	}
	for _, c := range append([]chunks.Chunk{h.Reply}, h.Write...) {
		for _, s := range c {
			f(s)
		}
	}
}
