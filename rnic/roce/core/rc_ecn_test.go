// Packets marked by a switch: one CNP for marks close together, and the peer shrinks its window.

package core

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// mark sets the ECN bits in a frame's network header.
func mark(f frame, ecn byte) frame {
	f.network = bytes.Clone(f.network)
	if f.network[0]>>4 == 4 {
		f.network[1] |= ecn
	} else {
		f.network[1] |= ecn << 4
	}
	return f
}

func TestMarkedPacketsCauseCNP(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	a.qp.req.capacityKnown = true // otherwise it would grow with each packet
	b.recv(0, 2000, 2000, 2000, 2000)
	message := [][]byte{make([]byte, 1000)}
	cnps := func(fs []frame) (n int) {
		for _, f := range fs {
			h, payload := f.header(t)
			if h.Opcode != packet.CNP {
				continue
			}
			if n++; !h.BECN || h.FECN || h.PSN != 0 || h.AckReq || h.DestQP != a.qp.num || h.PKey != 0xffff || !bytes.Equal(payload, make([]byte, 16)) {
				t.Errorf("%+v, %x", h, payload)
			}
		}
		return n
	}
	for i, c := range []struct {
		ecn    byte
		now    Instant
		cnps   int
		window uint32
	}{
		{2, 1e6, 0, 64}, // ECN-capable, as we send it
		{3, 2e6, 1, 32},
		{3, 2e6 + 49_999, 0, 32}, // too soon after the last CNP
		{3, 2e6 + 50_000, 1, 16},
	} {
		a.post(rnic.SendWR{ID: uint64(i), SGL: message})
		fs := a.send()
		for _, f := range fs {
			b.host.port.Receive(c.now, mark(f, c.ecn).network, f.datagram, false, nil)
		}
		answers := b.send()
		if n := cnps(answers); n != c.cnps {
			t.Errorf("%d: %d CNPs, want %d", i, n, c.cnps)
		}
		a.take(answers...)
		if w := a.qp.req.window; w != c.window {
			t.Errorf("%d: a window of %d, want %d", i, w, c.window)
		}
		a.want(rnic.OpSend, uint64(i), 1000)
	}
}

// IPv6 marks are recognized, and marks on a stranger's packet cause no CNP.
func TestECNMarks(t *testing.T) {
	for _, n := range []int{packet.IPv4Len, packet.GRHLen} {
		p := Packet{Network: make([]byte, n+packet.UDPLen)}
		shift := 0
		if p.Network[0] = 0x45; n == packet.GRHLen {
			p.Network[0], shift = 0x60, 4
		}
		for ecn := range byte(4) {
			if p.Network[1] = ecn << shift; p.marked() != (ecn == 3) {
				t.Errorf("%d: ECN %d: %v", n, ecn, p.marked())
			}
		}
	}
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 100)
	a.post(rnic.SendWR{})
	for _, f := range a.send() {
		f = mark(f, 3)
		f.network[15]++ // another source
		b.take(f)
	}
	if fs := b.send(); len(fs) != 0 {
		t.Errorf("%d answers", len(fs))
	}
}
