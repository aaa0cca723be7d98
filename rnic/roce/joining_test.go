// Joined packets, on networks that split them with the identifications covered by the ICRC, and on
// one that does not.

package roce

import (
	"bytes"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A countingWire counts Alone and NeverJoin calls.
type countingWire struct {
	udp.Wire
	never int
}

func (w *countingWire) NeverJoin() { w.never++ }

// If the splitter is unknown, retransmitted packets travel alone, and after many of them all
// packets do; UC and UD packets always travel alone. On loopback and over IPv6 all are joined.
func TestWhenPacketsAreJoined(t *testing.T) {
	var w countingWire
	j := newJoinMonitor(netip.MustParseAddr("10.91.7.1"))
	for i := range 10 * joinedCounted {
		again := i%joinedLost == 0
		if j.mustTravelAlone(&w, rnic.RC, again) != again {
			t.Fatalf("packet %d, again %v", i, again)
		}
	}
	if !j.mustTravelAlone(&w, rnic.UC, false) || !j.mustTravelAlone(&w, rnic.UD, false) {
		t.Error("packets are joined that are not sent again")
	}
	if w.never != 0 {
		t.Error("a network that loses some packets is given up")
	}
	for i := range 2 * joinedCounted {
		j.mustTravelAlone(&w, rnic.RC, i%2 == 0)
	}
	if w.never != 1 || !j.stopped {
		t.Errorf("given up %d times", w.never)
	}
	if got, want := j.tally.Counts(), (tally.Counts{Won: 10, Lost: 1}); got != want {
		t.Errorf("decisions %+v, want %+v", got, want)
	}
	for _, at := range []string{"127.0.0.1", "127.9.9.9", "::1", "fd91:7::1"} {
		j = newJoinMonitor(netip.MustParseAddr(at))
		for _, s := range []rnic.Service{rnic.RC, rnic.UC, rnic.UD} {
			if j.mustTravelAlone(nil, s, true) {
				t.Errorf("%s: %v is not joined", at, s)
			}
		}
	}
}

// A mangler is a network that loses all but the first of joined packets, like a splitter that
// writes other identifications than the ICRC covers: it redirects them to a missing QP.
type mangler struct {
	udp.Wire
	lost *atomic.Int64

	alone, never bool
	to           netip.AddrPort
	size, n      int
}

func (w *mangler) Alone()     { w.alone = true; w.Wire.Alone() }
func (w *mangler) NeverJoin() { w.never = true; w.Wire.NeverJoin() }

func (w *mangler) Add(n int, t packet.Tail, to netip.AddrPort) error {
	if w.alone || w.never || to != w.to || n > w.size || w.n == 15 {
		w.to, w.size, w.n = to, n, 1
	} else {
		w.n++
		clear(w.Wire.Room()[5:8]) // the BTH's destination
		w.lost.Add(1)
	}
	if w.alone {
		w.size = 0
	}
	w.alone = false
	return w.Wire.Add(n, t, to)
}

// Packets between two hosts are joined; if the network splits them differently, everything still
// arrives, and after some time none is joined.
func TestJoinedBetweenHosts(t *testing.T) {
	here, there, inOther := twoHosts(t)
	for _, harm := range []bool{false, true} {
		var lost atomic.Int64
		o := Options{}
		if harm {
			o.Wrap = func(w udp.Wire) udp.Wire { return &mangler{Wire: w, lost: &lost} }
		}
		a := newSide(t, OpenWith(rnic.DeviceConfig{}, o), rnic.RC).bind(here[0])
		var b *side
		inOther(func() { b = newSide(t, OpenWith(rnic.DeviceConfig{}, Options{}), rnic.RC).bind(there[0]) })
		if b == nil {
			t.FailNow()
		}
		b.connect(OutOfBand{Peer: a.id, MTU: 1024})
		a.connect(OutOfBand{Peer: b.id, MTU: 1024})
		mr, mem := b.region(1<<20, rnic.RemoteWrite)
		data := pattern(1<<20, 1)
		for range 10 {
			clear(mem)
			a.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
			a.good(1)
			mr.Invalidate() // makes the peer's data visible
			if !bytes.Equal(mem, data) {
				t.Fatal("other bytes")
			}
			mr, mem = b.region(1<<20, rnic.RemoteWrite)
		}
		over := stoppedJoining(a)
		if harm != over || harm != (lost.Load() > 0) {
			t.Errorf("harm %v: %d packets were lost, joining is over: %v", harm, lost.Load(), over)
		}
		a.qp.Close()
		b.qp.Close()
	}
}

// stoppedJoining reports whether a side's port has stopped joining.
func stoppedJoining(s *side) bool {
	x := &rnic.EndpointOf(s.qp).(*endpoint).bound.Load().port.tx
	for !x.takeTurn() {
		runtime.Gosched()
	}
	defer x.run()
	return x.joining.stopped
}
