// RC's end-to-end flow control: messages without credit, messages that wait for it, and the end
// of the wait.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// withCredits returns two RC QPs that give and obey credits.
func withCredits(t *testing.T) (a, b *side) {
	return reliables(t, 256, 5, func(at *Attrs) { at.ObeyCredits, at.GiveCredits = true, true; at.RNRTimer = 14 })
}

// acknowledges returns a hand-made acknowledge from the peer.
func (s *side) acknowledges(psn uint32, syndrome packet.Syndrome, msn uint32) frame {
	return s.say(packet.RCAck, psn, nil, func(h *packet.Header) { h.AETH = packet.AETH{Syndrome: syndrome, MSN: msn} })
}

func (s *side) posts(n int, wr rnic.SendWR) {
	s.t.Helper()
	for range n {
		s.post(wr)
	}
}

// At first one message goes; then as many as there are receives, and one more.
func TestMessagesWaitForCredit(t *testing.T) {
	a, b := withCredits(t)
	b.recv(1, 10, 10)
	a.posts(5, rnic.SendWR{})
	b.take(a.says("SEND Only 5 A; ")...)
	a.says("")
	a.take(b.says("Acknowledge 5 ACK, credits 1 1; ")...)
	fs := a.says("SEND Only 6 A; SEND Only 7 A; ")
	b.take(fs[0])
	a.take(b.says("Acknowledge 6 ACK, credits 0 2; ")...)
	a.says("") // 7 is on its way without credit
	b.take(fs[1])
	a.take(b.says("Acknowledge 7 RNR NAK, 1.28ms 2; ")...)

	// New receives are reported at once, and again with each acknowledge. A message refused by
	// RNR waits for its time.
	b.recv(3, 10, 10, 10)
	if d := a.take(b.says("Acknowledge 6 ACK, credits 3 2; ")...); d != Accepted {
		t.Errorf("take: %v, want %v", d, Accepted)
	}
	b.recv(6, 10) // there were receives before
	b.says("")
	a.says("")
	at, _ := a.qp.Deadline()
	a.tick(at)
	b.take(a.says("SEND Only 7 A; SEND Only 8 A; SEND Only 9 A; ")...)
	a.take(b.says("Acknowledge 9 ACK, credits 1 5; ")...)
	if wcs := a.completions(); len(wcs) != 5 {
		t.Error(wcs)
	}
}

// Work that consumes no receive needs no credit and uses none.
func TestNoCreditNeeded(t *testing.T) {
	a, b := withCredits(t)
	mr, _ := b.host.region(t, 8, rnic.RemoteWrite|rnic.RemoteRead|rnic.RemoteAtomic)
	sink, _ := a.host.region(t, 8, rnic.LocalWrite)
	at := func(wr rnic.SendWR) rnic.SendWR {
		wr.RemoteSTag, wr.RemoteTO = mr.STag(), mr.Base()
		return wr
	}
	a.post(rnic.SendWR{})
	a.post(at(rnic.SendWR{Op: rnic.OpWrite, SGL: pieces(make([]byte, 8))}))
	a.post(at(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 8}))
	a.post(at(rnic.SendWR{Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{}}))
	a.post(at(rnic.SendWR{Op: rnic.OpWriteImmediate}))
	a.post(at(rnic.SendWR{Op: rnic.OpWrite}))
	b.recv(1, 10, 10, 10)
	fs := a.says("SEND Only 5 A; RDMA WRITE Only 6 A; RDMA READ Request 7 A; FetchAdd 8 A; ")
	b.take(fs...)
	a.take(b.says("Acknowledge 6 ACK, credits 2 4; RDMA READ response Only 7; ATOMIC Acknowledge 8; ")...)
	// Two messages that need a receive have credit, and one goes without: the Write between them
	// does not count.
	a.posts(3, rnic.SendWR{})
	b.take(a.says("RDMA WRITE Only with Immediate 9 A; RDMA WRITE Only a A; SEND Only b A; SEND Only c A; ")...)
	a.take(b.send()...)
	if wcs := a.completions(); len(wcs) != 7 { // all but the last two
		t.Errorf("%v", wcs)
	}
}

// A message without credit sends its first packet, and the others once the first has found a
// receive; the same holds for a retransmission.
func TestFirstPacketAlone(t *testing.T) {
	a, b := withCredits(t)
	a.post(rnic.SendWR{Op: rnic.OpWrite})
	a.post(rnic.SendWR{SGL: pieces(make([]byte, 600))})
	a.says("RDMA WRITE Only 5 A; SEND First 6 A; ")
	at, _ := a.qp.Deadline()
	a.tick(at)
	fs := a.says("RDMA WRITE Only 5 A; SEND First 6 A; ")
	a.says("")
	b.recv(1, 600)
	b.take(fs...)
	a.take(b.says("Acknowledge 6 ACK, credits 1 1; ")...) // its own receive
	a.want(rnic.OpWrite, 0, 0)
	b.take(a.says("SEND Middle 7; SEND Last 8 A; ")...)
	a.take(b.says("Acknowledge 8 ACK, credits 0 2; ")...)
	a.want(rnic.OpSend, 0, 600)

	mr, _ := b.host.region(t, 600, rnic.RemoteWrite)
	a.post(rnic.SendWR{Op: rnic.OpWriteImmediate, SGL: pieces(make([]byte, 600)), RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	a.says("RDMA WRITE First 9; RDMA WRITE Middle a; RDMA WRITE Last with Immediate b A; ")
}

// A peer without credits in its acknowledges has no limit from its first acknowledge on. Credits
// that were not negotiated are ignored.
func TestPeerWithoutCredits(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.ObeyCredits = true })
	b.recv(1, 10)
	a.posts(4, rnic.SendWR{})
	b.take(a.says("SEND Only 5 A; ")...)
	a.take(b.says("Acknowledge 5 ACK 1; ")...)
	a.says("SEND Only 6 A; SEND Only 7 A; SEND Only 8 A; ")
	a.take(a.acknowledges(6, packet.ACK(0), 2))
	a.posts(3, rnic.SendWR{})
	a.says("SEND Only 9 A; SEND Only a A; SEND Only b A; ")

	a, _ = reliables(t, 256, 5, nil)
	a.post(rnic.SendWR{})
	a.says("SEND Only 5 A; ")
	a.take(a.acknowledges(5, packet.ACK(0), 1))
	a.posts(3, rnic.SendWR{})
	a.says("SEND Only 6 A; SEND Only 7 A; SEND Only 8 A; ")
}

// New receives are reported with the last Send's PSN even after Reads, which get no acknowledge.
func TestCreditsAfterReads(t *testing.T) {
	a, b := withCredits(t)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	b.recv(1, 10)
	a.post(rnic.SendWR{})
	a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	b.take(a.says("SEND Only 5 A; RDMA READ Request 6 A; ")...)
	a.take(b.send()...)
	a.posts(3, rnic.SendWR{})
	a.says("SEND Only 9 A; ") // without credit
	if d := a.take(a.acknowledges(4, packet.ACK(9), 2)); d != DropPSN {
		t.Error("one from before the last Send:", d)
	}
	a.says("")
	b.recv(2, 10, 10, 10)
	if d := a.take(b.says("Acknowledge 5 ACK, credits 3 2; ")...); d != Accepted {
		t.Errorf("take: %v, want %v", d, Accepted)
	}
	a.says("SEND Only a A; SEND Only b A; ")
}

// The limit never decreases, old and forged acknowledges change nothing, and the limit survives the
// wrap of message numbers.
func TestLimitMovesOn(t *testing.T) {
	a, _ := withCredits(t)
	a.qp.req.credit.ssn, a.qp.req.credit.lsn = maxPSN-1, maxPSN-1
	a.posts(9, rnic.SendWR{})
	a.says("SEND Only 5 A; ")
	a.take(a.acknowledges(4, packet.ACK(3), maxPSN-1)) // it reports three receives
	a.says("SEND Only 6 A; SEND Only 7 A; SEND Only 8 A; ")
	for _, f := range []frame{
		a.acknowledges(4, packet.ACK(3), maxPSN-1), a.acknowledges(3, packet.ACK(20), 9), a.acknowledges(9, packet.ACK(20), 9),
		a.acknowledges(4, packet.ACK(1), maxPSN), a.acknowledges(4, packet.RNR(14), 9),
	} {
		if d := a.take(f); d != DropPSN {
			t.Errorf("%x: %v", f.datagram, d)
		}
	}
	a.says("")
	a.take(a.acknowledges(5, packet.ACK(1), maxPSN)) // fewer than before
	a.says("")
	a.take(a.acknowledges(8, packet.ACK(0), 2))
	a.says("SEND Only 9 A; ")
}

// A peer with a different count gets one message after the other.
func TestPeerWithWrongMSN(t *testing.T) {
	a, _ := withCredits(t)
	a.posts(3, rnic.SendWR{})
	a.says("SEND Only 5 A; ")
	a.take(a.acknowledges(5, packet.ACK(0), 0))
	a.says("SEND Only 6 A; ")
	a.take(a.acknowledges(6, packet.ACK(0), maxPSN))
	a.says("SEND Only 7 A; ")
}

// After a reset a QP reports receives to its next peer only if that peer got a count of zero
// receives. A QP that has ended reports none.
func TestNoUnsolicitedAcknowledge(t *testing.T) {
	for _, to := range []State{RESET, ERR} {
		s := newHost(addrB).newSide(t, rnic.RC, 8, 64)
		a := Attrs{PKey: 0xffff, Peer: addrA, PathMTU: 256, DestQPN: 0x77, RQPSN: 5, GiveCredits: true}
		ready := func() {
			s.modify(INIT, initUC, a)
			s.modify(RTR, rtrRC, a)
		}
		ready()
		s.recv(1, 10)
		s.take(s.say(packet.RCSendOnly, 5, nil, func(h *packet.Header) { h.AckReq = true }))
		s.says("Acknowledge 5 ACK, credits 0 1; ")
		if !s.qp.ReceivesPosted() {
			t.Error("the peer is not told")
		}
		s.modify(to, 0, Attrs{})
		if to == RESET {
			ready()
		}
		if s.qp.ReceivesPosted() {
			t.Errorf("told of receives in %v", s.state())
		}
		s.says("")
	}
}
