// Allocations for packets, and fuzzing of received packets.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Building and taking packets allocates nothing, even for dropped ones.
func TestPacketsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	a, b := pair(t, 1024, 0)
	mr, _ := b.host.region(t, 8192, rnic.RemoteWrite)
	room, touched := make([]byte, MaxPacket+packet.ICRCLen), make([]*QP, 0, 4)
	data, buf := [][]byte{make([]byte, 5000)}, make([]byte, 5000)
	var wcs [8]rnic.WC
	network := put(addrA, addrB, 0xc000, make([]byte, packet.BTHLen)).network
	var c packet.ICRC
	round := func(op rnic.Opcode) {
		if op == rnic.OpSend {
			if err := b.vqp.PostRecv(rnic.RecvWR{Buf: buf}); err != nil {
				t.Fatalf("PostRecv: %v", err)
			}
		}
		if err := a.vqp.PostSend(rnic.SendWR{Op: op, SGL: data, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}); err != nil {
			t.Fatalf("PostSend: %v", err)
		}
		for {
			n, _, ok := a.qp.Next(0, room)
			if !ok {
				break
			}
			length := n + packet.ICRCLen
			(&packet.IPv4{Length: uint16(28 + length), Fragment: packet.DontFragment, TTL: 64, Src: addrA, Dst: addrB}).Put(network)
			(&packet.UDP{Src: 0xc000, Dst: packet.Port, Length: uint16(8 + length)}).Put(network[packet.IPv4Len:])
			if err := c.Start(network, room[:n]); err != nil {
				t.Fatalf("Start: %v", err)
			}
			packet.PutICRC(room[n:], c.Sum())
			var d Drop
			if touched, d = b.host.port.Receive(0, network, room[:length], false, touched[:0]); d != Accepted {
				t.Fatalf("Receive: %v, want %v", d, Accepted)
			}
			room[n] ^= 1
			if _, d = b.host.port.Receive(0, network, room[:length], false, touched[:0]); d != DropICRC {
				t.Fatalf("Receive: %v, want %v", d, DropICRC)
			}
			a.qp.Sent(1)
		}
		a.cq.Poll(wcs[:])
		b.cq.Poll(wcs[:])
	}
	for _, op := range []rnic.Opcode{rnic.OpSend, rnic.OpWrite} {
		_, q := b.qp.Query()
		a.qp.out.psn = q.RQPSN
		round(op)
		if n := testing.AllocsPerRun(50, func() { round(op) }); n != 0 {
			t.Errorf("%v: %v allocations", op, n)
		}
	}
}

// Any packets in any order, for a port with UC and UD QPs: no crash, no answer, at most one
// message being received, consistent counters, and a later message arrives.
func FuzzReceive(f *testing.F) {
	f.Add(byte(0x24), uint32(100), byte(0), []byte("hello"), byte(0x22), uint32(101), []byte("x"))
	f.Add(byte(0x20), uint32(100), byte(0), make([]byte, 256), byte(0x22), uint32(101), []byte("x"))
	f.Add(byte(0x26), uint32(100), byte(0), make([]byte, 256), byte(0x28), uint32(101), []byte("x"))
	f.Add(byte(0x64), uint32(1), byte(1), []byte("ud"), byte(0x65), uint32(1), []byte{})
	f.Fuzz(func(t *testing.T, op1 byte, psn1 uint32, which byte, p1 []byte, op2 byte, psn2 uint32, p2 []byte) {
		if len(p1) > 5000 || len(p2) > 5000 {
			return
		}
		h := newHost(addrB)
		uc := h.newSide(t, rnic.UC, 8, 64).connect(Attrs{Access: rnic.RemoteWrite, Peer: addrA, PathMTU: 256, DestQPN: 0x77, RQPSN: 100})
		ud := h.newSide(t, rnic.UD, 8, 64).datagrams(0)
		mr, _ := h.region(t, 300, rnic.RemoteWrite)
		for _, s := range []*side{uc, ud} {
			s.recv(1, 500, 500, 500)
		}
		for i, p := range [][]byte{p1, p2} {
			s := []*side{uc, ud}[(int(which)>>i)&1]
			op := packet.Opcode([]byte{op1, op2}[i])
			// Half of them with a suitable RETH and pad, half raw after a BTH.
			h := packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.num, PSN: []uint32{psn1, psn2}[i] & maxPSN, Pad: packet.PadFor(len(p))}}
			h.DETH = packet.DETH{QKey: testQKey, SrcQP: 3}
			to(mr, 0, len(p))(&h)
			if which&4 != 0 {
				h.RETH.Length = psn2
			}
			s.take(built(addrA, addrB, h, p))
			raw := append(packHeader(packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.num}})[:packet.BTHLen], p...)
			s.take(put(addrA, addrB, 0xc000, raw))
			uc.host.port.Receive(0, p, p, false, nil)
		}
		c := h.port.Counters()
		sum := uint64(0)
		for _, n := range c.Packets {
			sum += n
		}
		if sum != 6 {
			t.Errorf("%d packets counted, of 6: %v", sum, c.Packets)
		}
		for _, s := range []*side{uc, ud} {
			if len(s.send()) != 0 || s.state() != RTS {
				t.Errorf("%v answered, or is in %v", s.qp, s.state())
			}
			s.completions()
			s.recv(50, 500)
		}
		uc.take(uc.say(packet.UCSendOnly, uc.epsn(), []byte("after")))
		ud.take(ud.say(packet.UDSendOnly, 0, []byte("after")))
		for i, s := range []*side{uc, ud} {
			if wcs := s.completions(); len(wcs) != 1 || int(wcs[0].Len) != []int{5, 45}[i] {
				t.Errorf("%v after that: %v", s.qp, wcs)
			}
		}
	})
}

// RC allocates nothing either: Sends with acknowledges, Writes, Reads, retransmissions.
func TestReliableAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	a, b := reliables(t, 1024, 0, nil)
	mr, _ := b.host.region(t, 8192, rnic.RemoteWrite|rnic.RemoteRead)
	sink, _ := a.host.region(t, 8192, rnic.LocalWrite)
	room, touched := make([]byte, MaxPacket+packet.ICRCLen), make([]*QP, 0, 4)
	data, buf := [][]byte{make([]byte, 5000)}, make([]byte, 5000)
	var wcs [8]rnic.WC
	networks := map[*side][]byte{a: put(addrA, addrB, 0xc000, make([]byte, packet.BTHLen)).network, b: put(addrB, addrA, 0xc000, make([]byte, packet.BTHLen)).network}
	var c packet.ICRC
	carry := func(from, to *side) (n int) {
		for {
			length, _, ok := from.qp.Next(0, room)
			if !ok {
				return n
			}
			n++
			size, network := length+packet.ICRCLen, networks[from]
			(&packet.IPv4{Length: uint16(28 + size), Fragment: packet.DontFragment, TTL: 64, Src: from.host.addr, Dst: to.host.addr}).Put(network)
			(&packet.UDP{Src: 0xc000, Dst: packet.Port, Length: uint16(8 + size)}).Put(network[packet.IPv4Len:])
			if err := c.Start(network, room[:length]); err != nil {
				t.Fatalf("Start: %v", err)
			}
			packet.PutICRC(room[length:], c.Sum())
			touched, _ = to.host.port.Receive(0, network, room[:size], false, touched[:0])
		}
	}
	round := func(op rnic.Opcode, lose bool) {
		if op == rnic.OpSend {
			if err := b.vqp.PostRecv(rnic.RecvWR{Buf: buf}); err != nil {
				t.Fatalf("PostRecv: %v", err)
			}
		}
		wr := rnic.SendWR{Op: op, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}
		if wr.SGL = data; op == rnic.OpRead {
			wr.SGL, wr.MR, wr.Length = nil, sink, 5000
		}
		if err := a.vqp.PostSend(wr); err != nil {
			t.Fatalf("PostSend: %v", err)
		}
		if lose {
			for _, _, ok := a.qp.Next(0, room); ok; _, _, ok = a.qp.Next(0, room) {
			}
			at, _ := a.qp.Deadline()
			a.qp.Tick(at)
		}
		for carry(a, b)+carry(b, a) > 0 {
		}
		if a.cq.Poll(wcs[:]) != 1 || wcs[0].Status != rnic.WCSuccess {
			t.Fatal(wcs[0])
		}
		b.cq.Poll(wcs[:])
	}
	for _, op := range []rnic.Opcode{rnic.OpSend, rnic.OpWrite, rnic.OpRead} {
		for _, lose := range []bool{false, true} {
			round(op, lose)
			if n := testing.AllocsPerRun(50, func() { round(op, lose) }); n != 0 {
				t.Errorf("%v, lost %v: %v allocations", op, lose, n)
			}
		}
	}
}

// Any packets for an RC QP with work in flight: no crash, no byte outside granted memory, a
// bounded number of answers, and all work completes.
func FuzzReceiveRC(f *testing.F) {
	f.Add([]byte{0x04, 100, 0, 'x', 0x11, 5, 0, 0x11, 6, 31})
	f.Add([]byte{0x0c, 100, 0, 1, 0x13, 101, 9, 2, 0x0d, 6, 3, 3, 0x11, 5, 0x60, 1, 0x11, 5, 0x21, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return
		}
		s := newHost(addrB).newSide(t, rnic.RC, 16, 64)
		s.reliable(Attrs{Access: rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic, Peer: addrA, PathMTU: 256, DestQPN: 0x77, RQPSN: 100, SQPSN: 5,
			Timeout: 5, RetryCount: 3, RNRRetry: 3, MaxReads: 3, MaxDestReads: 3})
		s.recv(1, 300, 300, 300)
		mem := pattern(1000, 1)
		mr, err := s.host.pd.RegMR(mem[100:900], rnic.RemoteWrite|rnic.RemoteRead|rnic.RemoteAtomic)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		sink, _ := s.host.region(t, 600, rnic.LocalWrite)
		s.post(rnic.SendWR{ID: 1, SGL: [][]byte{pattern(300, 1)}})
		s.post(rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: sink, Length: 600})
		s.post(rnic.SendWR{ID: 3, Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{Data: 1}})
		s.post(rnic.SendWR{ID: 4})
		now := Instant(0)
		for ; len(script) >= 4; script = script[4:] {
			n := int(script[3]) * 3
			h := packet.Header{BTH: packet.BTH{Opcode: packet.Opcode(script[0]), PKey: 0xffff, DestQP: s.qp.num, PSN: uint32(script[1]), AckReq: script[2]&1 != 0, Pad: packet.PadFor(n)}}
			to(mr, int(script[2]), n)(&h)
			h.Atomic = packet.AtomicETH{VA: mr.Base() + uint64(script[2]&^7), RKey: uint32(mr.STag()), SwapAdd: 1}
			h.AETH.Syndrome = packet.Syndrome(script[2])
			f := built(addrA, addrB, h, nil)
			if h.Opcode.Known() && h.Opcode.Payload() {
				f = built(addrA, addrB, h, make([]byte, n))
			}
			for _, p := range []frame{f, put(addrA, addrB, 1, append(packHeader(h)[:packet.BTHLen], script...))} {
				before := s.qp.res.tail - s.qp.res.head
				s.host.port.Receive(now, p.network, p.datagram, false, nil)
				if after := s.qp.res.tail - s.qp.res.head; after > before+1 || int(after) > len(s.qp.res.ring) {
					t.Fatalf("%d answers after %d", after, before)
				}
			}
			if script[2]&2 != 0 {
				s.send()
			}
			now += Instant(script[2]) * 100
			s.qp.Tick(now)
		}
		if string(mem[:100]) != string(pattern(1000, 1)[:100]) || string(mem[900:]) != string(pattern(1000, 1)[900:]) {
			t.Error("bytes outside of the region were written")
		}
		s.end.end()
		s.end.Abort(nil)
		ids := 0
		for _, wc := range s.completions() {
			if wc.Op != rnic.OpRecv && wc.Op != rnic.OpRecvWrite {
				ids++
			}
		}
		if ids != 4 {
			t.Errorf("%d of 4 came back", ids)
		}
	})
}
