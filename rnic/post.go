// Posting: work requests are judged, copied into the queues, and sent at once where that is possible.

package rnic

import "math"

// PostSend queues the work requests, all or none, in order. It never blocks:
// when nobody else is transmitting, the caller's goroutine hands to the kernel
// what the socket has room for, and leaves the rest to the QP's transmit loop.
func (qp *QP) PostSend(wrs ...SendWR) error {
	if len(wrs) == 0 {
		return nil
	}
	for i := range wrs {
		if err := qp.judgeSend(&wrs[i]); err != nil {
			return err
		}
	}
	early := qp.tx.early(wrs)
	mine, err := qp.sq.post(wrs, early)
	if early != nil {
		earlyPool.Put(early)
	}
	if mine {
		qp.tx.runInline()
	}
	return err
}

// post queues wrs, and says whether it is the caller who has to transmit them.
func (sq *sendQueue) post(wrs []SendWR, early *earlyCRCs) (mine bool, err error) {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	if !sq.open {
		return false, ErrState
	}
	if int(sq.tail-sq.head)+len(wrs) > sq.depth {
		return false, ErrSQFull
	}
	for i := range wrs {
		if sq.ord == 0 && wrs[i].Op.awaited() {
			return false, errNoORD
		}
	}
	for i := range wrs {
		sq.push(&wrs[i], early)
	}
	sq.uncorkEarly()
	return sq.claim(), nil
}

// judgeSend says what is wrong with a work request before it is queued.
func (qp *QP) judgeSend(wr *SendWR) error {
	switch wr.Op {
	case OpSend, OpSendSE, OpWrite:
	case OpSendInvalidate, OpSendSEInvalidate:
		if wr.Invalidate == 0 {
			return errNoInv
		}
	case OpRead, OpReadInvalidate:
		return qp.judgeSink(wr)
	case OpImmediate, OpImmediateSE, OpFetchAdd, OpCmpSwap, OpSwap:
		return qp.judgeExtension(wr)
	case OpLocalInvalidate:
		if wr.MR == nil || wr.MR.pd != qp.pd {
			return errNoMR
		}
		return nil
	default:
		return errOpcode
	}
	if total(wr.SGL) > math.MaxUint32 { // R5040-001, R5041-055
		return errTooLong
	}
	return nil
}

// judgeSink checks the sink of an RDMA Read.
func (qp *QP) judgeSink(wr *SendWR) error {
	mr := wr.MR
	if mr == nil || mr.pd != qp.pd {
		return errNoMR
	}
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	_, f := mr.judge(qp, mr.STag(), mr.base+wr.Offset, uint64(wr.Length), LocalWrite)
	if wr.Offset > math.MaxUint32 || f != memOK {
		return errReadSink
	}
	return nil
}

func total(sgl [][]byte) (n uint64) {
	for _, b := range sgl {
		n += uint64(len(b))
	}
	return n
}

// PostRecv queues receive buffers, all or none, in order; allowed before the QP
// is connected. A buffer comes home with its completion, a flushed one too.
func (qp *QP) PostRecv(wrs ...RecvWR) error {
	rq := &qp.rq
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.closed {
		return ErrState
	}
	if int(rq.tail-rq.head)+len(wrs) > rq.depth {
		return ErrRQFull
	}
	rq.grow(len(wrs))
	for i := range wrs {
		rq.ring[rq.tail&rq.mask] = wrs[i]
		rq.tail++
	}
	return nil
}
