// The turn: each state and each transition, by the drawing.

package core

import (
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestTurn follows the drawing of Turn: every transition from every state, and the permissions of
// each state.
func TestTurn(t *testing.T) {
	moves := map[string]func(*Turn){"open": (*Turn).open, "cork": (*Turn).cork, "yield": (*Turn).yield,
		"endYield": (*Turn).endYield, "uncork": (*Turn).uncork}
	next := map[sendGate]map[string]sendGate{
		gateShut:     {"open": gateOpen},
		gateOpen:     {"cork": gateCorked},
		gateCorked:   {"yield": gateYielding, "uncork": gateOpen},
		gateYielding: {"endYield": gateOpen, "uncork": gateOpen},
	}
	for from := gateShut; from <= gateYielding; from++ {
		for name, move := range moves {
			turn := Turn{gate: from}
			move(&turn)
			want, ok := next[from][name]
			if !ok {
				want = from
			}
			if turn.gate != want || turn.holder != turnFree {
				t.Errorf("%s from %v: %v, want %v", name, from, turn, want)
			}
		}
		for h := turnFree; h <= heldByLoop; h++ {
			turn := Turn{holder: h, gate: from}
			if got, want := turn.take(), h == turnFree && from == gateOpen; got != want {
				t.Errorf("take at %v and %v: %v", from, h, got)
			} else if got && turn.holder != heldByCaller {
				t.Errorf("after take: %v", turn)
			}
			turn = Turn{holder: h, gate: from}
			want := turn
			taken := h == turnFree && from == gateCorked
			if taken {
				want.holder = heldByCaller
			}
			if got := turn.takeCorked(); got != taken || turn != want {
				t.Errorf("takeCorked at %v and %v: %v, and then %v, want %v and %v", from, h, got, turn, taken, want)
			}
		}
		turn := Turn{gate: from}
		if turn.mayBegin() != (from != gateShut) || turn.leave() != (from == gateCorked || from == gateYielding) {
			t.Errorf("%v: may begin %v, leave %v", from, turn.mayBegin(), turn.leave())
		}
	}
	turn := Turn{gate: gateOpen}
	turn.take()
	if turn.handOver(); turn.holder != heldByLoop {
		t.Errorf("after handOver: %v", turn)
	}
	if turn.giveBack(); turn.holder != turnFree {
		t.Errorf("after giveBack: %v", turn)
	}
	if turn.shut(); turn.mayBegin() {
		t.Errorf("%v: a message may begin", turn)
	}
	got := []string{turn.String(), turnHolder(9).String(), sendGate(9).String()}
	if want := []string{"gate shut, turn free", "holder(9)", "gate(9)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGate: a responder sends nothing before the first FPDU, not even a Terminate (RFC 5044 §7.1.2
// [R5044-122]).
func TestGate(t *testing.T) {
	conformance.Proves(t, "R5044-133")
	s := scriptInitiator(t, rnic.ConnParams{})
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend})
	s.wantIdle()
	s.open()
	s.hearULPDU()
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)

	s = scriptInitiator(t, rnic.ConnParams{})
	s.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
	s.wantEnd(t, errMSN)
	s.wantEOF()
}

// TestCork: posts wait while the receive loop runs handlers, and leave in its batch; many posts
// do not wait for a yield.
func TestCork(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	w := &s.end.work
	w.Cork()
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend}, rnic.SendWR{Op: rnic.OpSend})
	s.wantIdle()
	if w.YieldCorked() {
		t.Error("lingers with work to send")
	}
	if !w.Uncork() {
		t.Fatal("nothing to send")
	}
	s.end.send()
	s.hearULPDU()
	s.hearULPDU()
	if s.end.batch != 1 {
		t.Errorf("%d batches", s.end.batch)
	}
	w.Cork()
	if !w.YieldCorked() {
		t.Fatal("does not linger with nothing to send")
	}
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
	s.wantIdle()
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, maxYieldBytes)}})
	s.hearULPDU()
	if n := len(s.hearULPDU()); n != 18+maxYieldBytes {
		t.Errorf("a segment of %d bytes, want %d", n, 18+maxYieldBytes)
	}
	if w.Uncork() {
		t.Error("it was sent already")
	}
}

// TestCorkedPartLeaves: the caller of ClaimCorked sends the posts so far and gives the turn
// back. Later posts wait for the receive loop, or for the next part.
func TestCorkedPartLeaves(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	w := &s.end.work
	w.Cork()
	if w.ClaimCorked() {
		t.Error("a part of nothing")
	}
	for range 2 {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend}, rnic.SendWR{Op: rnic.OpSend})
		s.wantIdle()
		if !w.ClaimCorked() {
			t.Fatal("nothing to send")
		}
		if w.ClaimCorked() {
			t.Error("two have the turn")
		}
		s.end.send()
		s.hearULPDU()
		s.hearULPDU()
	}
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
	s.wantIdle()
	if !w.Uncork() {
		t.Fatal("nothing to send")
	}
	if s.end.send(); w.turn.holder != turnFree {
		t.Errorf("after send: %v", w.turn)
	}
	s.hearULPDU()
	if w.ClaimCorked() {
		t.Error("a part with nothing collected")
	}
}

// TestHolderLeaves: a transmitter leaves the rest to the receive loop when that corks the gate.
func TestHolderLeaves(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	w := &s.end.work
	if !w.turn.take() {
		t.Fatalf("take: %v", w.turn)
	}
	w.Cork()
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
	if !w.Rest() || w.turn.holder != turnFree {
		t.Error("goes on: ", w.turn)
	}
	if !w.Uncork() || w.TurnOfLoop() {
		t.Error("nobody has to send: ", w.turn)
	}
	w.HandOver()
	if !w.TurnOfLoop() {
		t.Errorf("after HandOver: %v", w.turn)
	}
	w.GiveUp()
	if w.TurnOfLoop() {
		t.Errorf("after GiveUp: %v", w.turn)
	}
}

// TestCursor walks a gather list in every step, across empty slices.
func TestCursor(t *testing.T) {
	sgl := [][]byte{nil, {1, 2, 3}, {}, {}, {4}, {5, 6, 7, 8}, nil}
	for step := 1; step <= 9; step++ {
		c := cursor{sgl: sgl}
		var got []byte
		for len(got) < 8 {
			n := min(step, 8-len(got))
			if one := c.fits(n, 1); one < 1 || one > n {
				t.Fatalf("step %d at %d: %d fit in one slice", step, len(got), one)
			}
			if all, none := c.fits(n, 7), c.fits(n, 0); all != n || none != 0 {
				t.Fatalf("step %d at %d: %d fit in seven slices, %d in none", step, len(got), all, none)
			}
			one := c.fits(n, 1)
			p := c.next(n)
			if len(p) != one {
				t.Fatalf("step %d: %d bytes, %d were said to fit", step, len(p), one)
			}
			got = append(got, p...)
		}
		for i, b := range got {
			if int(b) != i+1 {
				t.Fatalf("step %d: %v", step, got)
			}
		}
	}
}
