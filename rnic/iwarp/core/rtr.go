// The ready-to-receive message (RTR) of RFC 6581 in the send queue: before all others, and not
// posted by the ULP.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
)

// PostRTR posts a message before all messages of the ULP, hidden from the ULP, and shuts the gate
// until ungate. The channel is closed when the message is done, and stays open if it was flushed.
// Call it after Start and before any Post.
func (w *Work) PostRTR(wr rnic.SendWR) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(&rnic.Posted{SendWR: wr}).Internal = true
	w.turn.shut()
	w.opened = make(chan struct{})
	return w.opened
}

// noteRTR records the end of the RTR.
func (w *Work) noteRTR(st rnic.Status) {
	if st == rnic.WCSuccess {
		close(w.opened)
	}
}

// Begin starts sending from our side, and reports whether the caller must send.
func (w *Work) Begin() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.open()
	return w.claim()
}
