// The simulation of UC and UD: what is delivered was sent, whole.

package core

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// Whatever UC and UD deliver is a message that was sent, whole; every send completes; every datagram is counted; nothing
// is answered; and what is sent over a good network afterwards arrives, in order.
func TestSimulatedUC(t *testing.T) {
	simSeeds(t, func(t *testing.T, seed uint64) { simulateUnreliable(t, seed, rnic.UC) })
}

func TestSimulatedUD(t *testing.T) {
	simSeeds(t, func(t *testing.T, seed uint64) { simulateUnreliable(t, seed, rnic.UD) })
}

func simulateUnreliable(t *testing.T, seed uint64, service rnic.Service) {
	r := rand.New(rand.NewPCG(seed, 2))
	a, b := pair(t, 256, uint32(seed*7919)&maxPSN)
	front := 0
	if service == rnic.UD {
		front = 40
		a, b = newHost(addrA).newSide(t, rnic.UD, 64, 256).datagrams(3), newHost(addrB).newSide(t, rnic.UD, 64, 256).datagrams(0)
	}
	w := newWorld(t, seed, a, b, someHarm(r))
	mr, _ := b.host.region(t, 2000, rnic.RemoteWrite)
	sent := map[string]bool{}
	var buf [][]byte
	var got, order []string
	post := func(i int) {
		body := fmt.Sprintf("%d %s", i, pattern([]int{0, 10, 200, 300, 1500}[r.IntN(5)], i))
		wr := rnic.SendWR{ID: uint64(i), SGL: pieces([]byte(body)), AH: &rnic.AddressHandle{Addr: addrB, QPN: b.qp.num, QKey: testQKey}}
		if service == rnic.UC && r.IntN(3) == 0 {
			wr.Op, wr.RemoteSTag, wr.RemoteTO, wr.Immediate = rnic.OpWriteImmediate, mr.STag(), mr.Base(), uint64(i)
			body = fmt.Sprint("write ", i, " ", len(body))
		}
		sent[body] = true
		order = append(order, body)
		a.post(wr)
	}
	drain := func() {
		for _, wc := range b.completions() {
			body := string(wc.Buf[min(front, len(wc.Buf)):wc.Len])
			if wc.Op == rnic.OpRecvWrite {
				body = fmt.Sprint("write ", wc.Value, " ", wc.Len)
			}
			if wc.Status != rnic.WCSuccess || !sent[body] {
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
	if n := len(a.completions()); n != total {
		t.Errorf("%d of %d sends completed", n, total)
	}
	if w.h.lose == 0 && w.h.double == 0 && len(got) > total {
		t.Errorf("%d messages of %d delivered", len(got), total)
	}
	w.allCounted(b)
	w.h = harm{delay: 10}
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

// allCounted: of each datagram that came to b it is known what became of it, and it was not answered.
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
