// Calls with chunks refused by the requester: each ends one connection, not two.

package rpcrdma

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
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
		// call returns a call with one chunk, 64 bytes at seg.
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
		msg, err := p.next()
		if err := errors.Join(err, other.Parse(msg)); err != nil {
			t.Errorf("%s of another client: %v", kind, err)
		}
		if other.XID != 7 || other.Proc == ProcError {
			t.Errorf("%s of another client: %+v, want a reply to XID 7", kind, other)
		}
		// A call without chunks, as another client might send.
		p.send(words(7, 1, 1, 0, 0, 0, 0, 7, 0, procNull))
		p.want(kind+", no chunks", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0))
		p.send(call(7, part(good, 0, 64)))
		p.want(kind, words(7, 1, grant, 4, 2))
		for _, xid := range []int{7, 6} {
			p.send(call(xid, part(good, 0, 64)))
			var h Header
			msg, err := p.next()
			if err := errors.Join(err, h.Parse(msg)); err != nil {
				t.Errorf("%s %d: %v", kind, xid, err)
			}
			if h.XID != uint32(xid) || h.Proc == ProcError {
				t.Errorf("%s %d: %+v, want a reply", kind, xid, h)
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
	must.Equal(t, "calls of two clients", len(f.at), fatalPerClient+1)
	for call, want := range map[fatalCall]bool{{client(1), 9, 9}: true, {client(0), 0, 9}: false, {client(0), 3*fatalPerClient - 1, 9}: true} {
		if got := f.take(call, now); got != want {
			t.Errorf("%+v is recorded: %v, want %v", call, got, want)
		}
	}
	for i := range 2 * fatalMax {
		f.record(fatalCall{client(2 + i), 0, 9}, now)
	}
	if got, want := [3]int{len(f.at), len(f.order), int(f.n.Load())}, [3]int{fatalMax, fatalMax, fatalMax}; got != want {
		t.Errorf("calls, in order, counted: %v, want %v", got, want)
	}
	if !f.take(fatalCall{client(2*fatalMax + 1), 0, 9}, now) || f.take(fatalCall{client(2), 0, 9}, now) {
		t.Error("not the oldest was forgotten")
	}
}
