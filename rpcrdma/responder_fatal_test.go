// Calls with chunks refused by the requester: each ends one connection, not two.

package rpcrdma

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// A call with an unknown STag ends its connection. On the next connection its replay gets
// ERR_CHUNK, once, and other calls in flight are served.
func TestFatalCallReplayed(t *testing.T) { overProviders(t, testFatalCallReplayed) }

func testFatalCallReplayed(t *bed) {
	conformance.Proves(t, "R8166-163", "R8166-166")
	const bogus = 0xdead0000
	for _, kind := range []string{"Read chunk", "Write chunk", "Reply chunk"} {
		cfg := serverConfig(&echoServer{})
		cfg.Fatal = NewFatalCalls()
		// call is one with the chunk at seg, of 64 bytes.
		call := func(xid int, seg []uint32) []byte {
			switch kind {
			case "Read chunk":
				return words(xid, 1, 1, 0, 1, 16, seg, 0, 0, 0, xid, 0, procWrite, 64)
			case "Write chunk":
				return words(xid, 1, 1, 0, 0, 1, 1, seg, 0, 0, xid, 0, procRead, 64)
			}
			return words(xid, 1, 1, 0, 0, 0, 1, 1, seg[0], 1<<16, seg[2], seg[3], xid, 0, procRead, 1<<15)
		}
		p, c := rawRequester(t, cfg, r0)
		good := p.expose(make([]byte, 1<<16), rnic.RemoteRead|rnic.RemoteWrite)
		p.send(call(6, part(good, 0, 64)))
		p.send(call(7, []uint32{bogus, 64, 0, 0}))
		<-c.Done()
		var e rnic.PeerError
		if !errors.As(c.Err(), &e) {
			t.Fatalf("%s: %v", kind, c.Err())
		}
		if stag, ok := e.RefusedSTag(); !ok || stag != bogus {
			t.Fatalf("%s: %v names %#x, %v", kind, e, stag, ok)
		}
		checkReleased(t, c)

		p, _ = rawRequester(t, cfg, r0)
		good = p.expose(make([]byte, 1<<16), rnic.RemoteRead|rnic.RemoteWrite)
		// Another call with this XID, from another client at the same address.
		p.send(append(call(7, part(good, 0, 64)), words(0)...))
		var other Header
		if msg, err := p.next(); err != nil || other.Parse(msg) != nil || other.XID != 7 || other.Proc == ProcError {
			t.Errorf("%s of another client: %v %+v", kind, err, other)
		}
		// A call without chunks, as another client might send.
		p.send(words(7, 1, 1, 0, 0, 0, 0, 7, 0, procNull))
		p.want(kind+", no chunks", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0))
		p.send(call(7, part(good, 0, 64)))
		p.want(kind, words(7, 1, grant, 4, 2))
		for _, xid := range []int{7, 6} {
			p.send(call(xid, part(good, 0, 64)))
			var h Header
			if msg, err := p.next(); err != nil || h.Parse(msg) != nil || h.XID != uint32(xid) || h.Proc == ProcError {
				t.Errorf("%s %d: %v %+v", kind, xid, err, h)
			}
		}
	}
}

// Nothing is recorded without a FatalCalls, or for a peer without an address.
func TestNoFatalCalls(t *testing.T) {
	var none *FatalCalls
	if none.take(fatalCall{netip.IPv6Loopback(), 7, 0}, time.Now()) || addressOf(nil).IsValid() {
		t.Error("remembered")
	}
}

// The table is bounded, in all and for each client, and its calls expire.
func TestFatalCallsBounds(t *testing.T) {
	now := time.Now()
	client := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}) }
	f := NewFatalCalls()
	f.record(fatalCall{client(0), 1, 9}, now)
	f.record(fatalCall{client(0), 1, 9}, now)
	known := func(k fatalCall) bool { return f.take(k, now) }
	switch mine := (fatalCall{client(0), 1, 9}); {
	case known(fatalCall{client(1), 1, 9}), known(fatalCall{client(0), 2, 9}), known(fatalCall{client(0), 1, 8}), !known(mine), known(mine):
		t.Error("not this call, or not once")
	}
	f.record(fatalCall{client(0), 1, 9}, now)
	if f.take(fatalCall{client(0), 1, 9}, now.Add(fatalLife)) {
		t.Error("too old")
	}
	f.record(fatalCall{client(1), 9, 9}, now)
	for i := range uint32(3 * fatalPerClient) {
		f.record(fatalCall{client(0), i, 9}, now)
	}
	if len(f.at) != fatalPerClient+1 || !f.take(fatalCall{client(1), 9, 9}, now) || f.take(fatalCall{client(0), 0, 9}, now) || !f.take(fatalCall{client(0), 3*fatalPerClient - 1, 9}, now) {
		t.Errorf("%d of one client", len(f.at))
	}
	for i := range 2 * fatalMax {
		f.record(fatalCall{client(2 + i), 0, 9}, now)
	}
	if len(f.at) != fatalMax || len(f.order) != fatalMax || f.n.Load() != fatalMax {
		t.Errorf("%d, %d in order", len(f.at), len(f.order))
	}
	if !f.take(fatalCall{client(2*fatalMax + 1), 0, 9}, now) || f.take(fatalCall{client(2), 0, 9}, now) {
		t.Error("not the oldest was forgotten")
	}
}
