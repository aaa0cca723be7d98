// A connected QP and a peer that sends arbitrary bytes: whole conversations, in simulated time.

package iwarp_test

import (
	"bytes"
	"context"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// Bits of a script's first byte.
const (
	fuzzCRC      = 1 << iota // CRCs in use
	fuzzMarked               // the peer's FPDUs have markers
	fuzzMarking              // our FPDUs have markers
	fuzzInitiate             // we are the initiator
	fuzzSmallCQ              // completions can overrun their queue
	fuzzGood                 // we disconnect in good order
	fuzzAbort                // we close
	fuzzExtended             // we serve RFC 7306
)

// Steps of a script. The methods with the same names read their arguments.
const (
	stepRaw = iota
	stepULPDU
	stepWrite
	stepSend
	stepReadRequest
	stepReadResponse
	stepTerminate
	stepPostRecv
	stepPostSend
	stepPostRead
	stepInvalidate
	stepRereg
	stepBadCRC
	numSteps
)

// Longer scripts find little more than shorter ones, and slow the fuzzer down.
const (
	maxScript = 1024
	maxSteps  = 48
)

// FuzzQP: a script's first byte sets the modes, the others are steps of peer and program. It checks
// that the conversation ends, and work completes once and in order. No byte is placed without a
// right, no byte leaves that the peer has no right to read, and our output is well formed.
func FuzzQP(f *testing.F) {
	for _, mode := range []byte{0, fuzzCRC, fuzzCRC | fuzzInitiate, fuzzCRC | fuzzMarked | fuzzMarking, fuzzCRC | fuzzGood, fuzzSmallCQ | fuzzAbort, fuzzExtended} {
		for _, s := range qpSeeds() {
			f.Add(append([]byte{mode}, s...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxScript {
			return
		}
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) {
			s := rnictest.Script(bytes.ReplaceAll(b, []byte{secret}, []byte{0}))
			c := newConversation(t, s.Byte())
			for n := 0; n < maxSteps && s.More() && c.step(&s) == nil; n++ {
				synctest.Wait()
				c.poll()
			}
			c.end()
		})
	})
}

func qpSeeds() [][]byte {
	send := func(n byte) []byte { return []byte{stepSend, 0, 0, 0, 0, n} }
	seeds := [][]byte{
		nil,
		{stepRaw, 0, 3, 0, 1, 2},
		{stepULPDU, 0, 4, 0x41, 0x43, 0, 0},
		{stepWrite, 0, 0, 0, 0, 8, stepWrite, 0, 0x80, 0, 60, 4, stepWrite, 0, 0, 0, 60, 8},
		bytes.Join([][]byte{{stepPostRecv, 16, stepPostRecv, 16, stepPostRecv, 8}, send(16), send(3), send(9)}, nil),
		bytes.Join([][]byte{send(0), {stepPostRecv, 9, stepSend, 1, 1, 0, 0, 4, stepSend, 1, 0, 0, 4, 4, stepPostSend, 0, 9}}, nil),
		{stepReadRequest, 1, 0, 0, 0, 100, 0, stepReadRequest, 1, 0, 0, 15, 160, 0, stepReadRequest, 2, 0, 0, 0, 64, 0, stepReadRequest, 5, 0, 0, 0, 1, 0},
		{stepWrite, 0, 0, 0, 0, 0, stepPostRead, 0, 0, 15, 160, stepReadResponse, 0, 1, 255, stepReadResponse, 0, 0, 1},
		{stepWrite, 0, 0, 0, 0, 0, stepPostRead, 0, 0, 0, 20, stepReadResponse, 8, 0, 20},
		{stepWrite, 0, 0, 0, 0, 0, stepPostRead, 0, 0, 0, 20, stepPostRead, 1, 9, 0, 30, stepReadResponse, 1, 0, 20, stepReadResponse, 1, 0, 30},
		{stepTerminate, 0, 4, 0x10, 0, 0, 0},
		{stepPostRecv, 4, stepSend, 4, 0, 1, 0, 4, stepSend, 4, 3, 1, 0, 0},
		{stepInvalidate, 0, stepWrite, 0, 0, 0, 0, 1},
		{stepInvalidate, 2, stepRereg, 2, stepWrite, 2, 0, 0, 0, 64, stepReadRequest, 2, 0, 0, 0, 64, 0},
		{stepWrite, 0, 0, 0, 0, 0, stepPostSend, 0, 99, stepPostSend, 1, 255, stepPostSend, 3, 9, stepPostSend, 4, 0, stepPostSend, 2, 9},
		{stepBadCRC, 4, 0x41, 0x43, 0, 0},
	}
	for r := range byte(numRegions) { // each region, written, read and invalidated by the peer
		seeds = append(seeds, []byte{stepWrite, r, 0, 0, 3, 8}, []byte{stepReadRequest, r, 0, 0, 3, 8, 0}, []byte{stepPostRecv, 4, stepSend, 4, 0, r, 0, 4})
	}
	return seeds
}

// A conversation is one run of a script.
type conversation struct {
	*fuzzMemory
	*fuzzWork
	t     *testing.T
	mode  byte
	peer  *rnictest.Peer
	asked []rdmap.ReadRequest // our Reads without an answer; used with the token of said
	said  chan struct{}       // has a token while asked is in use
	heard chan error          // how listening ended
}

func newConversation(t *testing.T, mode byte) *conversation {
	dev := iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCAuto, Markers: mode&fuzzMarked != 0, MaxIRD: 4, MaxORD: 2,
		Extensions: mode&fuzzExtended != 0})
	c := &conversation{t: t, mode: mode, said: make(chan struct{}, 1), heard: make(chan error, 1)}
	c.fuzzMemory = newFuzzMemory(t, dev)
	c.fuzzWork = newFuzzWork(t, c.fuzzMemory, mode)
	l := rnictest.Listen()
	defer l.Close()
	frame := mpa.Frame{CRC: mode&fuzzCRC != 0, Markers: mode&fuzzMarking != 0, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: 4, ORD: 4}}
	accepted := make(chan error, 1)
	if mode&fuzzInitiate != 0 {
		go func() {
			conn, err := l.Accept()
			if err == nil {
				err = dev.ConnectOver(t.Context(), c.qp, conn, rnic.ConnParams{Provider: iwarp.ConnOptions{Settle: -1}})
			}
			accepted <- err
		}()
	} else {
		rl := dev.ListenOn(l)
		defer rl.Close()
		go func() {
			req, err := rl.Accept(context.Background())
			if err == nil {
				err = req.Accept(c.qp, rnic.ConnParams{})
			}
			accepted <- err
		}()
	}
	near, err := l.Dial()
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	c.peer = rnictest.NewPeer(near)
	if mode&fuzzInitiate != 0 {
		frame.Enhanced.ORD = 0
		_, err = c.peer.Respond(frame)
	} else {
		_, err = c.peer.Initiate(frame)
	}
	if aerr := <-accepted; err != nil || aerr != nil {
		t.Fatal(err, aerr)
	}
	go func() { c.heard <- c.peer.Hear(c.hear) }()
	return c
}

// step does one step; an error means that the QP reads no more input.
func (c *conversation) step(s *rnictest.Script) error {
	switch s.Byte() % numSteps {
	case stepRaw:
		return c.peer.Raw(s.Take(s.Word()))
	case stepULPDU:
		return c.peer.ULPDU(s.Take(s.Word()))
	case stepWrite:
		mr, flags, off, n := c.mrs[s.Byte()%numRegions], s.Byte(), s.Word(), s.Byte()
		return c.peer.Segment(ddp.Header{Tagged: true, Last: flags&0x80 == 0, STag: uint32(mr.STag()) + uint32(flags&3),
			TO: mr.Base() + uint64(int16(off))}, rdmap.OpWrite, make([]byte, n))
	case stepSend:
		return c.sendStep(s)
	case stepReadRequest:
		i, flags, off, n, msn := s.Byte()%numRegions, s.Byte(), s.Word(), s.Word(), s.Byte()
		q := rdmap.ReadRequest{SinkSTag: uint32(i), Size: uint32(n), SrcSTag: uint32(c.mrs[i].STag()) + uint32(flags&3), SrcTO: c.mrs[i].Base() + uint64(int16(off))}
		return c.peer.Segment(ddp.Header{Last: true, QN: ddp.QNRead, MSN: uint32(int8(msn))}, rdmap.OpReadRequest, q.Append(nil))
	case stepReadResponse:
		return c.answerStep(s)
	case stepTerminate:
		return c.peer.Segment(ddp.Header{Last: true, QN: ddp.QNTerminate, MSN: -c.peer.Sent()}, rdmap.OpTerminate, s.Take(s.Word()))
	case stepBadCRC:
		b := mpa.AppendFPDU(nil, true, append(s.Take(int(s.Byte())), 0))
		b[len(b)-1] ^= 1
		return c.peer.Raw(b)
	case stepPostRecv:
		c.postRecv(int(s.Byte()))
	case stepPostSend:
		c.postSend(s.Byte(), int(s.Byte()))
	case stepPostRead:
		c.postRead(s.Byte()&1 == 1, int(s.Byte()), s.Word())
	case stepInvalidate:
		c.invalidate(int(s.Byte() % numRegions))
	case stepRereg:
		c.rereg(int(s.Byte() % numRegions))
	}
	return nil
}

// sendStep sends a segment of a Send. The script has the opcode, the error of the MSN, the region
// to invalidate, the offset, and the number of bytes.
func (c *conversation) sendStep(s *rnictest.Script) error {
	kind, msn, r, mo, n := s.Byte(), s.Byte(), s.Byte(), s.Byte(), s.Byte()
	op := rdmap.OpSend + rdmap.Opcode(kind>>1&3)
	h := ddp.Header{Last: kind&1 == 0, MO: uint32(mo), MSN: uint32(int8(msn) / 2)}
	if op.Invalidates() {
		h.Inv = uint32(c.mrs[r%numRegions].STag())
	}
	return c.peer.Segment(h, op, make([]byte, n))
}

// answerStep answers the oldest Read, all of it or n bytes and perhaps in the wrong place.
func (c *conversation) answerStep(s *rnictest.Script) error {
	off, n := int8(s.Byte()), s.Word()
	c.said <- struct{}{}
	var q rdmap.ReadRequest
	if len(c.asked) > 0 {
		q = c.asked[0]
		if off&1 == 1 {
			n = int(q.Size)
		}
		if c.asked[0].Size -= uint32(min(n, int(q.Size))); c.asked[0].Size == 0 {
			c.asked = c.asked[1:]
		} else {
			c.asked[0].SinkTO += uint64(n)
		}
	}
	<-c.said
	q.SinkTO += uint64(off / 2)
	h := ddp.Header{Tagged: true, STag: q.SinkSTag, TO: q.SinkTO, Last: n >= int(q.Size)}
	return c.peer.Segment(h, rdmap.OpReadResponse, make([]byte, min(n, 60000)))
}

// hear checks a segment from the QP.
func (c *conversation) hear(s *rnictest.Segment) error {
	switch s.Op {
	case rdmap.OpReadResponse:
		if bytes.IndexByte(s.Payload, secret) >= 0 {
			c.t.Errorf("bytes that the peer has no right to read: %+v", s.Header)
		}
	case rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(s.Payload)
		if err != nil {
			return err
		}
		c.said <- struct{}{}
		c.asked = append(c.asked, q)
		<-c.said
	case rdmap.OpTerminate:
		_, err := term.Parse(s.Payload, false)
		return err
	}
	return nil
}

// end ends the conversation, and checks that all work has completed.
func (c *conversation) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch {
	case c.mode&fuzzAbort != 0:
		c.qp.Close()
	case c.mode&fuzzGood != 0:
		left := make(chan struct{})
		go func() {
			c.qp.Disconnect(ctx)
			close(left)
		}()
		synctest.Wait()
		c.peer.Close()
		<-left
	}
	c.peer.Close()
	if err := <-c.heard; err != nil {
		c.t.Errorf("the QP said %v", err)
	}
	<-c.qp.Done()
	c.qp.Close()
	c.poll()
	c.lookAll()
	c.settled()
}
