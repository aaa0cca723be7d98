// Posting: work requests are checked, and passed to the provider or the receive queue.

package rnic

import (
	"math"
	"sync"
)

// postings holds reused lists of checked work requests. A list passed through an interface escapes
// to the heap; these lists are passed on instead of PostSend's argument, which can then stay on the
// stack.
var postings = sync.Pool{New: func() any { return new([]Posted) }}

// PostSend queues the work requests, all or none, in order. It never blocks: if no other goroutine
// is transmitting, the caller's goroutine passes to the kernel as much as it accepts, and leaves
// the rest to the provider. Work requests from one call share system calls and packets.
func (qp *QP) PostSend(wrs ...SendWR) error {
	if len(wrs) == 0 {
		return nil
	}
	list := postings.Get().(*[]Posted)
	defer func() {
		clear(*list)
		*list = (*list)[:0]
		postings.Put(list)
	}()
	for i := range wrs {
		n, err := qp.checkSend(&wrs[i])
		if err != nil {
			return err
		}
		*list = append(*list, Posted{SendWR: wrs[i], Bytes: n})
	}
	return qp.ep.PostSend(*list)
}

// TakesSources reports whether a Write may have a Source, and is then cheaper than with payload in
// memory. It is false before the connection, and constant during it.
func (qp *QP) TakesSources() bool { return qp.sources.Load() }

// checkSend checks a work request before it is queued, and returns its message length in bytes.
func (qp *QP) checkSend(wr *SendWR) (n uint32, err error) {
	if wr.Source != nil {
		if !qp.TakesSources() || wr.Op != OpWrite {
			return 0, errSource
		}
	}
	switch wr.Op {
	case OpSend, OpSendSE, OpWrite:
		return sum(wr.SGL)
	case OpSendImmediate, OpSendSEImmediate, OpWriteImmediate, OpWriteSEImmediate:
		if !qp.dev.caps.ImmediateData {
			return 0, errNoExtension
		}
		return sum(wr.SGL)
	case OpSendInvalidate, OpSendSEInvalidate:
		if wr.Invalidate == 0 {
			return 0, errNoInv
		}
		return sum(wr.SGL)
	case OpRead, OpReadInvalidate:
		return wr.Length, qp.checkSink(wr)
	case OpImmediate, OpImmediateSE, OpFetchAdd, OpCmpSwap, OpSwap:
		return 8, qp.checkExtension(wr)
	case OpLocalInvalidate:
		if wr.MR == nil || wr.MR.pd != qp.pd {
			return 0, errNoMR
		}
		return 0, nil
	}
	return 0, errOpcode
}

// checkExtension checks Immediate Data and atomic operations, which some providers lack.
func (qp *QP) checkExtension(wr *SendWR) error {
	switch {
	case wr.Op.IsAtomic() && !qp.dev.caps.Atomics, wr.Op.IsImmediate() && !qp.dev.caps.Immediate:
		return errNoExtension
	case wr.Op.IsAtomic() && wr.Atomic == nil:
		return errNoOperands
	case wr.Op.IsAtomic() && wr.RemoteTO%8 != 0:
		return errUnaligned
	}
	return nil
}

// checkSink checks the sink of an RDMA Read.
func (qp *QP) checkSink(wr *SendWR) error {
	mr := wr.MR
	if mr == nil || mr.pd != qp.pd {
		return errNoMR
	}
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	_, f := mr.check(qp, mr.STag(), mr.base+wr.Offset, uint64(wr.Length), LocalWrite)
	if wr.Offset > math.MaxUint32 || f != MemOK {
		return errReadSink
	}
	return nil
}

// sum returns the length of a message gathered from sgl. Only this function adds up the length,
// because a large Write may have a thousand slices.
func sum(sgl [][]byte) (n uint32, err error) {
	var bytes uint64
	for _, b := range sgl {
		bytes += uint64(len(b))
	}
	if bytes > math.MaxUint32 { // RFC 5040 §1.1 [R5040-001], RFC 5041 §5.2 [R5041-055]
		return 0, errTooLong
	}
	return uint32(bytes), nil
}

// PostRecv queues receive buffers, all or none, in order, also before the QP is connected. A
// completion, also a flushed one, returns the buffer to the caller.
func (qp *QP) PostRecv(wrs ...RecvWR) error {
	first, err := qp.rq.post(wrs)
	if first {
		qp.ep.ReceivesPosted()
	}
	return err
}
