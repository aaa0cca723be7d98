// Early repetition by the times of answers, and Reads asked for in units.

package core

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A packet whose answer is late by the times that answers take is sent again long before it is overdue; that is no
// retry, each waits twice as long, and what was sent again is not timed.
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
}

// An answer is timed from the packet that asked for it.
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

// readRequests is first PSN and packets of the Read Requests among frames.
func readRequests(t *testing.T, fs []frame) (rs [][2]uint32) {
	t.Helper()
	for _, f := range fs {
		if h, _ := f.header(t); h.Opcode == packet.RCReadRequest {
			rs = append(rs, [2]uint32{h.PSN, packets(h.RETH.Length, 256)})
		}
	}
	return rs
}

// A Read of many packets is asked for in units as the window has room and the ORD allows; after a loss what was
// asked for is asked for again to the same ends, and what was not in small units.
func TestReadsInUnits(t *testing.T) {
	a, b := reliables(t, 256, 1000, func(at *Attrs) { at.MaxReads, at.MaxDestReads = 3, 3 })
	const n = 200*256 - 7
	mr, mem := b.host.region(t, n, rnic.RemoteRead)
	copy(mem, pattern(n, 3))
	sink, got := a.host.region(t, n, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: n, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	fs := a.send()
	want(t, readRequests(t, fs), [2]uint32{1000, 16}, [2]uint32{1016, 16}, [2]uint32{1032, 16}) // no more than the ORD
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

// A CNP of the peer's makes the window half as large, once for what is on the wire, and never too small; one of
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
		a.qp.req.window = want // without what the acknowledge has let it grow by
	}
}

// A message that answers one leaves before the acknowledge of that: the two are one message of UDP then, and who waits is woken once.
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
