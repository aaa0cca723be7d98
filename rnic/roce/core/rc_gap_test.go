// Gaps that a peer does not fill.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A requester that retransmits only the first missing packet gets another NAK. In the end the QP
// ends if the peer answers requests meanwhile. A silent peer may have stalled, and only the
// timeout ends its QP. A gap so far ahead that it may be forged never ends a QP. After the gap is
// filled no NAK follows.
func TestGapNAKIsRepeated(t *testing.T) {
	for _, row := range []struct{ answers, far bool }{{true, false}, {false, false}, {true, true}} {
		answers := row.answers
		a, b := reliables(t, 256, 5, nil)
		b.recv(0, 10, 10, 10, 10)
		for i := range 3 {
			a.post(rnic.SendWR{ID: uint64(i)})
		}
		fs := a.send()
		b.take(fs[2])
		b.tick(nakDelay)
		b.says("Acknowledge 5 NAK, PSN sequence error 0; ")
		b.take(fs[0]) // 6 and 7 do not come again
		b.says("Acknowledge 5 ACK 1; ")
		if row.far {
			b.take(b.say(packet.RCSendOnly, 6+leftWithin, nil))
		}
		b.tick(b.qp.res.gap.nextNAK)
		b.says("Acknowledge 6 NAK, PSN sequence error 1; ")
		for i := range maxRepeats {
			at := b.qp.res.gap.nextNAK
			if next, ok := b.qp.Deadline(); !ok || next > at {
				t.Fatalf("told %d times", i)
			}
			b.qp.req.deadline, b.qp.req.probe = 0, 0 // timers of the probe, which stays unanswered
			b.tick(at - 1)
			b.says("")
			b.tick(at)
			told := 0
			for _, f := range b.send() {
				switch h, _ := f.header(t); {
				case h.Opcode == packet.RCAck && h.AETH.Syndrome == packet.NAK(packet.NAKSequence) && h.PSN == 6:
					told++
				case h.Opcode == packet.RCWriteOnly && answers:
					a.take(f)
				}
			}
			if told != 1 {
				t.Errorf("told %d times at once", told)
			}
			for _, f := range a.send() {
				if h, _ := f.header(t); h.Opcode == packet.RCAck {
					b.take(f)
				}
			}
		}
		b.qp.req.deadline, b.qp.req.probe = 0, 0
		b.tick(b.qp.res.gap.nextNAK)
		if row.far {
			if b.state() != RTS {
				t.Error("left for what may be forged")
			}
			continue
		}
		if answers {
			must.Equal(t, "b.state()", b.state(), ERR)
			if !errors.Is(b.vqp.Err(), ErrGap) {
				t.Fatalf("b.vqp.Err(): %v, want %v", b.vqp.Err(), ErrGap)
			}
			if !errors.Is(b.vqp.Err(), rnic.ErrConnLost) {
				t.Fatalf("b.vqp.Err(): %v, want %v", b.vqp.Err(), rnic.ErrConnLost)
			}
			continue
		}
		b.says("")
		if _, ok := b.qp.Deadline(); ok || b.state() != RTS {
			t.Error("something is still awaited", b.state())
		}
		b.take(fs[2])
		if _, ok := b.qp.Deadline(); !ok {
			t.Error("nothing is awaited of what came too early again")
		}
		b.take(fs[1], fs[2])
		if _, ok := b.qp.Deadline(); ok {
			t.Error("told though nothing is missing")
		}
	}
}

// A repeated NAK does not count as a missing answer, and brings the QP no closer to its end.
func TestRepeatedNAKIsNoRetry(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.RetryCount = 1 })
	b.recv(0, 10, 10)
	a.post(rnic.SendWR{ID: 1})
	a.post(rnic.SendWR{ID: 2})
	fs := a.send()
	b.take(fs[1])
	b.tick(nakDelay)
	nak := b.says("Acknowledge 5 NAK, PSN sequence error 0; ")
	for range 5 {
		a.take(nak...)
		if got := a.send(); len(got) != 2 || a.state() != RTS {
			t.Fatalf("%d packets, %v", len(got), a.state())
		}
	}
}

// A peer that retransmits the missing packet and finds no receive behaves correctly, and its QP
// survives for any time. The packets after it are out of order each time.
func TestWaitForAReceiveIsNoGap(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	a.post(rnic.SendWR{ID: 1})
	a.post(rnic.SendWR{ID: 2})
	var now Instant
	room := make([]byte, MaxPacket)
	pass := func(from, to *side) (some bool) {
		for {
			n, r, ok := from.qp.Next(now, room)
			if !ok {
				return some
			}
			some = true
			f := put(from.host.addr, r.Peer, r.SrcPort, room[:n])
			to.host.port.Receive(now, f.network, f.datagram, false, nil)
		}
	}
	const step = nakRepeat / 4
	for ; now < 2*nakRepeat<<maxRepeats; now += step {
		a.tick(now)
		b.tick(now)
		for more := true; more; {
			more = pass(a, b)
			more = pass(b, a) || more
		}
		if a.state() != RTS || b.state() != RTS {
			t.Fatalf("after %d ms: %v, %v", now/1e6, a.vqp.Err(), b.vqp.Err())
		}
	}
	b.recv(1, 10, 10)
	a.tick(now)
	pass(a, b)
	got := b.completions()
	must.Equal(t, "len(got)", len(got), 2)
	must.Equal(t, "got[0].Status", got[0].Status, rnic.WCSuccess)
	must.Equal(t, "got[1].Status", got[1].Status, rnic.WCSuccess)
}
