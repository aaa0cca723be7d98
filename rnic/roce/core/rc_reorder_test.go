// Requests that overtake each other, and buffered requests after a loss.

package core

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// writes posts n Writes with one packet each, and returns their packets and the target memory.
func writes(t *testing.T, a, b *side, n int) (fs []frame, mem []byte) {
	t.Helper()
	mr, mem := b.host.region(t, 256*n, rnic.RemoteWrite)
	for i := range n {
		a.post(rnic.SendWR{ID: uint64(i), Op: rnic.OpWrite, SGL: [][]byte{pattern(256, i)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + uint64(256*i)})
	}
	fs = a.send()
	if len(fs) != n {
		t.Fatalf("%d packets", len(fs))
	}
	return fs, mem
}

func written(n int) (all []byte) {
	for i := range n {
		all = append(all, pattern(256, i)...)
	}
	return all
}

// Packets that overtake each other by a position or two are no loss: no NAK, no retransmission,
// and all work is done in order.
func TestReorderedRequests(t *testing.T) {
	a, b := reliables(t, 256, 0xfffff0, nil)
	fs, mem := writes(t, a, b, 40)
	for i := 0; i+3 < len(fs); i += 4 {
		b.take(fs[i+1], fs[i+2], fs[i], fs[i+3])
	}
	a.take(b.says(fmt.Sprintf("Acknowledge %x ACK 40; ", (0xfffff0+39)&maxPSN))...)
	n := len(a.completions())
	must.Equal(t, "n", n, 40)
	if !bytes.Equal(mem, written(40)) {
		t.Fatalf("mem: %.64x, want %.64x", mem, written(40))
	}
	must.Equal(t, "b.qp.Counters().Gaps", b.qp.Counters().Gaps, 0)
	must.Equal(t, "b.qp.res.reorder.n", b.qp.res.reorder.n, 0)
	if _, ok := b.qp.Deadline(); ok {
		t.Error("something is awaited")
	}
}

// The third out-of-order request triggers a NAK at once; fewer do after a delay. Buffered
// requests are acknowledged with the missing one and need no retransmission; requests too far
// ahead do.
func TestOutOfOrderRequestsAreBuffered(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	fs, mem := writes(t, a, b, 40)
	b.take(fs[0], fs[2], fs[3])
	b.says("Acknowledge 5 ACK 1; ")
	b.take(fs[4])
	nak := b.says("Acknowledge 6 NAK, PSN sequence error 1; ")
	b.take(fs[5:]...)
	b.says("")
	if n := b.qp.res.reorder.n; n != reorderWindow-1 {
		t.Errorf("%d requests are kept", n)
	}
	a.take(nak...)
	again := a.send()
	b.take(again[0])
	const kept = 1 + reorderWindow // completed requests
	a.take(b.says(fmt.Sprintf("Acknowledge %x ACK %d; ", 5+kept-1, kept))...)
	exchange(a, b)
	if n := len(a.completions()); n != 40 || !bytes.Equal(mem, written(40)) || b.qp.res.reorder.n != 0 {
		t.Errorf("%d are done, %d are kept", n, b.qp.res.reorder.n)
	}
	// The 7 last requests were too far ahead.
	if got, want := b.qp.res.reorder.tally.Counts(), (tally.Counts{Won: reorderWindow - 1, Passed: 7}); got != want {
		t.Errorf("decisions %+v, want %+v", got, want)
	}
}

// Two gaps: after the first is filled the second is reported, at once if enough requests are
// buffered after it.
func TestSecondGap(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	fs, _ := writes(t, a, b, 8)
	b.take(fs[1], fs[3], fs[4], fs[5])
	b.says("Acknowledge 5 NAK, PSN sequence error 0; ")
	b.take(fs[0])
	b.says("Acknowledge 7 NAK, PSN sequence error 2; ")
	b.take(fs[2])
	b.says("Acknowledge a ACK 6; ")
	b.take(fs[7])
	b.says("")
	b.tick(b.qp.res.gap.nextNAK)
	b.says("Acknowledge b NAK, PSN sequence error 6; ")
}

// A buffered request is checked when it is due: an invalid one then ends the QP, one without a
// receive is retransmitted, and the QP's end discards all.
func TestBufferedRequestsAreChecked(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	good := b.say(packet.RCSendOnly, 5, nil)
	_ = a
	b.recv(0, 10)
	b.take(b.say(packet.RCWriteOnly, 6, pattern(10, 1), func(h *packet.Header) { h.RETH = packet.RETH{RKey: 77, Length: 10}; h.AckReq = true }))
	b.take(b.say(packet.RCSendOnly, 7, nil))
	if b.state() != RTS || b.qp.res.reorder.n != 2 {
		t.Fatal(b.state(), b.qp.res.reorder.n)
	}
	b.take(good)
	if got := wire(t, b.send()); got != "Acknowledge 6 NAK, remote access error 1; " || b.state() != ERR || b.qp.res.reorder.n != 0 {
		t.Errorf("%s, %v, %d are kept", got, b.state(), b.qp.res.reorder.n)
	}

	a, b = reliables(t, 256, 5, nil)
	b.recv(0, 10)
	for range 3 {
		a.post(rnic.SendWR{})
	}
	fs := a.send()
	b.take(fs[1], fs[2], fs[0])
	if got := b.send(); len(got) != 1 || b.qp.res.reorder.n != 0 {
		t.Errorf("%s: %d are kept that find no receive", wire(t, got), b.qp.res.reorder.n)
	} else if h, _ := got[0].header(t); h.AETH.Syndrome.Kind() != packet.KindRNR || h.PSN != 6 {
		t.Errorf("%s", wire(t, got))
	}
	b.take(fs[2]) // later on the wire
	b.says("")
	if at, ok := b.qp.Deadline(); !ok || at < nakRepeat {
		t.Error("a peer that was told to wait is told of a gap soon")
	}
	b.recv(1, 10, 10)
	b.take(fs[1])
	b.says("Acknowledge 7 ACK 3; ")
}

// Requests in any order, with any duplicates: each is executed once.
func TestRequestsInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		a, b := reliables(t, 256, 0xfffff8, nil)
		n := 1 + r.IntN(reorderWindow)
		ctr, _ := b.host.region(t, 8, rnic.RemoteAtomic)
		fs, mem := writes(t, a, b, n)
		for range 3 {
			a.post(rnic.SendWR{Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{Data: 1}, RemoteSTag: ctr.STag(), RemoteTO: ctr.Base()})
		}
		fs = append(fs, a.send()...)
		fs = append(fs, fs[:r.IntN(n)+1]...)
		r.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
		b.take(fs...)
		a.take(b.send()...)
		for range 10 { // the requests too far ahead
			exchange(a, b)
			if at, ok := a.qp.Deadline(); ok {
				a.tick(at)
			}
			if at, ok := b.qp.Deadline(); ok {
				b.tick(at)
			}
		}
		wcs := a.completions()
		if len(wcs) != n+3 || wcs[len(wcs)-1].Value != 2 || !bytes.Equal(mem, written(n)) || b.qp.res.reorder.n != 0 {
			t.Fatalf("seed %d: %v, %d are kept", seed, wcs, b.qp.res.reorder.n)
		}
	}
}

// Buffered requests are copies, because the packet's buffer is reused. A later copy with the same
// PSN does not replace the first.
func TestBufferedRequestsAreCopies(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	fs, mem := writes(t, a, b, 2)
	early := frame{fs[1].network, bytes.Clone(fs[1].datagram)}
	b.take(early)
	clear(early.datagram)
	mr := a.qp.oldest()
	b.take(b.say(packet.RCWriteOnly, 6, pattern(256, 9), func(h *packet.Header) {
		h.RETH = packet.RETH{VA: mr.RemoteTO + 256, RKey: uint32(mr.RemoteSTag), Length: 256}
	}))
	b.take(fs[0])
	exchange(a, b)
	if !bytes.Equal(mem, written(2)) || len(a.completions()) != 2 {
		t.Error("other bytes")
	}
}

// A QP going back to RESET discards buffered requests: its next peer's PSNs may be the same.
func TestResetDropsBufferedRequests(t *testing.T) {
	b := newHost(addrB).newSide(t, rnic.RC, 4, 8)
	mr, mem := b.host.region(t, 16, rnic.RemoteWrite)
	at := Attrs{PKey: 0xffff, Access: rnic.RemoteWrite, Peer: addrA, PathMTU: 256, RQPSN: 5, MaxDestReads: 4, RNRTimer: 12}
	write := func(psn uint32, to uint64, b0 byte) frame {
		return b.say(packet.RCWriteOnly, psn, pattern(8, int(b0)), func(h *packet.Header) {
			h.RETH = packet.RETH{VA: mr.Base() + to, RKey: uint32(mr.STag()), Length: 8}
		})
	}
	b.modify(INIT, initUC, at)
	b.modify(RTR, rtrRC, at)
	b.take(write(6, 8, 1))
	if n := b.qp.res.reorder.n; n != 1 {
		t.Fatalf("%d are kept", n)
	}
	b.modify(RESET, 0, at)
	if _, ok := b.qp.Deadline(); ok {
		t.Error("something is awaited")
	}
	if got, want := b.qp.res.reorder.tally.Counts(), (tally.Counts{Lost: 1}); got != want {
		t.Errorf("decisions %+v, want %+v", got, want)
	}
	b.modify(INIT, initUC, at)
	b.modify(RTR, rtrRC, at)
	b.take(write(5, 0, 2))
	if !bytes.Equal(mem[:8], pattern(8, 2)) {
		t.Fatalf("mem[:8]: %.64x, want %.64x", mem[:8], pattern(8, 2))
	}
	if !bytes.Equal(mem[8:], make([]byte, 8)) {
		t.Fatalf("mem[8:]: %.64x, want %.64x", mem[8:], make([]byte, 8))
	}
	must.Equal(t, "b.qp.in.epsn", b.qp.in.epsn, 6)
}
