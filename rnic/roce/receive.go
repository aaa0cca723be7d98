// The receive loop of a port: packets in, completions out, and what follows from them back to the
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

// A receiver is what a receive loop keeps: that of the port's address, and one for each multicast
// group.
type receiver struct {
	t     *port
	wire  udp.Receiver
	qps   []*core.QP  // that the packet in hand was for
	batch []*endpoint // that the packets of the batch were for
	woken bool        // they have woken somebody who waits for completions
}

// takes is how many packets are taken before what they made is sent. A peer whose window is in one
// batch goes on sending then while the rest of the batch is looked at.
const takes = 32

// receiveLoop takes packets until the socket is closed.
func (t *port) receiveLoop(w udp.Receiver) {
	r := receiver{t: t, wire: w}
	for {
		n, err := w.Receive(!r.woken) // whoever was woken is next on this processor
		switch {
		case err == nil:
			r.woken = false
			for i := 0; i < n; i += takes {
				r.take(i, min(n, i+takes))
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // of one packet, or for want of memory: UDP promises nothing
			time.Sleep(time.Millisecond)
		}
	}
}

// take gives packets of the batch to the cores, runs the handlers once for each QP, and sends what
// that made: answers, and what the handlers posted, leave in one go.
func (r *receiver) take(from, to int) {
	t, at := r.t, now()
	t.receiving.Lock()
	defer t.receiving.Unlock()
	held := t.tx.hold()
	for i := from; i < to; i++ {
		network, datagram, good := r.wire.Packet(i)
		var drop core.Drop
		r.qps, drop = t.core.Receive(at, network, datagram, good, r.qps[:0])
		for _, qp := range r.qps {
			e := qp.Owner().(*endpoint)
			if drop == core.DropState {
				if l := e.asks.Load(); l != nil && l.waits.Load() {
					l.heard()
				}
			}
			if drop == core.Accepted || drop > core.DropQKey { // from its peer
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
	if ran && held && !t.tx.some() {
		runtime.Gosched() // those whom the handlers woke post before the batch leaves
	}
	for i, e := range r.batch {
		t.look(e)
		held = t.tx.enqueue(e) || held
		r.batch[i] = nil
	}
	r.batch = r.batch[:0]
	if held {
		t.tx.run()
	}
}
