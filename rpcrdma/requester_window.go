// A requester's pending calls: their credits, their table by XID, and the receiver for a lone call.

package rpcrdma

// credits counts the calls of one connection and direction, and queues calls without a credit. It
// is pure: the requester's lock guards it, and it returns the calls to wake.
//
// The limits are absolute (RFC 8166 §3.3.1 [R8166-022]): requested is our own limit, granted the
// peer's newest. The window is the smaller of the two (RFC 8166 §3.3.1 [R8166-021]), but at least
// one (RFC 8166 §3.3.1 [R8166-025]). Before the first reply the window is one (RFC 8166 §3.3.3
// [R8166-039]).
type credits struct {
	requested int
	granted   int
	inflight  int // calls holding a credit

	head, tail *Call // waiting calls, in order of arrival, linked by Call.next
}

func newCredits(requested int) credits { return credits{requested: requested, granted: 1} }

func (cr *credits) window() int { return max(1, min(cr.requested, cr.granted)) }

// acquire takes a credit for k, or queues k behind the waiting calls.
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

// forget takes k out of the queue, and reports whether k was in it.
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

// grant records the peer's newest limit. A grant below inflight only makes later calls wait (RFC
// 8166 §3.3.1 [R8166-024]).
func (cr *credits) grant(n uint32) { cr.granted = int(min(n, 1<<30)) }

// release gives one credit back.
func (cr *credits) release() { cr.inflight-- }

// next gives a credit to the longest waiting Call and returns it, or nil.
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

// drain empties the queue, giving no credit. It returns the list of its calls.
func (cr *credits) drain() *Call {
	k := cr.head
	cr.head, cr.tail = nil, nil
	return k
}

// pendingCalls finds a Call by its XID. It is a hash table of linked Calls, grown on demand, since
// most connections have few concurrent calls. After growth, put and take allocate nothing. The
// requester's lock guards it.
type pendingCalls struct {
	buckets    []*Call // linked by Call.nextXID; made by the first call
	maxBuckets int     // upper limit for len(buckets)
	n          int
}

// firstBuckets is the first size of the table.
const firstBuckets = 16

func (p *pendingCalls) init(n int) {
	size := 1
	for size < 2*n {
		size <<= 1
	}
	p.maxBuckets = size
}

// bucket spreads consecutive XIDs, in either byte order, over the table.
func (p *pendingCalls) bucket(xid uint32) **Call {
	return &p.buckets[(xid*0x9e3779b1)>>16&uint32(len(p.buckets)-1)]
}

// find returns the Call of xid, or nil.
func (p *pendingCalls) find(xid uint32) *Call {
	if p.n == 0 {
		return nil
	}
	for k := *p.bucket(xid); k != nil; k = k.nextXID {
		if k.xid == xid {
			return k
		}
	}
	return nil
}

// put adds k unless its XID is in use (RFC 8166 §2.2.2 [R8166-003]).
func (p *pendingCalls) put(k *Call) bool {
	if p.find(k.xid) != nil {
		return false
	}
	if p.n >= len(p.buckets)/2 && len(p.buckets) < p.maxBuckets {
		p.grow()
	}
	b := p.bucket(k.xid)
	k.nextXID, *b = *b, k
	p.n++
	return true
}

// grow doubles the table, or makes the first one.
func (p *pendingCalls) grow() {
	old := p.buckets
	p.buckets = make([]*Call, min(p.maxBuckets, max(2*len(old), firstBuckets)))
	for _, k := range old {
		for k != nil {
			b, next := p.bucket(k.xid), k.nextXID
			k.nextXID, *b = *b, k
			k = next
		}
	}
}

// take removes k. It does nothing for a call not in the table: an answered call has left it.
func (p *pendingCalls) take(k *Call) {
	if p.n == 0 {
		return
	}
	for b := p.bucket(k.xid); *b != nil; b = &(*b).nextXID {
		if *b == k {
			*b, k.nextXID = k.nextXID, nil
			p.n--
			return
		}
	}
}

// any returns any pending Call, or nil.
func (p *pendingCalls) any() *Call {
	if p.n == 0 {
		return nil
	}
	for _, k := range p.buckets {
		if k != nil {
			return k
		}
	}
	return nil
}

// anyPending reports whether calls wait for their replies.
func (rq *requester) anyPending() bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.pending.n > 0
}

// ensureReceiver makes a goroutine receive while a posted call waits: the caller itself if its call
// is alone, as long as it can poll the QP, else a goroutine of the RNIC.
func (rq *requester) ensureReceiver(k *Call) {
	if rq.row.Alone() {
		rq.c.qp.PollUntil(k.hasReply)
	} else {
		rq.c.qp.EnsureReceiver()
	}
}

// replied reports whether the peer has nothing more to send for a posted call. With its reply here,
// the call may still wait for its Send's completion.
func (k *Call) replied() bool {
	k.rq.mu.Lock()
	defer k.rq.mu.Unlock()
	return k.state != callPosted && k.state != callSent
}

// promptSends requests deferred Send completions when a goroutine waits for one. Completions of
// calls are normally deferred: the reply comes later, and the receive loop handles both at once.
// That is too late in two cases: the reply arrived before the goroutine that posted the Send, for
// its own call or another's, recorded that the Send had left; or Do has given up.
//
// A goroutine that completes Sends calls promptSends after that. A goroutine that begins to wait
// for a Send updates unsent before it calls FlushDeferred itself. So at least one of the two
// notices the other.
func (c *Conn) promptSends() {
	if c.requester.unsent.Load() > 0 {
		c.qp.FlushDeferred()
	}
}
