// Scheduling of a QP's receive side: callers that receive by themselves, and work for the receiver.

package rnic

// PollUntil receives on the caller's goroutine until done reports true, and runs the CQ handlers
// meanwhile. It is for a goroutine that has posted, and would otherwise sleep until a CQ handler
// has the answer. done is called after each batch of messages.
//
// PollUntil may return before done reports true, because another goroutine receives or the provider
// wants its receive loop back; the caller then waits as it would without PollUntil. It may return
// up to some milliseconds after the caller would have stopped waiting. The caller holds no lock
// that a handler takes, and done must not wait for one for long.
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

// FlushDeferred makes the provider report the completions of Deferred work requests soon. A
// provider without a Scheduler has reported them already.
func (qp *QP) FlushDeferred() {
	if qp.scheduler != nil {
		qp.scheduler.FlushDeferred()
	}
}

// Lend makes the receiving goroutine run f once, after the messages that it has received. It is for
// CQ handlers with work that may wait. While f takes long, another goroutine receives. It returns
// false where the provider cannot, or has better use for the goroutine: then f is the caller's.
func (qp *QP) Lend(f func()) bool { return qp.scheduler != nil && qp.scheduler.Lend(f) }
