// Scheduling of a QP's receive side: callers that receive by themselves, and work for the receiver.

package rnic

// PollUntil receives on the caller's goroutine until done reports true, and runs the CQ handlers
// meanwhile. PollUntil is for a goroutine that has posted, and would otherwise sleep until a CQ
// handler has the answer. done is called after each batch of messages.
//
// PollUntil may return before done reports true, because another goroutine receives or the provider
// wants its receive loop back; the caller then waits as it would without PollUntil. Without
// RecallReceiver it may return up to some milliseconds after the caller would have stopped waiting.
// The caller holds no lock that a handler takes, and done must not wait long for such a lock.
//
// It needs QPConfig.Waiting. A goroutine that waits without PollUntil calls EnsureReceiver once
// Waiting reports true, or no goroutine might receive. done reports true once the answer is there,
// even if its caller still waits for something else.
func (qp *QP) PollUntil(done func() bool) {
	if qp.scheduler != nil {
		qp.scheduler.PollUntil(done)
	}
}

// EnsureReceiver makes the provider's receive loop receive, unless a goroutine in PollUntil does.
func (qp *QP) EnsureReceiver() {
	if qp.scheduler != nil {
		qp.scheduler.EnsureReceiver()
	}
}

// RecallReceiver makes a goroutine in PollUntil return at once, without its answer: its caller has
// stopped waiting. A PollUntil that begins later returns at once only if done reports true.
func (qp *QP) RecallReceiver() {
	if qp.scheduler != nil {
		qp.scheduler.RecallReceiver()
	}
}

// FlushDeferred makes the provider report the completions of HintDeferred work requests soon. A
// provider without a Scheduler has reported them already.
func (qp *QP) FlushDeferred() {
	if qp.scheduler != nil {
		qp.scheduler.FlushDeferred()
	}
}

// Uncork is for a CQ handler on the receive loop that can be followed, before it waits: posted work
// leaves now, and later posts leave at once instead of with the batch of completions.
func (qp *QP) Uncork() {
	if qp.scheduler != nil {
		qp.scheduler.Uncork()
	}
}

// OwnLoop reports whether the goroutine that receives for the QP serves no other QP.
func (qp *QP) OwnLoop() bool { return qp.scheduler != nil }

// InputWaits reports whether the peer has sent something that has not been received yet. A provider
// without a loop for each QP reports true.
func (qp *QP) InputWaits() bool { return qp.scheduler == nil || qp.scheduler.InputWaits() }
