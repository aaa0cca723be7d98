// Random bytes and calls in any order: no panic, and consistent tables.

package cm

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// check compares a CM's tables with each other.
func (c *CM) check(t *testing.T) {
	t.Helper()
	half, wait, proofs := 0, 0, 0
	for id, k := range c.conns {
		if k.id != id || k.state == released {
			t.Fatalf("%v under %#x", k, id)
		}
		if k.state.halfOpen() {
			half++
		}
		if k.state == timeWait {
			wait++
		}
		if k.proof {
			proofs++
		}
		if needs := k.state != established && k.state != repReceived; needs != (k.timer != 0) {
			t.Fatalf("%v has place %d among the timers", k, k.timer)
		}
	}
	own := 0
	for a, s := range c.sources {
		own += s.halfOpen.Len()
		proofs -= s.proofs
		if s.halfOpen.Len() == 0 && s.proofs == 0 || s.halfOpen.Len() > c.cfg.PerSource {
			t.Fatalf("source %v has %d", a, s.halfOpen.Len())
		}
	}
	must.Equal(t, "half", half, own)
	must.Equal(t, "half", half, c.halfOpen.Len())
	if half > c.cfg.HalfOpen {
		t.Fatalf("half: %v, want at most %v", half, c.cfg.HalfOpen)
	}
	must.Equal(t, "wait", wait, c.timeWait.Len())
	if wait > c.cfg.TimeWaits {
		t.Fatalf("wait: %v, want at most %v", wait, c.cfg.TimeWaits)
	}
	must.Equal(t, "proofs", proofs, 0)
	for _, table := range []int{len(c.requests), len(c.pairs), len(c.timers)} {
		if table > len(c.conns) {
			t.Fatalf("a table of %d for %d connections", table, len(c.conns))
		}
	}
}

// FuzzReceive takes steps from the input: an owner's call, a correct peer's datagram with one
// byte changed, arbitrary bytes, or time.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(16) {
		f.Add([]byte{0, 0, 0, 3, i, 9, 0, 4, 1, 1, 9, 2, i, 40, 3, i + 1, 9, 0, 5, 50, 0, 6, 7, 3, i + 2, 0, 0, 5, 255, 4, 33})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		_, s := two(t, func(c *Config) { c.HalfOpen, c.PerSource, c.TimeWaits, c.Refusals = 6, 3, 2, 10 })
		var ks []*Conn
		var now Instant
		next := func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		}
		pick := func() *Conn {
			if len(ks) == 0 {
				return &Conn{}
			}
			return ks[int(next())%len(ks)]
		}
		for len(in) > 0 {
			switch op := next() % 6; op {
			case 0:
				if k := calls[int(next())%len(calls)](s, now, pick()); k != nil {
					ks = append(ks, k)
				}
			case 1, 2:
				k := pick()
				a := mad.Attribute(0x10 + next()%11)
				d := messages(s, k)[a]
				if op == 2 {
					d.MAD[next()] = next()
				}
				s.cm.Receive(now, addrA, d.MAD[:])
			case 3:
				from := forged(uint32(next() % 8))
				d := forgedREQ(s, from, uint32(next()))
				s.cm.Receive(now, from, d.MAD[:])
			case 4:
				d := by(mad.Attribute(next()), 0, &mad.RTU{})
				copy(d.MAD[next():], in)
				s.cm.Receive(now, addrA, d.MAD[:])
			case 5:
				now += Instant(next()) * 100 * millisecond
				s.cm.Advance(now)
			}
			for _, e := range s.told() {
				if e.Kind == Requested || e.Kind == Asked {
					ks = append(ks, e.Conn)
				}
			}
			s.sent()
			s.cm.check(t)
		}
	})
}

// calls are an owner's possible calls, right or wrong. Those that begin a connection return it.
var calls = []func(s *side, now Instant, k *Conn) *Conn{
	func(s *side, now Instant, _ *Conn) *Conn {
		r := request()
		r.Peer = addrA
		k, _ := s.cm.Connect(now, r)
		return k
	},
	func(s *side, now Instant, _ *Conn) *Conn {
		k, _ := s.cm.Resolve(now, Request{Peer: addrA, Service: sidrIP})
		return k
	},
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Confirm(now, k, nil); return nil },
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Disconnect(now, k, nil); return nil },
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Accept(now, k, qpB, nil); return nil },
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Reject(now, k, mad.RejNoQP, nil); return nil },
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Answer(now, k, 0, 5, 6, nil); return nil },
	func(s *side, now Instant, k *Conn) *Conn { s.cm.Heard(now, k); return nil },
	func(s *side, now Instant, k *Conn) *Conn { s.cm.Unlisten(service); return nil },
	func(s *side, now Instant, k *Conn) *Conn { _ = s.cm.Listen(service); return nil },
}
