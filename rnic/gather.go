// Gathering: posted work that a provider keeps until somebody asks for completions, so that much of
// it leaves together.

package rnic

// Asks is how often completions of sends have been asked for. A program that posts more than once
// between two of its questions is about to post more, or to ask.
func (q *ProviderQP) Asks() uint32 { return q.sendCQ.asks.Load() }

// Gather reports whether the endpoint, a Gatherer, is allowed to keep what has been posted: whoever
// asks for completions of sends, and finds none, has it send that. It is not where somebody waits
// for completions already, or a handler has them: such a program never asks.
func (q *ProviderQP) Gather() bool { return q.sendCQ.gather((*QP)(q)) }

func (cq *CQ) gather(qp *QP) bool {
	if cq.handler.Load() != nil {
		return false
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.idle > 0 {
		return false
	}
	if !qp.gathers {
		qp.gathers = true
		cq.gathered = append(cq.gathered, qp)
		cq.keeps.Store(true)
	}
	return true
}

// sendGathered has endpoints send what they keep, and reports whether there was any. No lock may be
// held.
func (cq *CQ) sendGathered() (any bool) {
	for cq.keeps.Load() {
		qp := cq.nextGathered()
		if qp == nil {
			break
		}
		qp.ep.(Gatherer).SendGathered()
		any = true
	}
	return any
}

// nextGathered takes one of the QPs that keep work, nil when there is none.
func (cq *CQ) nextGathered() *QP {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := len(cq.gathered)
	if n == 0 {
		return nil
	}
	qp := cq.gathered[n-1]
	cq.gathered[n-1] = nil
	cq.gathered = cq.gathered[:n-1]
	qp.gathers = false
	cq.keeps.Store(n > 1)
	return qp
}

// BeginBatch has those who wait for completions woken once for all that come until EndBatch, which
// the caller owes when this reports true. It is for what takes microseconds.
func (q *ProviderQP) BeginBatch() bool {
	cq := q.sendCQ
	if cq.handler.Load() != nil {
		return false
	}
	cq.mu.Lock()
	cq.batches++
	cq.mu.Unlock()
	return true
}

// EndBatch ends what BeginBatch began, and reports whether it has woken somebody. No lock is held.
func (q *ProviderQP) EndBatch() (woken bool) {
	cq := q.sendCQ
	cq.mu.Lock()
	cq.batches--
	if woken = cq.late && cq.batches == 0; woken {
		cq.late = false
	}
	cq.mu.Unlock()
	if woken {
		cq.woken.Store(true)
		cq.signal()
	}
	return woken
}
