// Half of all PSNs in flight: the largest Read with the smallest path MTU, and acknowledges for
// Sends that far back.

package core

import (
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// largest registers memory of MaxMessage bytes, allocated only when touched.
func (h *host) largest(t *testing.T, access rnic.Access) *rnic.MR {
	t.Helper()
	n := int64(MaxMessage)
	mem, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		t.Fatalf("Mmap: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	mr, err := h.pd.RegMR(mem, access)
	if err != nil {
		t.Fatalf("RegMR: %v", err)
	}
	return mr
}

// few builds n of the waiting packets.
func (s *side) few(n int) (fs []frame) {
	b := make([]byte, MaxPacket)
	for range n {
		n, r, ok := s.qp.Next(0, b)
		if !ok {
			s.t.Fatal("no packet waits")
		}
		fs = append(fs, put(s.host.addr, r.Peer, r.SrcPort, b[:n]))
		s.qp.Sent(1)
	}
	return fs
}

// A Read Request with 2^23 packets uses half of all PSNs. While its data is in flight, no PSN is
// left to acknowledge the Send before it: the Read's first PSN would make the peer request the
// data again.
func TestReadOfHalfOfAllPSNs(t *testing.T) {
	_, b := withCredits(t)
	mr := b.host.largest(t, rnic.RemoteRead)
	b.recv(1, 10)
	b.take(b.say(packet.RCSendOnly, 5, nil, func(h *packet.Header) { h.AckReq = true }))
	b.says("Acknowledge 5 ACK, credits 0 1; ")
	read := b.say(packet.RCReadRequest, 6, nil, func(h *packet.Header) {
		h.RETH = packet.RETH{VA: mr.Base(), RKey: uint32(mr.STag()), Length: MaxMessage}
	})
	if d := b.take(read); d != Accepted || b.qp.in.epsn != 6+halfCircle {
		t.Fatalf("%v, expected PSN %x", d, b.qp.in.epsn)
	}
	b.recv(2, 10)
	if answers := b.qp.res.tail - b.qp.res.head; b.qp.ReceivesPosted() || answers != 1 {
		t.Errorf("new receives are told of by an acknowledge; %d answers", answers)
	}
	const begin = "RDMA READ response First 6; RDMA READ response Middle 7; "
	if got := wire(t, b.few(2)); got != begin {
		t.Errorf("says\n%s, want\n%s", got, begin)
	}

	// All of it again: its first PSN is the oldest possible duplicate.
	b.take(read)
	if got := wire(t, b.few(2)); got != begin {
		t.Errorf("once more\n%s, want\n%s", got, begin)
	}
	b.take(b.say(packet.RCSendOnly, 6+halfCircle, nil, func(h *packet.Header) { h.AckReq = true }))
	if last := b.qp.res.at(b.qp.res.tail - 1); last.op != packet.OpAck || last.psn != 6+halfCircle {
		t.Errorf("%v %x in place of the acknowledge", last.op, last.psn)
	}
}

// The last Send's PSN is acknowledged as long as it is at most half a circle back, regardless of
// the step that takes it further.
func TestAcknowledgedWithinHalf(t *testing.T) {
	for _, c := range []struct {
		back, psns uint32 // how far back the Send is, and the Read's PSNs
		valid      bool
	}{{1, halfCircle - 1, true}, {1, halfCircle, false}, {halfCircle, 1, false}, {halfCircle, halfCircle, false}, {halfCircle - 2, 2, true}} {
		qp := &QP{}
		qp.res.init(1)
		qp.res.last, qp.res.lastValid = (7-c.back)&maxPSN, true
		p := &Packet{}
		p.Opcode, p.PSN = packet.RCReadRequest, 7
		qp.taken(p, c.psns)
		if qp.acknowledge() != c.valid {
			t.Errorf("%d back and %d more: acknowledged is %v", c.back, c.psns, !c.valid)
		}
	}
}

// The requester sends a request for 2^23 packets when nothing is in flight, and begins nothing
// more until some data has come.
func TestHalfOfAllPSNsUnderWay(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	sink := a.host.largest(t, rnic.LocalWrite)
	src := b.host.largest(t, rnic.RemoteRead)
	a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: MaxMessage, RemoteSTag: src.STag(), RemoteTO: src.Base()})
	a.post(rnic.SendWR{})
	if fs := a.send(); len(fs) == 0 {
		t.Fatal("nothing is asked for")
	} else if h, _ := fs[len(fs)-1].header(t); h.Opcode != packet.RCReadRequest || a.qp.out.psn != 5+halfCircle {
		t.Errorf("%v, next PSN %x", h.Opcode, a.qp.out.psn)
	}
	if a.qp.beginRC() {
		t.Errorf("a Send has PSN %x", a.qp.out.psn-1)
	}
}

// Credits count if their PSN is no older than the last completed Send or Write. After Reads
// spanning half of all PSNs, older PSNs do not look like future ones.
func TestCreditsAfterManyReads(t *testing.T) {
	a, b := withCredits(t)
	src, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	a.qp.req.lastMessage = (5 - halfCircle + 1) & maxPSN
	old := a.qp.req.lastMessage
	a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: src.STag(), RemoteTO: src.Base()})
	b.take(a.says("RDMA READ Request 5 A; ")...)
	a.take(b.send()...)
	a.completions()
	if d := a.take(a.acknowledges(old, packet.ACK(packet.CreditCode(8)), 1)); d != DropPSN {
		t.Errorf("credits that are half a circle old: %v", d)
	}
	if d := a.take(a.acknowledges(7, packet.ACK(packet.CreditCode(8)), 1)); d != Accepted {
		t.Errorf("credits of now: %v", d)
	}
}
