// A port's receive loops: packets in, completions out, and the resulting packets back to the
// network.

package roce

import (
	"errors"
	"net"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A receiver is a receive loop's state. The port's address has one, and each multicast group.
type receiver struct {
	t     *port
	wire  udp.Receiver
	qps   []*core.QP  // the current packet's QPs
	batch []*endpoint // endpoints with packets in the batch
	woken bool        // a handler has woken a goroutine that waits for completions
}

// packetsPerTurn is how many packets to handle before sending the results. A peer with its whole
// window in one batch can thus continue sending while the rest is handled.
const packetsPerTurn = 32

// receiveLoop handles packets until the socket is closed.
func (t *port) receiveLoop(w udp.Receiver) {
	r := receiver{t: t, wire: w}
	for {
		n, err := w.Receive(!r.woken) // the woken goroutine runs next on this processor
		switch {
		case err == nil:
			r.woken = false
			for i := 0; i < n; i += packetsPerTurn {
				r.take(i, min(n, i+packetsPerTurn))
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // one packet's error, or out of memory: UDP promises nothing
			time.Sleep(time.Millisecond)
		}
	}
}

// take passes a batch's packets to the cores, runs each QP's handlers once, and sends the results
// together: answers, and the work posted by handlers.
func (r *receiver) take(from, to int) {
	t, at := r.t, now()
	t.receiving.Lock()
	defer t.receiving.Unlock()
	held := t.tx.takeTurn()
	for i := from; i < to; i++ {
		network, datagram, good := r.wire.Packet(i)
		var drop core.Drop
		r.qps, drop = t.core.Receive(at, network, datagram, good, r.qps[:0])
		for _, qp := range r.qps {
			e := qp.Owner().(*endpoint)
			if drop == core.DropState {
				if l := e.accepting.Load(); l != nil && l.awaitsRTU.Load() {
					l.heard()
				}
			}
			if drop == core.Accepted || drop > core.DropQKey { // sent by its peer
				e.spoke = true
			}
			if !e.touched {
				e.touched = true
				r.batch = append(r.batch, e)
			}
		}
	}
	ran := false
	for _, e := range r.batch {
		e.touched = false
		if e.spoke {
			e.spoke = false
			e.heard.Store(int64(at))
		}
		ran = e.q.Notify() || ran
		r.woken = e.q.Woken() || r.woken
	}
	if ran && held && !t.tx.pending() {
		runtime.Gosched() // woken goroutines post before the batch leaves
	}
	for i, e := range r.batch {
		t.afterChange(e)
		held = t.tx.enqueue(e) || held
		r.batch[i] = nil
	}
	r.batch = r.batch[:0]
	if held {
		t.tx.run()
	}
}
