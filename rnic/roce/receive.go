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

// A receiver is a receive loop: one for the port's address, and one for each multicast group. Only
// the goroutine running the loop uses the fields. Inside a CQ handler another goroutine can take
// over the loop (follow).
type receiver struct {
	t     *port
	wire  udp.Receiver
	goOn  func() // follow; made once
	woken bool   // the batch has woken a goroutine that waits for completions

	// n packets came from the last Receive; those from index from on are being handled
	n, from int
	at      core.Instant
	qps     []*core.QP  // for the current packet
	batch   []*endpoint // endpoints with packets in the current turn
	next    int         // index in batch of the first endpoint with handlers still to run
	ran     bool        // a handler has run
	held    bool        // this receiver holds the turn to transmit
}

// receiveLoop handles packets until the socket is closed.
func (t *port) receiveLoop(w udp.Receiver) {
	r := &receiver{t: t, wire: w}
	r.goOn = r.follow
	r.loop()
}

// loop is the receive loop until the socket is closed or another goroutine follows.
func (r *receiver) loop() {
	for {
		n, err := r.wire.Receive(!r.woken) // no spin: a woken goroutine runs next here
		switch {
		case err == nil:
			r.woken, r.n, r.from = false, n, 0
			if !r.takeAll() {
				return
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // one packet's error, or out of memory: UDP promises nothing
			time.Sleep(time.Millisecond)
		}
	}
}

// follow takes over from a goroutine with a handler that may wait. It handles the rest of the
// batch, and then starts the loop on a new goroutine, since the caller's may have to end before the
// loop.
func (r *receiver) follow() {
	r.ran = true
	if !r.notify() {
		return
	}
	r.from += packetsPerTurn
	if r.takeAll() {
		go r.loop()
	}
}

// takeAll takes all packets that were received, from r.from on. leads is false if another goroutine
// is the receive loop now.
func (r *receiver) takeAll() (leads bool) {
	for ; r.from < r.n; r.from += packetsPerTurn {
		r.take(r.from, min(r.n, r.from+packetsPerTurn))
		if !r.notify() {
			return false
		}
	}
	return true
}

// take passes the received packets with indexes from to to-1 to the cores. Until notify has ended
// no other receive loop of the port takes packets.
func (r *receiver) take(from, to int) {
	t := r.t
	r.at = now()
	t.receiving <- struct{}{} // until notify ends, maybe on another goroutine
	r.held, r.ran, r.next = t.tx.takeTurn(), false, 0
	for i := from; i < to; i++ {
		network, datagram, good := r.wire.Packet(i)
		var drop core.Drop
		r.qps, drop = t.core.Receive(r.at, network, datagram, good, r.qps[:0])
		for _, qp := range r.qps {
			e := qp.Owner().(*endpoint)
			if drop == core.DropState {
				if l := e.accepting.Load(); l != nil && l.awaitsRTU.Load() {
					l.heard()
				}
			}
			if drop == core.Accepted || drop > core.DropQKey { // sent by the QP's peer
				e.spoke = true
			}
			if !e.touched {
				e.touched = true
				r.batch = append(r.batch, e)
			}
		}
	}
}

// notify runs the handlers once for each QP that packets came for, and then sends answers and the
// handlers' posts together. leads is false if another goroutine does the rest (follow).
func (r *receiver) notify() (leads bool) {
	t := r.t
	for r.next < len(r.batch) {
		e := r.batch[r.next]
		r.next++
		e.touched = false
		if e.spoke {
			e.spoke = false
			e.heard.Store(int64(r.at))
		}
		ran, leads := e.q.Lead(r.goOn)
		if !leads {
			return false
		}
		r.ran = ran || r.ran
		r.woken = e.q.Woken() || r.woken
	}
	if r.ran && r.held && !t.tx.pending() {
		runtime.Gosched() // woken goroutines post before the batch leaves
		t.yields.Note(t.tx.pending())
	}
	for i, e := range r.batch {
		t.afterChange(e)
		r.held = t.tx.enqueue(e) || r.held
		r.batch[i] = nil
	}
	r.batch = r.batch[:0]
	if r.held {
		t.tx.run()
	}
	<-t.receiving
	return true
}
