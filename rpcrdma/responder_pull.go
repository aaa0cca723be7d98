// The responder, inbound: Read chunks of calls are pulled, when the Budget has room.

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

// runPulls starts the pulls that have budget, in order of arrival. The connection's first waiting
// pull stands in the Budget's queue, and its other pulls wait in pulls; the credits limit their
// number. No lock may be held.
func (rs *responder) runPulls() {
	for r := rs.nextPull(); r != nil; r = rs.nextPull() {
		r.startPull()
	}
}

// nextPull removes the first call from the line and takes budget for it, or returns nil.
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

// popPull removes the first call from the line, after its budget was taken. The caller holds mu.
func (rs *responder) popPull() *Request {
	r := rs.pulls[0]
	r.held += r.pullSize()
	rs.pulls = append(rs.pulls[:0], rs.pulls[1:]...)
	return r
}

// budgetServed continues the waiting pull: its n bytes have been taken. The Budget calls it, on the
// goroutine that gave bytes back.
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

// maxPull returns the limit for one call's Read chunks: the configured limit or the largest grant
// of the Budget.
func (rs *responder) maxPull() int {
	cfg := &rs.c.cfg
	return int(min(int64(cfg.MaxPull), cfg.Budget.Largest()))
}

// pullLen returns the number of bytes in all Read chunks of the call.
func (r *Request) pullLen() (n uint64) {
	for i := range r.chunks {
		n += r.chunks[i].Len()
	}
	return n
}

// pullSize returns the bytes that the call's pull takes from the Budget.
func (r *Request) pullSize() int64 { return mem.Size(int(r.pullLen())) }

// startPull registers a sink for all Read chunks of the call and posts one RDMA Read for each
// segment. Only the last one is signalled, because the RNIC completes Reads in posting order. The
// RNIC limits the outstanding Reads by the connection's ORD. One buffer serves all chunks, so that
// a call has one sink to invalidate, regardless of the peer's segments.
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
				// An empty segment is legal and holds nothing (RFC 8166 §3.4.3 [R8166-046]).
				continue
			}
			r.wrs = append(r.wrs, rnic.SendWR{
				ID: wrUnsignaled, Op: rnic.OpRead,
				MR: r.pullMR, Offset: off, Length: seg.Length,
				RemoteSTag: rnic.STag(seg.Handle), RemoteTO: seg.Offset,
				Unsignaled: true,
			})
			off += uint64(seg.Length)
		}
	}
	last := &r.wrs[len(r.wrs)-1] // wrs is not empty: take checked for pullLen > 0
	last.ID, last.Unsignaled = wrPull|r.index, false
	if err := r.post(); err != nil {
		r.discard()
	}
}

// registerSink gives only the RNIC the right to place the Reads' bytes.
func (r *Request) registerSink(b []byte) (err error) {
	if r.pullMR == nil {
		if r.pullMR, err = r.rs.c.pd.AllocMR(); err != nil {
			return err
		}
	}
	r.pullMR.Invalidate()
	return r.pullMR.Rereg(b, rnic.LocalWrite)
}

// pulled continues a call after its RDMA Reads.
func (rs *responder) pulled(index int, ok bool) (leads bool) {
	r := rs.at(index)
	clear(r.wrs)
	r.wrs = r.wrs[:0]
	r.pullMR.Invalidate() // before the buffer is read: the peer must not change it afterwards
	if !ok {              // connection lost (RFC 8166 §4.5.3 [R8166-163])
		rs.recordFatal(r)
		r.discard()
		return true
	}
	r.here, r.more = true, rs.c.more()
	return r.assemble()
}

// assemble builds the call from the inline bytes and the pulled chunks, which lie in order of their
// Positions, and serves it. Only the decoder can find out whether a chunk includes its item's
// padding (RFC 8166 §3.4.5.2 [R8166-071]).
func (r *Request) assemble() (leads bool) {
	stream, pulled := r.inline(), r.pull.B
	items := r.items
	for i := range r.chunks {
		n := int(r.chunks[i].Len())
		b := pulled[:n:n]
		pulled = pulled[n:]
		switch {
		case r.chunks[i].Position == 0:
			stream = b
		case n > 0: // Place made an item for each chunk with bytes
			items[0].Data = b
			items = items[1:]
		}
	}
	if !r.xidMatches(stream) { // a long call's XID is known only now
		_ = r.refuse(CodeChunk)
		return true
	}
	return r.serve(stream)
}
