// The credit window without a connection.

package rpcrdma

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

func TestCreditWindow(t *testing.T) {
	conformance.Proves(t, "R8166-019", "R8166-021", "R8166-022", "R8166-023", "R8166-024", "R8166-025", "R8166-039")
	cr := newCredits(4)
	calls := make([]*Call, 10)
	for i := range calls {
		calls[i] = &Call{}
	}
	if !cr.acquire(calls[0]) || cr.acquire(calls[1]) { // one before the first reply (RFC 8166 §3.3.3 [R8166-039])
		t.Fatal("the window is not one at first")
	}
	for _, k := range calls[2:8] {
		cr.acquire(k)
	}
	cr.grant(100) // RFC 8166 §3.3.1 [R8166-021]: our own request bounds it
	for i := 1; i <= 3; i++ {
		if k := cr.next(); k != calls[i] {
			t.Fatalf("turn %d is another's", i)
		}
	}
	if cr.next() != nil || cr.inflight != 4 {
		t.Fatal("more in flight than requested")
	}
	cr.grant(2) // RFC 8166 §3.3.1 [R8166-023 R8166-024]
	cr.release()
	cr.release()
	if cr.next() != nil {
		t.Fatal("window of two with two in flight")
	}
	cr.release()
	if cr.next() != calls[4] || cr.next() != nil {
		t.Fatal("window of two with one in flight")
	}
	cr.grant(0) // RFC 8166 §3.3.1 [R8166-025]
	cr.release()
	cr.release()
	if cr.next() != calls[5] || cr.next() != nil {
		t.Fatal("a grant of zero is one")
	}
	if got, want := [3]bool{cr.forget(calls[6]), cr.forget(calls[6]), cr.forget(calls[5])}, [3]bool{true}; got != want {
		t.Fatalf("forget: %v, want %v", got, want)
	}
	cr.grant(1<<32 - 1)
	if got, want := [3]*Call{cr.next(), cr.next(), cr.tail}, [3]*Call{calls[7]}; got != want {
		t.Fatalf("queue after forget: %v, want %v", got, want)
	}
	if !cr.acquire(calls[8]) || cr.inflight != 3 {
		t.Fatal("a grant of 2^32-1")
	}
}

func TestForgetEnds(t *testing.T) {
	cr := newCredits(1)
	a, b, c := &Call{}, &Call{}, &Call{}
	cr.acquire(&Call{})
	cr.acquire(a)
	cr.acquire(b)
	cr.forget(b)
	cr.acquire(c)
	cr.forget(a)
	cr.release()
	if cr.next() != c || cr.tail != nil {
		t.Fatal("the queue lost its order")
	}
}

func TestPendingCalls(t *testing.T) { // RFC 8166 §2.2.2 [R8166-002 R8166-003]
	conformance.Proves(t, "R8166-002", "R8166-003")
	for _, n := range []int{4, 200} { // fewer calls expected than made, and more
		testPendingCalls(t, n)
	}
}

func testPendingCalls(t *testing.T, n int) {
	var p pendingCalls
	p.init(n)
	var calls [64]Call
	for i := range calls {
		calls[i].xid = uint32(i) << 24
		if !p.put(&calls[i]) {
			t.Fatal("refused")
		}
		if i == 0 && len(p.buckets) > firstBuckets {
			t.Fatalf("%d buckets for one call", len(p.buckets))
		}
	}
	if n == 200 && len(p.buckets) < len(calls) {
		t.Errorf("%d buckets for %d calls", len(p.buckets), len(calls))
	}
	if p.put(&Call{xid: 5 << 24}) {
		t.Fatal("one XID twice")
	}
	for i := range calls {
		k := p.find(uint32(i) << 24)
		if k != &calls[i] {
			t.Fatal("not found")
		}
		p.take(k)
		if p.find(k.xid) != nil {
			t.Fatal("found after take")
		}
	}
	if p.any() != nil || p.n != 0 {
		t.Fatal("not empty")
	}
}
