// The inbound half of a stream: bytes in, checked and executed segments out.

package core

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// An Inbound turns a stream's bytes into checked segments, places their payload and executes them.
// It does no I/O: Consume takes the received bytes. Each segment goes through check, which changes
// nothing and returns an action, and do, which executes it. Only the receive loop calls its
// methods, except Stop. Where a method says so, its caller holds the owner's lock, so that Stop
// ends placement permanently.
type Inbound struct {
	// set once
	q          *rnic.ProviderQP
	w          *Work
	crc        bool
	extensions bool
	direct     bool
	markers    *mpa.MarkerReceiver // not nil: we requested markers

	// Guarded by the owner's lock, as is the rest: the receive loop writes stopped, and so does the
	// goroutine that ends the stream, by Stop. Once set, stopped stays set.
	stopped bool
	begun   bool // a valid FPDU has arrived
	// The next MSN of each untagged queue. They wrap from 2^32-1 to 0 (RFC 5041 §4.3 [R5041-047]),
	// so they are compared for equality only: TCP keeps the order, and any other MSN is a fault.
	sendMSN   uint32 // the MSN of the expected or current message on queue 0
	readMSN   uint32 // the same on queue 1
	atomicMSN uint32 // the same on queue 3

	// The message in progress. A sender finishes a message before it begins the next (RFC 5041 §5.3
	// [R5041-067]), but this code does not depend on it: recv and read are separate, so a mixed
	// Send and Read Response both go to their own memory. placement is a segment, not a message: at
	// most one is open, and no further segment is taken from the stream meanwhile.
	recv       inboundSend
	read       inboundRead
	mr         *rnic.MR // the last region written
	src        *rnic.MR // the last region read for the peer
	placement  directPlacement
	cont       continuation
	readIn     atomic.Uint64 // bytes received in all Read Responses
	unreported unreportedReads
	small      int // FPDUs since a large one; at bulkPause, its maximum, no large FPDU is expected
}

// An inboundSend is the Send being received, from its first segment to its complete last one.
type inboundSend struct {
	open bool
	op   rdmap.Opcode
	// wr is a copy: the receive stays the head of the queue until the message is complete. wr.Buf
	// may come from wr.Pool. That buffer belongs to this side until CompleteRecv passes it to the
	// ULP, or Release returns it to the pool.
	wr     rnic.RecvWR
	placed uint32 // bytes in its buffer, and the next segment's MO
}

// An unreportedReads counts finished work on Reads not yet passed to Work, because a call for each
// Read would cost as much as the work itself. reportReads passes the counts on before Consume
// returns, and before any other message has a visible effect.
type unreportedReads struct {
	done  uint32 // our oldest Reads with a complete response
	made  uint32 // our Reads in Work at the last check, the done ones included
	asked uint32 // Read Requests received from the peer
	room  int    // for more Read Requests, at the last check
	bytes uint64 // of Read Responses
}

// An inboundRead is our Read with the current inbound response.
type inboundRead struct {
	e    *entry // nil: no Read
	done uint32 // the response's received bytes
}

// Init makes an Inbound that accepts no bytes yet.
//
// Both sides begin with MSN 1 in each queue, without negotiation.
func (in *Inbound) Init(q *rnic.ProviderQP, w *Work) {
	in.q, in.w = q, w
	in.sendMSN, in.readMSN, in.atomicMSN = 1, 1, 1 // RFC 5041 §4.3 [R5041-046]
	in.small = bulkPause
}

// Start configures the Inbound for a stream.
func (in *Inbound) Start(m Modes) {
	in.crc, in.extensions = m.CRC, m.Extensions
	// Markers stand within the payload, so payload with markers cannot be read directly. Payload
	// with CRCs can be read directly, but only if the destination is known in advance: see
	// continuation.
	in.direct = m.Direct && !m.RecvMarkers && !(m.CRC && m.Strict)
	if m.RecvMarkers {
		in.markers = new(mpa.MarkerReceiver)
	}
}

// Consume takes every complete FPDU at the front of b, and returns the number of bytes taken. The
// remaining bytes must stay in front of the next ones, unless Direct reports that their payload is
// placed elsewhere. An error ends the stream: nothing after the faulty FPDU is placed (RFC 5041
// §7.1 [R5041-109]). The error is a *Fault, or a plain error that needs no Terminate. The caller
// holds the owner's lock.
func (in *Inbound) Consume(b []byte) (used int, err error) {
	used, err = in.consume(b)
	if failed := in.reportReads(); failed != nil && err == nil {
		err = in.fail(failed, nil, 0)
	}
	return used, err
}

// reportReads passes the counts in unreported to Work. It fails with ErrCQOverrun.
func (in *Inbound) reportReads() (err error) {
	o := &in.unreported
	if o.bytes > 0 {
		in.readIn.Add(o.bytes)
		o.bytes = 0
	}
	if o.asked > 0 {
		in.w.pushPeerRequests(o.asked)
		o.asked = 0
	}
	if o.done > 0 {
		err = in.w.readsDone(o.done)
		o.made -= o.done
		o.done = 0
	}
	return err
}

// oldestRead returns the request that the next response answers, or nil if none is outstanding.
func (in *Inbound) oldestRead() *entry {
	o := &in.unreported
	if o.done == o.made {
		if o.made = in.w.readsMade(); o.done == o.made {
			return nil
		}
	}
	return in.w.readAt(o.done)
}

// readsFull reports whether the peer has no room for another request.
func (in *Inbound) readsFull() bool {
	o := &in.unreported
	if o.room == 0 {
		o.room = max(in.w.readsRoom()-int(o.asked), 0)
	}
	return o.room == 0
}

// newPeerRequest returns the entry for a peer's new request; check has found room.
func (in *Inbound) newPeerRequest() *peerRequest {
	o := &in.unreported
	o.room--
	o.asked++
	return in.w.peerRequestAt(o.asked - 1)
}

// consume is Consume without the final reportReads.
func (in *Inbound) consume(b []byte) (used int, err error) {
	for !in.stopped {
		// Directly read payload is in order only if no later segment is taken first.
		if in.placement.open {
			n, whole, err := in.endDirect(b[used:])
			if err != nil || !whole {
				return used, err
			}
			used += n
			continue
		}
		ulpdu, n, err := in.next(b[used:])
		if err != nil {
			return used, in.fail(err, nil, 0)
		}
		// The FPDU is incomplete. It stays in front of the buffer, or its received payload is
		// placed.
		if n == 0 {
			n, err := in.beginDirect(b[used:])
			return used + n, err
		}
		used += n
		in.cont = continuation{}
		in.noteSmall(n)
		// check and do are two steps, so that all refusals that need no memory come before the
		// first placed byte, and a fault leaves the numbers and the open message unchanged.
		a, err := in.check(ulpdu, len(ulpdu))
		if err == nil {
			err = in.do(&a)
		}
		if err != nil {
			return used, in.fail(err, ulpdu, len(ulpdu))
		}
		in.cont.after(a.op, &a.h, a.n)
		// begin comes last, because the FPDU that opens the gate must be valid to its end.
		in.begin()
	}
	return used, nil
}

// next returns the first FPDU of b; n == 0: the FPDU is incomplete.
func (in *Inbound) next(b []byte) (ulpdu []byte, n int, err error) {
	if in.markers != nil {
		return in.markers.Parse(b, in.crc)
	}
	return mpa.ParseFPDU(b, in.crc)
}

// begin records the arrival of a valid FPDU: from now on a responder may send (RFC 5044 §7.1.2 rule
// 4).
func (in *Inbound) begin() {
	if !in.begun {
		in.begun = true
		in.w.ungate()
	}
}

// fail ends placement because of err.
func (in *Inbound) fail(err error, ulpdu []byte, length int) error {
	in.stopped = true
	return segmentFault(err, ulpdu, length)
}

// Stop ends placement: after Stop nothing is placed. The caller holds the owner's lock.
func (in *Inbound) Stop() { in.stopped = true }

// Stopped reports whether input is only discarded. The caller holds the owner's lock.
func (in *Inbound) Stopped() bool { return in.stopped }

// Begun reports whether a valid FPDU has arrived. The caller holds the owner's lock.
func (in *Inbound) Begun() bool { return in.begun }

// InMessage reports whether a Send is incomplete. The caller holds the owner's lock.
func (in *Inbound) InMessage() bool { return in.recv.open }

// Messages returns the next MSN on queue 0, so the difference between two calls is the number of
// messages received there between them, modulo 2^32. It is for the receive loop.
func (in *Inbound) Messages() uint32 { return in.sendMSN }

// ReadBytes returns the number of received bytes in responses to our Reads. Any goroutine may call
// it.
func (in *Inbound) ReadBytes() uint64 { return in.readIn.Load() }

// Release returns an incomplete message's buffer to its pool; its receive was flushed. The stream
// has ended, and the caller holds the owner's lock.
func (in *Inbound) Release() {
	if in.recv.open && in.recv.wr.Pool != nil {
		in.recv.wr.Pool.Put(in.recv.wr.Buf)
	}
	in.recv = inboundSend{}
}
