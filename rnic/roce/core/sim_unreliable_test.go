// The simulation for UC and UD: delivered messages were sent, and are complete.

package core

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// UC and UD deliver only complete, sent messages. Every send completes, every datagram is
// counted, nothing is answered, and later messages over a good network arrive in order.
func TestSimulatedUC(t *testing.T) {
	simSeeds(t, func(t *testing.T, seed uint64) { simulateUnreliable(t, seed, rnic.UC) })
}

func TestSimulatedUD(t *testing.T) {
	simSeeds(t, func(t *testing.T, seed uint64) { simulateUnreliable(t, seed, rnic.UD) })
}

// unreliableSides returns the senders and the receiver: for UD one receives from many, two of
// them on one host.
func unreliableSides(t *testing.T, seed uint64, service rnic.Service) (senders []*side, to *side) {
	if service == rnic.UC {
		a, b := pair(t, 256, uint32(seed*7919)&maxPSN)
		return []*side{a}, b
	}
	h, other := newHost(addrA), newHost(netip.MustParseAddr("192.0.2.3"))
	for i, from := range []*host{h, h, other} {
		senders = append(senders, from.newSide(t, rnic.UD, 64, 256).datagrams(maxPSN-uint32(5*i)))
	}
	return senders, newHost(addrB).newSide(t, rnic.UD, 64, 256).datagrams(0)
}

func simulateUnreliable(t *testing.T, seed uint64, service rnic.Service) {
	r := rand.New(rand.NewPCG(seed, 2))
	senders, b := unreliableSides(t, seed, service)
	front := map[rnic.Service]int{rnic.UD: 40}[service]
	w := newWorld(t, seed, senders[0], b, someHarm(r))
	for _, more := range senders[1:] {
		w.sides, w.peer[more] = append(w.sides, more), b
	}
	mr, _ := b.host.region(t, 2000, rnic.RemoteWrite)
	sent := map[string]uint32{} // the sender's QPN; UC packets have none
	var buf [][]byte
	var got, order []string
	post := func(i int) {
		body := fmt.Sprintf("%d %s", i, pattern([]int{0, 10, 200, 300, 1500}[r.IntN(5)], i))
		wr := rnic.SendWR{ID: uint64(i), SGL: pieces([]byte(body)), AH: &rnic.AddressHandle{Addr: addrB, QPN: b.qp.num, QKey: testQKey}}
		if service == rnic.UC && r.IntN(3) == 0 {
			wr.Op, wr.RemoteSTag, wr.RemoteTO, wr.Immediate = rnic.OpWriteImmediate, mr.STag(), mr.Base(), uint64(i)
			body = fmt.Sprint("write ", i, " ", len(body))
		}
		from := senders[r.IntN(len(senders))]
		if sent[body] = 0; service == rnic.UD {
			sent[body] = from.qp.num
		}
		order = append(order, body)
		from.post(wr)
	}
	drain := func() {
		for _, wc := range b.completions() {
			body := string(wc.Buf[min(front, len(wc.Buf)):wc.Len])
			if wc.Op == rnic.OpRecvWrite {
				body = fmt.Sprint("write ", wc.Value, " ", wc.Len)
			}
			if from, ok := sent[body]; wc.Status != rnic.WCSuccess || !ok || from != wc.SrcQP {
				t.Errorf("%v delivers what was never sent: %.30q", wc, body)
			}
			got = append(got, body)
		}
	}
	listen := func() {
		for len(buf) < 64+len(got) {
			p := make([]byte, 4096)
			buf = append(buf, p)
			if b.vqp.PostRecv(rnic.RecvWR{ID: uint64(len(buf)), Buf: p}) != nil {
				break
			}
		}
	}
	total := 30
	for i := range total {
		post(i)
		if r.IntN(4) > 0 {
			listen()
		}
		w.step()
		drain()
	}
	for w.step() {
		drain()
	}
	drain()
	if n := completed(senders); n != total {
		t.Errorf("%d of %d sends completed", n, total)
	}
	if w.h.lose == 0 && w.h.double == 0 && len(got) > total {
		t.Errorf("%d messages of %d delivered", len(got), total)
	}
	w.allCounted(b)
	w.h = faults{delay: 10}
	got, order = nil, nil
	for i := range 10 {
		listen()
		post(1000 + i)
		for w.step() {
			drain()
		}
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", order) {
		t.Errorf("over a good network %d of %d arrived", len(got), len(order))
	}
}

// completed returns the number of completed sends.
func completed(senders []*side) (n int) {
	for _, s := range senders {
		n += len(s.completions())
	}
	return n
}

// allCounted checks that each of b's datagrams is counted, and none was answered.
func (w *world) allCounted(b *side) {
	w.t.Helper()
	sum := uint64(0)
	for _, n := range b.host.port.Counters().Packets {
		sum += n
	}
	if int(sum) != w.came || w.peer[b].state() != RTS || b.state() != RTS || len(b.send()) != 0 {
		w.t.Errorf("%d of %d datagrams counted; %v, %v", sum, w.came, w.peer[b].state(), b.state())
	}
}
