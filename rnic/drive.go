// Driving: how a goroutine that waits for an answer runs the receive side of its QP itself.

package rnic

// Drive is for a goroutine that has posted, and would now sleep until a CQ handler has got it the
// answer: it takes in what comes itself meanwhile, as one that polls its CQ does, and runs the
// handlers. It returns when done reports true, which is asked after each batch, or earlier where
// that cannot be: then the caller sleeps as ever. It may stay for some time after the caller would
// rather leave: bounded by milliseconds. The caller holds no lock that a handler takes; nor does
// done wait for one that is held for long.
//
// QPConfig.Waiting has to be there. Whoever waits for what comes, and does not drive, calls Rouse
// once Waiting knows of it: else nobody might take in what comes. done is to report true when the
// answer is there, also if its caller still waits for something else.
func (qp *QP) Drive(done func() bool) {
	if qp.scheduler != nil {
		qp.scheduler.Drive(done)
	}
}

// Rouse has the provider take in what comes again, if there is no Drive at the moment.
func (qp *QP) Rouse() {
	if qp.scheduler != nil {
		qp.scheduler.Rouse()
	}
}

// Prompt has CQ handlers told soon of the completions of work requests that were posted as
// Deferred. A provider that cannot be driven has told of them already.
func (qp *QP) Prompt() {
	if qp.scheduler != nil {
		qp.scheduler.Prompt()
	}
}

// Lend is for a CQ handler that has work which may wait: f is run once, by the goroutine that
// receives, after it has done what has come, where the provider has one for that and it is not
// needed otherwise. While f takes long another goroutine receives. false: f is the caller's.
func (qp *QP) Lend(f func()) bool { return qp.scheduler != nil && qp.scheduler.Lend(f) }
