// The requester's credits: how many calls may be in flight (RFC 8166 §3.3.1).

package rpcrdma

// credits counts the calls of one connection and direction, and queues those
// that must wait. It is pure: the Conn's lock guards it, and it wakes nobody by
// itself but hands back whom to wake.
//
// The limits are absolute (RFC 8166 §3.3.1 [R8166-022]): requested is our own, granted the peer's
// newest word, and the window is the smaller of the two (RFC 8166 §3.3.1 [R8166-021]), never less
// than one (RFC 8166 §3.3.1 [R8166-025]). Before the first reply the window is one (RFC 8166 §3.3.3
// [R8166-039]).
type credits struct {
	requested int
	granted   int
	inflight  int // calls that hold a credit

	head, tail *Call // who waits, in order of arrival, linked by Call.next
}

func newCredits(requested int) credits { return credits{requested: requested, granted: 1} }

func (cr *credits) window() int { return max(1, min(cr.requested, cr.granted)) }

// acquire takes a credit for k, or queues k after those that wait already.
func (cr *credits) acquire(k *Call) bool {
	if cr.head == nil && cr.inflight < cr.window() {
		cr.inflight++
		return true
	}
	k.next = nil
	if cr.tail == nil {
		cr.head = k
	} else {
		cr.tail.next = k
	}
	cr.tail = k
	return false
}

// forget takes k out of the queue; false when k is not in it.
func (cr *credits) forget(k *Call) bool {
	var prev *Call
	for w := cr.head; w != nil; prev, w = w, w.next {
		if w != k {
			continue
		}
		if prev == nil {
			cr.head = w.next
		} else {
			prev.next = w.next
		}
		if cr.tail == w {
			cr.tail = prev
		}
		w.next = nil
		return true
	}
	return false
}

// grant records the peer's newest limit. A grant below what is in flight only
// makes later calls wait (RFC 8166 §3.3.1 [R8166-024]).
func (cr *credits) grant(n uint32) { cr.granted = int(min(n, 1<<30)) }

// release gives one credit back.
func (cr *credits) release() { cr.inflight-- }

// next gives a credit to the Call that has waited longest and returns it, or nil.
func (cr *credits) next() *Call {
	k := cr.head
	if k == nil || cr.inflight >= cr.window() {
		return nil
	}
	cr.head = k.next
	if cr.head == nil {
		cr.tail = nil
	}
	k.next = nil
	cr.inflight++
	return k
}

// drain empties the queue, giving no credit.
func (cr *credits) drain() *Call {
	k := cr.head
	cr.head, cr.tail = nil, nil
	return k
}
