// The requester's table of calls that wait for their reply, by XID.

package rpcrdma

// pendingCalls finds a Call by its XID. It is a hash table of linked Calls, which grows with the
// most that have waited at once: most connections have few, and once it has grown putting in and
// taking out allocates nothing. The requester's lock guards it.
type pendingCalls struct {
	buckets []*Call // linked by Call.nextXID; made by the first call
	most    int     // of buckets
	n       int
}

// fewBuckets are those that it begins with.
const fewBuckets = 16

func (p *pendingCalls) init(n int) {
	size := 1
	for size < 2*n {
		size <<= 1
	}
	p.most = size
}

// bucket spreads XIDs that count up, in whichever byte order, over the table.
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
	if p.n >= len(p.buckets)/2 && len(p.buckets) < p.most {
		p.grow()
	}
	b := p.bucket(k.xid)
	k.nextXID, *b = *b, k
	p.n++
	return true
}

// grow makes the table larger: to twice what it was, or to what it begins with.
func (p *pendingCalls) grow() {
	old := p.buckets
	p.buckets = make([]*Call, min(p.most, max(2*len(old), fewBuckets)))
	for _, k := range old {
		for k != nil {
			b, next := p.bucket(k.xid), k.nextXID
			k.nextXID, *b = *b, k
			k = next
		}
	}
}

// take removes k. It does nothing when k is not in the table, which a call is not that has
// been answered already.
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

// any returns some Call, or nil when there is none.
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
