// The ready-to-receive message of RFC 6581 in the send queue: in front of all, and in nobody's
// name.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
)

// PostRTR puts a message in front of all that the ULP will post, of which the ULP is told nothing,
// and shuts the door until ungate. The channel is closed when the message is done, and stays open
// when it was flushed. It comes after Start and before any Post.
func (w *Work) PostRTR(wr rnic.SendWR) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(&rnic.Posted{SendWR: wr}).Internal = true
	w.turn.shut()
	w.opened = make(chan struct{})
	return w.opened
}

// noteRTR is told of the end of the RTR.
func (w *Work) noteRTR(st rnic.Status) {
	if st == rnic.WCSuccess {
		close(w.opened)
	}
}

// Begin lets sending begin from our side, and reports whether the caller has to send.
func (w *Work) Begin() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.open()
	return w.claim()
}
