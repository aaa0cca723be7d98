// ICMP reports about closed ports: which of them end a QP.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A report is easily forged. It ends a QP only if it quotes an unanswered request, and more reports
// follow for a while without any packet from the peer.
func TestPortClosed(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	quote := func(op packet.Opcode, qpn, psn uint32) []byte {
		h := packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: qpn, PSN: psn}}
		p := make([]byte, MaxPacket)
		return p[:h.Put(p)]
	}
	hear := func(at Instant, datagram []byte) bool { return a.host.port.PortClosed(at, addrB, datagram) == a.qp }
	good := quote(packet.RCSendOnly, b.qp.num, 5)
	if hear(1, good) {
		t.Error("told of a packet that was not sent")
	}
	b.recv(0, 10)
	b.recv(0, 10)
	a.post(rnic.SendWR{ID: 1})
	fs := a.send()
	for name, of := range map[string][]byte{
		"PSN before":   quote(packet.RCSendOnly, b.qp.num, 4),
		"PSN not sent": quote(packet.RCSendOnly, b.qp.num, 6),
		"another QP":   quote(packet.RCSendOnly, b.qp.num+1, 5),
		"an answer":    quote(packet.RCAck, b.qp.num, 5),
		"UD":           quote(packet.UDSendOnly, b.qp.num, 5),
		"too short":    good[:packet.BTHLen-1],
	} {
		for at := Instant(1); at < 5*portClosedLimit; at += portClosedLimit {
			if hear(at, of) || a.state() != RTS {
				t.Errorf("%s: taken", name)
			}
		}
	}
	if a.host.port.PortClosed(1, addrC, good) != nil {
		t.Error("of another peer: taken")
	}
	for at := Instant(1); at < portClosedLimit; at += portClosedLimit / 4 {
		if !hear(at, good) || a.state() != RTS {
			t.Fatal(at, a.state())
		}
	}
	b.take(fs...)
	a.take(b.send()...) // the peer is there after all
	a.post(rnic.SendWR{ID: 2})
	a.send()
	next := quote(packet.RCSendOnly, b.qp.num, 6)
	if !hear(3*portClosedLimit, next) || a.state() != RTS {
		t.Error(a.state())
	}
	hear(4*portClosedLimit, next)
	a.end.end()
	must.Equal(t, "a.state()", a.state(), ERR)
	if !errors.Is(a.vqp.Err(), ErrRefused) {
		t.Fatalf("a.vqp.Err(): %v, want %v", a.vqp.Err(), ErrRefused)
	}
	if !errors.Is(a.vqp.Err(), rnic.ErrConnLost) {
		t.Fatalf("a.vqp.Err(): %v, want %v", a.vqp.Err(), rnic.ErrConnLost)
	}
}
