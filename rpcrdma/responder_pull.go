// The responder, pulling Read chunks: budget, RDMA Reads, and the call put together from them.

package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// queuePull puts a call with Read chunks in line for the budget.
func (rs *responder) queuePull(r *Request) {
	r.become(requestWaiting)
	rs.mu.Lock()
	rs.pulls = append(rs.pulls, r)
	rs.mu.Unlock()
	rs.runPulls()
}

// runPulls starts the pulls for which there is budget, in order of arrival. The
// first that has to wait stands in the Budget's line, the others of this
// connection after it; the credits bound how many. No lock may be held.
func (rs *responder) runPulls() {
	for r := rs.nextPull(); r != nil; r = rs.nextPull() {
		r.startPull()
	}
}

// nextPull takes the first call in line out of it, with budget for it, or
// returns nil.
func (rs *responder) nextPull() *Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.pulls) == 0 || rs.waits || rs.ended {
		return nil
	}
	if !rs.account.TakeOrWait(rs.pulls[0].pullSize()) {
		rs.waits = true
		return nil
	}
	return rs.popPull()
}

// popPull takes the first call in line out of it, whose budget has been taken. The
// caller holds mu.
func (rs *responder) popPull() *Request {
	r := rs.pulls[0]
	r.held += r.pullSize()
	rs.pulls = append(rs.pulls[:0], rs.pulls[1:]...)
	return r
}

// budgetServed goes on with the pull that waited: its n bytes have been taken. It is
// where the Budget calls, on the goroutine of whoever gave bytes back.
func (rs *responder) budgetServed(n int64) {
	rs.mu.Lock()
	rs.waits = false
	if rs.ended { // end has the pull already
		rs.mu.Unlock()
		rs.account.Give(n)
		return
	}
	r := rs.popPull()
	rs.mu.Unlock()
	r.startPull()
	rs.runPulls()
}

// maxPull is the most bytes that one call's Read chunks can have: what is
// configured, and what the Budget can ever give.
func (rs *responder) maxPull() int {
	cfg := &rs.c.cfg
	return int(min(int64(cfg.MaxPull), cfg.Budget.Largest()))
}

// pullLen is the bytes of all Read chunks of the call.
func (r *Request) pullLen() (n uint64) {
	for i := range r.chunks {
		n += r.chunks[i].Len()
	}
	return n
}

// pullSize is what the call's pull counts in the Budget.
func (r *Request) pullSize() int64 { return mem.Size(int(r.pullLen())) }

// startPull registers a sink for all Read chunks of the call and posts one RDMA
// Read for each segment. The last one, with its completion, stands for all: the RNIC
// completes Reads in the order of posting. How many are outstanding at once is the RNIC's to
// bound, by the ORD of the connection. One buffer serves all chunks, so that a call has one
// sink to invalidate, whatever the peer made of it.
func (r *Request) startPull() {
	r.become(requestPulling)
	n := int(r.pullLen())
	r.pull = mem.Get(n)
	if err := r.registerSink(r.pull.B[:n]); err != nil {
		_ = r.refuse(CodeChunk)
		return
	}
	off := uint64(0)
	for i := range r.chunks {
		for _, seg := range r.chunks[i].Segments {
			if seg.Length == 0 {
				continue // an empty segment is legal and holds nothing (RFC 8166 §3.4.3 [R8166-046])
			}
			r.wrs = append(r.wrs, rnic.SendWR{
				ID: wrQuiet, Op: rnic.OpRead,
				MR: r.pullMR, Offset: off, Length: seg.Length,
				RemoteSTag: rnic.STag(seg.Handle), RemoteTO: seg.Offset,
				Unsignaled: true,
			})
			off += uint64(seg.Length)
		}
	}
	last := &r.wrs[len(r.wrs)-1] // there is one: take has seen to it
	last.ID, last.Unsignaled = wrPull|r.index, false
	if err := r.post(); err != nil {
		r.discard()
	}
}

// registerSink gives the RNIC, and nobody else, the right to place what the Reads bring.
func (r *Request) registerSink(b []byte) (err error) {
	if r.pullMR == nil {
		if r.pullMR, err = r.rs.c.pd.AllocMR(); err != nil {
			return err
		}
	}
	r.pullMR.Invalidate()
	return r.pullMR.Rereg(b, rnic.LocalWrite)
}

// pulled goes on with a call whose RDMA Reads have ended.
func (rs *responder) pulled(index int, ok bool) {
	r := rs.at(index)
	clear(r.wrs)
	r.wrs = r.wrs[:0]
	r.pullMR.Invalidate() // before anybody reads the buffer: the peer must not change it afterwards
	if !ok {              // the connection is lost: that is what a failed Read means (RFC 8166 §4.5.3 [R8166-163])
		rs.noteFatal(r)
		r.discard()
		return
	}
	r.assemble()
}

// assemble puts the call together from the inline bytes and the pulled chunks, which lie one after
// the other in order of their Positions, and has it served. Whether a chunk holds its item's pad
// too only the decoder can tell (RFC 8166 §3.4.5.2 [R8166-071]).
func (r *Request) assemble() {
	stream, pulled := r.inline(), r.pull.B
	items := r.items
	for i := range r.chunks {
		n := int(r.chunks[i].Len())
		b := pulled[:n:n]
		pulled = pulled[n:]
		switch {
		case r.chunks[i].Position == 0:
			stream = b
		case n > 0: // Place made an item for each of these
			items[0].Data = b
			items = items[1:]
		}
	}
	if !r.xidMatches(stream) { // of a long call it is known only now
		_ = r.refuse(CodeChunk)
		return
	}
	r.serve(stream)
}
