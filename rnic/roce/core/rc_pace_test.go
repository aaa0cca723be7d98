// Early retransmission by round-trip times, and Reads requested in units.

package core

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// If an answer is late for the measured round-trip time, its packet is retransmitted long before
// the timeout. Such a probe counts as no retry and doubles the next wait. Retransmitted packets are
// not timed.
func TestProbes(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.RetryCount = 1 })
	r := &a.qp.req
	b.recv(0, 10, 10)
	a.post(rnic.SendWR{ID: 1})
	a.says("SEND Only 5 A; ")
	if at, ok := a.qp.Deadline(); !ok || at != firstProbe { // nothing was timed yet
		t.Fatalf("deadline %d", at)
	}
	overdue := r.deadline
	for _, at := range []Instant{firstProbe, 3 * firstProbe, overdue} {
		if next, _ := a.qp.Deadline(); next != at || r.retries != 0 {
			t.Errorf("%d retries, deadline %d, want %d", r.retries, next, at)
		}
		a.tick(at - 1)
		a.says("")
		a.tick(at)
		b.take(a.says("SEND Only 5 A; ")...)
	}
	if r.retries != 1 {
		t.Errorf("%d retries", r.retries)
	}
	a.take(b.send()...)
	if len(a.completions()) != 1 || r.mean != 0 {
		t.Errorf("timed %d, of what was sent again", r.mean)
	}

	r.probes, r.mean, r.vary = 0, 1e6, 1e6
	a.post(rnic.SendWR{ID: 2})
	a.says("SEND Only 6 A; ")
	if at, _ := a.qp.Deadline(); at != 5e6 {
		t.Errorf("probe at %d", at)
	}
	r.mean, r.vary = 50e3, 10e3
	for careful, want := range map[bool]Instant{false: minProbe, true: lossyProbe} {
		r.careful = careful
		r.armProbe(7)
		if r.probe != 7+want {
			t.Errorf("careful %v: probe at %d", careful, r.probe)
		}
	}
}

// The window is limited in packets and bytes: it doubles with each delivered window, and after a
// loss grows by one packet.
func TestWindowGrows(t *testing.T) {
	for mtu, most := range map[int]uint32{256: 256, 1024: 256, 2048: 256, 4096: 128} {
		if widest(mtu) != most {
			t.Errorf("MTU %d: a window of %d", mtu, widest(mtu))
		}
		a, b := reliables(t, mtu, 5, nil)
		mr, _ := b.host.region(t, maxWindowBytes, rnic.RemoteWrite)
		r := &a.qp.req
		windows := func(n int) {
			t.Helper()
			for range n {
				w := r.window
				a.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{make([]byte, int(w)*mtu)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base(), Unsignaled: true})
				fs := a.send()
				if len(fs) != int(w) {
					t.Fatalf("MTU %d: %d packets leave, of a window of %d", mtu, len(fs), w)
				}
				b.take(fs...)
				a.take(b.send()...)
				want := w + 1
				if !r.capacityKnown {
					want = 2 * w
				}
				if want = min(want, widest(mtu)); r.window != want {
					t.Fatalf("MTU %d: a window of %d after one of %d, want %d", mtu, r.window, w, want)
				}
			}
		}
		windows(6)
		if r.window != widest(mtu) {
			t.Errorf("MTU %d: a window of %d", mtu, r.window)
		}
		full := r.window
		a.qp.mu.Lock()
		a.qp.rewind()
		a.qp.mu.Unlock()
		if r.window != full/2 {
			t.Errorf("MTU %d: a window of %d after a loss", mtu, r.window)
		}
		windows(3)
	}
}

// A probe sends few packets. If the answer was only late, and covers more packets than these, the
// window is restored and nothing else is retransmitted. After a real loss the window halves, and
// the rest is retransmitted.
func TestProbeOfLateAnswer(t *testing.T) {
	for _, lost := range []bool{false, true} {
		a, b := reliables(t, 256, 5, nil)
		mr, _ := b.host.region(t, 256, rnic.RemoteWrite)
		r := &a.qp.req
		for range 40 {
			a.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{make([]byte, 256)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		}
		fs := a.send()
		at, _ := a.qp.Deadline()
		a.tick(at)
		if again := a.send(); len(fs) != 40 || len(again) != minWindow || r.window != minWindow {
			t.Fatalf("%d packets, %d again, window %d", len(fs), len(again), r.window)
		} else if lost {
			fs = again
		}
		b.take(fs...)
		a.take(b.send()...)
		window, rest := uint32(initialWindow+40), 0 // it was growing
		if lost {
			window, rest = initialWindow/2, 40-minWindow
		}
		if r.window != window || r.savedWindow != 0 || r.capacityKnown != lost {
			t.Errorf("lost %v: a window of %d, want %d; found %v", lost, r.window, window, r.capacityKnown)
		}
		if more := a.send(); len(more) != min(rest, int(window)) {
			t.Errorf("lost %v: %d packets more", lost, len(more))
		} else {
			b.take(more...)
		}
		exchange(a, b)
		if n := len(a.completions()); n != 40 {
			t.Errorf("lost %v: %d Writes are done", lost, n)
		}
		want := tally.Counts{Lost: 1}
		if lost {
			want = tally.Counts{Won: 1}
		}
		if got := r.probing.tally.Counts(); got != want {
			t.Errorf("lost %v: early retransmissions %+v, want %+v", lost, got, want)
		}
	}
}

// A second consecutive probe treats the first as lost, too: the window halves each time.
func TestProbesInARow(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 10)
	a.post(rnic.SendWR{ID: 1})
	fs := a.send()
	for range 2 {
		at, _ := a.qp.Deadline()
		a.tick(at)
		a.send()
	}
	b.take(fs...)
	a.take(b.send()...)
	r := &a.qp.req
	must.Equal(t, "r.window", r.window, initialWindow/4)
	must.Equal(t, "r.capacityKnown", r.capacityKnown, true)
	must.Equal(t, "r.savedWindow", r.savedWindow, 0)
}

// An answer is timed from the packet that requested it.
func TestAnswersAreTimed(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 10, 10)
	r := &a.qp.req
	for i, want := range []struct{ mean, vary Instant }{{800, 400}, {800 + 100, 400 + (800-400)/4}} {
		a.post(rnic.SendWR{ID: uint64(i)})
		b.take(a.send()...)
		for _, f := range b.send() {
			a.host.port.Receive(Instant(800*(i+1)), f.network, f.datagram, false, nil)
		}
		if r.mean != want.mean || r.vary != want.vary || r.probe != 0 {
			t.Errorf("%d: %d, %d", i, r.mean, r.vary)
		}
	}
}

// readRequests returns first PSN and number of packets of the Read Requests in fs.
func readRequests(t *testing.T, fs []frame) (rs [][2]uint32) {
	t.Helper()
	for _, f := range fs {
		if h, _ := f.header(t); h.Opcode == packet.RCReadRequest {
			rs = append(rs, [2]uint32{h.PSN, packets(h.RETH.Length, 256)})
		}
	}
	return rs
}

// A long Read is requested in units as window and ORD permit. After a loss, repeated requests
// keep their ends, and new ones use small units.
func TestReadsInUnits(t *testing.T) {
	a, b := reliables(t, 256, 1000, func(at *Attrs) { at.MaxReads, at.MaxDestReads = 3, 3 })
	const n = 200*256 - 7
	mr, mem := b.host.region(t, n, rnic.RemoteRead)
	copy(mem, pattern(n, 3))
	sink, got := a.host.region(t, n, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: n, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	fs := a.send()
	// No more Reads are requested than the ORD.
	want(t, readRequests(t, fs), [2]uint32{1000, 16}, [2]uint32{1016, 16}, [2]uint32{1032, 16})
	b.take(fs...)
	data := b.send()
	a.take(data[:10]...)
	if fs = a.send(); len(fs) != 0 {
		t.Fatalf("asked for %v", readRequests(t, fs))
	}
	a.take(data[11]) // the eleventh is lost
	if fs = a.send(); len(fs) == 0 {
		t.Fatal("nothing is asked for again")
	}
	want(t, readRequests(t, fs), [2]uint32{1010, 6}, [2]uint32{1016, 16}) // a window of 32
	for range 1000 {
		b.take(fs...)
		a.take(b.send()...)
		for _, r := range readRequests(t, fs) {
			if last := r[0] + r[1] - 1; (last-1000+1)%fineUnit != 0 && last != 1199 {
				t.Fatalf("asked for %v", r)
			}
		}
		if n := len(a.qp.req.ends); n > 3 {
			t.Fatalf("%d requests are outstanding", n)
		}
		if fs = a.send(); len(fs) == 0 {
			break
		}
	}
	a.want(rnic.OpRead, 1, n)
	if string(got) != string(mem) {
		t.Error("other bytes")
	}
	if a.state() != RTS || b.state() != RTS {
		t.Errorf("%v, %v", a.vqp.Err(), b.vqp.Err())
	}
}

func want(t *testing.T, got [][2]uint32, want ...[2]uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("asked for %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("asked for %v, want %v", got, want)
		}
	}
}

// After a loss a requester has two small requests in flight as soon as half the second fits. It has
// three when the whole second one fits.
func TestTwoReadsInASmallWindow(t *testing.T) {
	const n = 100 * 256
	for window, want := range map[uint32]int{4: 1, 11: 1, 12: 2, 15: 2, 16: 2, 23: 2, 24: 3} {
		a, b := reliables(t, 256, 1000, nil)
		mr, _ := b.host.region(t, n, rnic.RemoteRead)
		sink, _ := a.host.region(t, n, rnic.LocalWrite)
		a.qp.req.window, a.qp.req.careful = window, true
		a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: n, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		rs := readRequests(t, a.send())
		if len(rs) != want {
			t.Errorf("a window of %d: asked for %v", window, rs)
		}
		for i, r := range rs {
			if r != [2]uint32{1000 + uint32(i)*fineUnit, fineUnit} {
				t.Errorf("a window of %d: asked for %v", window, rs)
			}
		}
	}
}

// A peer's CNP halves the window, once for the packets in flight, down to the minimum; a CNP from
// another address does nothing.
func TestCNPSlowsDown(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	cnp := func(from netip.Addr) {
		a.take(built(from, addrA, packet.Header{BTH: packet.BTH{Opcode: packet.CNP, PKey: 0xffff, BECN: true, DestQP: a.qp.num}}, make([]byte, 16)))
		a.none()
	}
	window := func(want uint32) {
		t.Helper()
		if w := a.qp.req.window; w != want {
			t.Fatalf("window of %d, want %d", w, want)
		}
	}
	b.recv(0, 10, 10, 10, 10, 10, 10, 10)
	window(64)
	cnp(netip.MustParseAddr("192.0.2.9"))
	window(64)
	for i, want := range []uint32{32, 16, 8, 4, 4} {
		a.post(rnic.SendWR{ID: uint64(i)})
		fs := a.send()
		cnp(addrB)
		cnp(addrB)
		window(want)
		b.take(fs...)
		a.take(b.send()...)
		a.want(rnic.OpSend, uint64(i), 0)
		a.qp.req.window = want // without the acknowledge's growth
	}
}

// An answering message leaves before the acknowledge: then both share a UDP message, and the
// receiver wakes once.
func TestAnswerLeavesBeforeItsAcknowledge(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	for i := range 3 {
		a.recv(1, 10)
		b.recv(1, 10)
		a.post(rnic.SendWR{})
		b.take(a.send()...)
		b.post(rnic.SendWR{})
		a.take(b.says(fmt.Sprintf("SEND Only %x A; Acknowledge %x ACK %d; ", 5+i, 5+i, i+1))...)
		b.take(a.send()...)
	}
}
