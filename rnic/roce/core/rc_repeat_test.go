// Repeated Reads with a peer that answers only remembered requests, like Linux rxe, and answers
// that it would misinterpret.

package core

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A forgetfulResponder is a responder that remembers the latest Read Requests. It drops a
// repeated one unless that ends where a remembered one does.
type forgetfulResponder struct {
	t    *testing.T
	side *side
	seen [][2]uint32 // first and last PSN
	most int
	deaf bool // it drops all repeated requests
}

func (m *forgetfulResponder) takes(to *side, f frame) bool {
	m.side.qp.res.reorder.clear() // rxe buffers no out-of-order request
	h, _ := f.header(m.t)
	if to != m.side || h.Opcode != packet.RCReadRequest {
		return true
	}
	last := (h.PSN + packets(h.RETH.Length, 256) - 1) & maxPSN
	if distance(h.PSN, m.side.qp.in.epsn) >= halfCircle {
		for _, r := range m.seen {
			if distance(h.PSN, r[0]) <= distance(r[1], r[0]) {
				return last == r[1] && !m.deaf
			}
		}
		return false
	}
	if h.PSN == m.side.qp.in.epsn {
		m.seen = append(m.seen, [2]uint32{h.PSN, last})
		m.seen = m.seen[max(0, len(m.seen)-m.most):]
	}
	return true
}

// readFromForgetful does a Read of 200 packets from a forgetfulResponder, with the given initial
// window.
func readFromForgetful(t *testing.T, seed uint64, h faults, deaf bool, window uint32) (w *world, got, mem []byte) {
	a, b := reliables(t, 256, 0xffffd0, nil)
	const n = 200*256 - 7
	mr, mem := b.host.region(t, n, rnic.RemoteRead)
	copy(mem, pattern(n, int(seed)))
	sink, got := a.host.region(t, n, rnic.LocalWrite)
	a.qp.req.window = window
	a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: n, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	w = newWorld(t, seed, a, b, h)
	w.takes = (&forgetfulResponder{t: t, side: b, most: 4, deaf: deaf}).takes
	for w.step() {
	}
	return w, got, mem
}

// A repeated Read Request ends where the first request did, wherever its data was lost. This also
// holds for wide requests, as they are made after a long time without loss.
func TestReadsAreRepeatedToTheirEnd(t *testing.T) {
	for _, window := range []uint32{initialWindow, widest(256)} {
		for seed := range uint64(50) {
			w, got, mem := readFromForgetful(t, seed, faults{lose: int(seed), delay: 50_000}, false, window)
			if wcs := w.sides[0].completions(); len(wcs) != 1 || wcs[0].Status != rnic.WCSuccess || string(got) != string(mem) {
				t.Fatalf("window %d, seed %d: %v, QP: %v", window, seed, wcs, w.sides[0].vqp.Err())
			}
		}
	}
}

// A Read that is never answered again ends the QP when the retries are exhausted, regardless of
// early retransmissions.
func TestReadThatIsNeverAnsweredAgain(t *testing.T) {
	w, _, _ := readFromForgetful(t, 1, faults{lose: 50, delay: 50_000}, true, initialWindow)
	all := Instant(4096<<14) * 255 // the first timeout and seven retries, doubling
	err := w.sides[0].qp.Ended()
	if !errors.Is(err, ErrRetry) {
		t.Fatalf("err: %v, want %v", err, ErrRetry)
	}
	if w.now < all-1e9 {
		t.Fatalf("w.now: %v, want at least %v", w.now, all-1e9)
	}
	if w.now > all+1e9 {
		t.Fatalf("w.now: %v, want at most %v", w.now, all+1e9)
	}
	if w.sent > 400 {
		t.Errorf("%d packets", w.sent)
	}
}

// Only data answers a Read, whatever else is acknowledged: an acknowledge with its last PSN would
// complete it at Linux rxe, with the lost data missing.
func TestReadsAreAnsweredByData(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	src, _ := b.host.region(t, 600, rnic.RemoteRead|rnic.RemoteWrite)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	read := func() {
		a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: src.STag(), RemoteTO: src.Base()})
	}
	write := func() { a.post(rnic.SendWR{Op: rnic.OpWrite, RemoteSTag: src.STag(), RemoteTO: src.Base()}) }
	const data = "RDMA READ response First %x; RDMA READ response Middle %x; RDMA READ response Last %x; "

	// A request that overtakes a Write.
	write()
	read()
	fs := a.says("RDMA WRITE Only 5 A; RDMA READ Request 6 A; ")
	b.take(fs[1], fs[0])
	// The last packet is lost.
	a.take(b.says("Acknowledge 5 ACK 2; " + fmt.Sprintf(data, 6, 7, 8))[:3]...)

	// The Write again, and another request that overtakes a Read.
	b.take(fs[0])
	b.says("Acknowledge 5 ACK 2; ")
	read()
	write()
	write()
	fs = a.says("RDMA READ Request 9 A; RDMA WRITE Only c A; RDMA WRITE Only d A; ")
	b.take(fs[1], fs[2], fs[0])
	a.take(b.says(fmt.Sprintf(data, 9, 10, 11) + "Acknowledge d ACK 5; ")...)
	exchange(a, b)
	if wcs := a.completions(); len(wcs) != 5 || a.state() != RTS {
		t.Errorf("%v, %v", wcs, a.state())
	}
}

// After Reads spanning half of all PSNs, the last Write's PSN would look like a future one: a
// duplicate of its packet, which must be forged, is not acknowledged.
func TestLastWriteLongAgo(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	src, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	b.take(b.say(packet.RCWriteOnly, 4, nil)) // PSN 4 precedes the first, 5
	b.says("Acknowledge 4 ACK 0; ")
	b.qp.res.last = (5 - halfCircle) & maxPSN
	a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: src.STag(), RemoteTO: src.Base()})
	b.take(a.says("RDMA READ Request 5 A; ")...)
	a.take(b.send()...)
	a.completions()
	b.take(b.say(packet.RCWriteOnly, 5+halfCircle+10, nil))
	b.says("")
	b.take(b.say(packet.RCWriteOnly, 8, nil, func(h *packet.Header) { h.AckReq = true }))
	b.says("Acknowledge 8 ACK 2; ")
}
