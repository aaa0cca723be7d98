// What a packet costs: no allocation; and whatever comes, the core stays whole.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Neither building nor taking a packet allocates, whether it is taken or dropped.
func TestPacketsAllocateNothing(t *testing.T) {
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
				t.Fatal(err)
			}
		}
		if err := a.vqp.PostSend(rnic.SendWR{Op: op, SGL: data, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}); err != nil {
			t.Fatal(err)
		}
		for {
			n, _, ok := a.qp.Next(room)
			if !ok {
				break
			}
			length := n + packet.ICRCLen
			(&packet.IPv4{Length: uint16(28 + length), Fragment: packet.DontFragment, TTL: 64, Src: addrA, Dst: addrB}).Put(network)
			(&packet.UDP{Src: 0xc000, Dst: packet.Port, Length: uint16(8 + length)}).Put(network[packet.IPv4Len:])
			if err := c.Start(network, room[:n]); err != nil {
				t.Fatal(err)
			}
			packet.PutICRC(room[n:], c.Sum())
			var d Drop
			if touched, d = b.host.port.Receive(network, room[:length], touched[:0]); d != Accepted {
				t.Fatal(d)
			}
			room[n] ^= 1
			if _, d = b.host.port.Receive(network, room[:length], touched[:0]); d != DropICRC {
				t.Fatal(d)
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

// Whatever comes to a port with QPs of both services, in any order: no crash, no answer, at most one message
// in hand, counters that add up, and a message afterwards arrives.
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
			// Half of the time as it should be in RETH and pad, half raw after a BTH.
			h := packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.num, PSN: []uint32{psn1, psn2}[i] & maxPSN, Pad: packet.PadFor(len(p))}}
			h.DETH = packet.DETH{QKey: testQKey, SrcQP: 3}
			to(mr, 0, len(p))(&h)
			if which&4 != 0 {
				h.RETH.Length = psn2
			}
			s.take(built(addrA, addrB, h, p))
			raw := append(packHeader(packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.num}})[:packet.BTHLen], p...)
			s.take(put(addrA, addrB, 0xc000, raw))
			uc.host.port.Receive(p, p, nil)
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
