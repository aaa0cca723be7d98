// The transmitter: it interleaves the packets of a port's QPs and sends them in batches.

package roce

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A transmitter sends the QPs' packets. The goroutine that has the turn sends for all QPs: the
// poster of work if no other has it, the receive loop after it has handled packets, and the
// service loop when the socket is full.
type transmitter struct {
	t *port // set once

	mu sync.Mutex
	// A queue of QPs that may have packets. Guarded by mu, as are the fields below.
	head, tail  *endpoint
	busy        bool // a goroutine has the turn
	serviceTurn bool // the goroutine with the turn is the service loop

	control bool // CM datagrams wait

	flushers []chan struct{} // closed when all built packets have left

	// owned by the holder of the turn
	joining joinMonitor
	mads    []cm.Datagram
	owners  [udp.BatchLen]*endpoint // of the batch's packets
	from    int                     // index in owners of the next packet to leave
	end     int
}

// add appends an endpoint to the ready list unless the endpoint is in the list. The caller holds
// mu.
func (x *transmitter) add(e *endpoint) {
	if e.inReady {
		return
	}
	e.inReady = true
	if x.tail == nil {
		x.head = e
	} else {
		x.tail.next = e
	}
	x.tail = e
}

// kick sends an endpoint's packets, on the caller's goroutine unless another has the turn. kick
// never blocks.
func (x *transmitter) kick(e *endpoint) {
	x.mu.Lock()
	x.add(e)
	mine := !x.busy
	x.busy = true
	x.mu.Unlock()
	if mine {
		x.run()
	}
}

// kickControl sends CM datagrams, like kick.
func (x *transmitter) kickControl() {
	x.mu.Lock()
	x.control = true
	mine := !x.busy
	x.busy = true
	x.mu.Unlock()
	if mine {
		x.run()
	}
}

// takeControl moves CM datagrams to the batch.
func (x *transmitter) takeControl() {
	x.mu.Lock()
	// If mads is not empty, take no more datagrams: mads would grow while the socket is slow.
	some := x.control && len(x.mads) == 0
	if some {
		x.control = false
	}
	x.wakeFlushers() // the batch is empty here
	x.mu.Unlock()
	if some {
		x.mads = x.t.control.take(nil)
	}
	w := x.t.wire
	for len(x.mads) > 0 && !w.Full() {
		d := &x.mads[0]
		n := len(d.Append(w.Room()[:0], 0))
		if w.Add(n, packet.Tail{}, netip.AddrPortFrom(d.To, x.t.key.Port())) == nil {
			x.owners[x.end] = nil
			x.end++
		}
		x.mads = x.mads[1:]
	}
	if len(x.mads) == 0 {
		x.mads = nil
	}
}

// takeTurn takes the turn, so that work posted meanwhile leaves together. It returns false if
// another goroutine has the turn. run ends the turn.
func (x *transmitter) takeTurn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy {
		return false
	}
	x.busy = true
	return true
}

// enqueue makes the holder of the turn send an endpoint's packets; take means that the caller has
// now become the holder.
func (x *transmitter) enqueue(e *endpoint) (take bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(e)
	take = !x.busy
	x.busy = true
	return take
}

// pending reports whether a QP may have packets.
func (x *transmitter) pending() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head != nil
}

// pop removes and returns the next endpoint, nil if the ready list is empty.
func (x *transmitter) pop() *endpoint {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.head
	if e == nil {
		return nil
	}
	if x.head = e.next; x.head == nil {
		x.tail = nil
	}
	e.next, e.inReady = nil, false
	return e
}

// endTurn ends the turn if there is nothing to send.
func (x *transmitter) endTurn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.head != nil || x.control || len(x.mads) > 0 {
		return false
	}
	x.busy = false
	x.wakeFlushers()
	return true
}

// wakeFlushers wakes all callers of flush. The caller holds mu.
func (x *transmitter) wakeFlushers() {
	for _, c := range x.flushers {
		close(c)
	}
	x.flushers = nil
}

// flush returns when all built packets have left, or when done is closed.
func (x *transmitter) flush(done <-chan struct{}) {
	x.mu.Lock()
	if !x.busy {
		x.mu.Unlock()
		return
	}
	c := make(chan struct{})
	x.flushers = append(x.flushers, c)
	x.mu.Unlock()
	select {
	case <-c:
	case <-done:
	}
}

// run sends until there is nothing to send, or hands over to the service loop. The caller has the
// turn; run ends the turn.
func (x *transmitter) run() {
	for range inlineBatches {
		if x.fill() {
			if !x.send() {
				break
			}
			continue
		}
		if x.endTurn() {
			return
		}
	}
	x.mu.Lock()
	x.serviceTurn = true
	x.mu.Unlock()
	x.t.wakeUp()
}

// runLoop is the service loop's run, which waits for room.
func (x *transmitter) runLoop() {
	x.mu.Lock()
	mine := x.serviceTurn
	x.serviceTurn = false
	x.mu.Unlock()
	if !mine {
		return
	}
	for !x.t.quit.Load() {
		if x.t.wire.Len() > 0 && !x.send() {
			if x.t.wire.WaitWritable() != nil {
				return
			}
			continue
		}
		if !x.fill() && x.endTurn() {
			return
		}
	}
}

// fill collects a batch from the QPs, and reports whether there is one to send.
func (x *transmitter) fill() bool {
	w := x.t.wire
	at := now()
	x.takeControl()
	for !w.Full() {
		e := x.pop()
		if e == nil {
			break
		}
		if more := x.take(e, at); more {
			x.enqueue(e)
		}
		x.t.afterChange(e)
	}
	return w.Len() > 0
}

// take moves one QP's packets to the batch, and reports whether it may have more.
func (x *transmitter) take(e *endpoint, at core.Instant) (more bool) {
	b, w := e.bound.Load(), x.t.wire
	if b == nil {
		return false
	}
	for range quantum {
		if w.Full() {
			return true
		}
		n, route, ok := b.qp.Next(at, w.Room())
		if !ok {
			return false
		}
		if x.joining.mustTravelAlone(w, e.cfg.Service, route.Again) {
			w.Alone()
		}
		if w.Add(n, route.Tail, netip.AddrPortFrom(route.Peer, x.t.key.Port())) != nil {
			b.qp.SendFailed() // address of the wrong family
			continue
		}
		x.owners[x.end] = e
		x.end++
	}
	return true
}

// send hands the batch to the network, and returns false if only a part had room.
func (x *transmitter) send() bool {
	w := x.t.wire
	for w.Len() > 0 {
		n, full, err := w.Send()
		x.noteSent(n)
		switch {
		case errors.Is(err, net.ErrClosed):
			return false
		case err != nil:
			w.Drop()
			x.handleSendError(err)
		case full:
			return false
		}
	}
	x.from, x.end = 0, 0
	return true
}

// noteSent notes that n more packets have left.
func (x *transmitter) noteSent(n int) {
	for n > 0 {
		e, run := x.owners[x.from], 1
		for run < n && x.owners[x.from+run] == e {
			run++
		}
		clear(x.owners[x.from : x.from+run])
		x.from += run
		n -= run
		if e != nil && e.cfg.Service != rnic.RC {
			e.bound.Load().qp.Sent(run)
			x.t.afterChange(e)
		}
	}
}

// handleSendError notes that the network refused a packet. RC treats it as lost; an unreliable QP
// stops.
func (x *transmitter) handleSendError(err error) {
	e := x.owners[x.from]
	x.owners[x.from] = nil
	x.from++
	if e == nil { // a CM datagram; the CM repeats the message
		return
	}
	b := e.bound.Load()
	switch {
	case e.cfg.Service == rnic.RC:
		if e.noteSendError(err); errors.Is(err, syscall.EMSGSIZE) {
			e.Abort(errTooLong) // the next connection uses the kernel's current path MTU
		}
	default:
		b.qp.SendFailed()
	}
	x.t.afterChange(e)
}

// afterChange handles the consequences of a core's change. Any goroutine may call it.
func (t *port) afterChange(e *endpoint) {
	b := e.bound.Load()
	if b == nil {
		return
	}
	if b.qp.Ended() != nil {
		t.endLater(e)
		return
	}
	if at, ok := b.qp.Deadline(); ok {
		t.timers.arm(e, at)
		t.wakeBefore(at)
	}
	if e.q.OwesNotify() {
		t.notifyLater(e)
	}
	if e.closing.Load() {
		e.checkDrained(b.qp)
	}
}
