// Rules for sending and for completions.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// TestNothingIsPlacedAfterAFault: after a fault further input is discarded, until the loops end.
func TestNothingIsPlacedAfterAFault(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	w := newWorld(t, s)
	in := &s.end.in
	if _, err := in.Consume(mpa.AppendFPDU(nil, true, untagged(0x41, 0x43, 0, 0, 9, 0, nil))); err == nil {
		t.Fatal("no fault")
	}
	n, err := in.Consume(mpa.AppendFPDU(nil, true, tagged(0xc1, 0x40, w.wr.STag(), w.wr.Base(), []byte("evil"))))
	if n != 0 || err != nil || !in.Stopped() {
		t.Errorf("%d bytes were used, %v, stopped %v", n, err, in.Stopped())
	}
	if !holds(w.wr, make([]byte, 64)) {
		t.Errorf("placed %x", bufOf(w.wr))
	}
}

// TestResponsesAndWorkAlternate: if both are ready, neither waits for more than one message of the
// other.
func TestResponsesAndWorkAlternate(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	s.end.room = 0
	for i := range uint32(3) {
		s.fpdu(untagged(0x41, 0x41, 0, 1, i+1, 0, readReq(rnic.STag(i), 0, 0, 0, 0)))
	}
	for range 3 {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
	}
	for i := range uint32(3) {
		s.wantSegment(tagged(0xc1, 0x42, rnic.STag(i), 0, nil))
		s.wantSegment(untagged(0x41, 0x43, 0, 0, i+1, 0, nil))
	}
}

// TestCompleteWhenTCPHasAll: a message completes with its last byte, not before; later ones follow.
func TestCompleteWhenTCPHasAll(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	const fpdu = 2 + 18 + 1000 + 4
	s.end.room = fpdu - 1
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, 1000)}}, rnic.SendWR{ID: 2, Op: rnic.OpSend})
	var wc [1]rnic.WC
	if s.cq.Poll(wc[:]) != 0 {
		t.Fatal("complete before TCP has all of it")
	}
	s.end.grant(1)
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
	if s.cq.Poll(wc[:]) != 0 {
		t.Fatal("the next one is complete with it")
	}
	s.end.grant(1 << 20)
	s.want(t, rnic.OpSend, 2, rnic.WCSuccess)
}

// TestTerminateAfterPartOfAnFPDU: a partly sent FPDU goes out completely, and nothing else of the
// batch, before the Terminate (RFC 5040 §6.2.1).
func TestTerminateAfterPartOfAnFPDU(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, cut := range []int{0, 1, 700, 1023, 1024, 1500} {
			a, b := newSide(t, rnic.DeviceConfig{}, 8), newSide(t, rnic.DeviceConfig{Markers: markers}, 8)
			join(a, b)
			a.end.peer = nil
			a.end.room = cut
			recv(t, b.qp, 1, make([]byte, 1000))
			recv(t, b.qp, 2, make([]byte, 1000))
			post(t, a.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 1000)}}, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 1000)}})
			a.end.fail(LocalFault(rnic.ErrClosed))
			b.end.receive(a.end.sent)
			var e rnic.PeerError
			if err := b.qp.Err(); !errors.As(err, &e) {
				t.Errorf("markers %v, cut after %d: the peer ended by %v", markers, cut, err)
			}
			whole := 0
			var wc [1]rnic.WC
			for b.cq.Poll(wc[:]) == 1 {
				if wc[0].Status == rnic.WCSuccess {
					whole++
				}
			}
			if want := min((cut+1023)/1024, 2); !markers && whole != want {
				t.Errorf("cut after %d: %d Sends came, want %d", cut, whole, want)
			}
		}
	}
}
