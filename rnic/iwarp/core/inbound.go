// The inbound half of a stream: bytes in, checked segments out, and each of them done.

package core

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// An Inbound turns the bytes of a stream into checked segments, places them and does what they ask
// for. It does no I/O: Consume takes what has come. Each segment goes through check, which changes
// nothing and says what is to be done (an action), and do, which does it. Its methods are called by
// the receive loop alone, but for Stop; its owner holds a lock while any of them is called that
// says so, so that Stop ends placement for good.
type Inbound struct {
	// set once
	q          *rnic.ProviderQP
	w          *Work
	crc        bool
	extensions bool
	direct     bool
	markers    *mpa.MarkerReceiver // not nil: we asked for markers

	// Guarded by the owner's lock, as is the rest: the receive loop writes it, and Stop by whoever
	// ends the stream. Once stopped is set, it stays set.
	stopped bool
	begun   bool // a valid FPDU has arrived
	// The next MSN of each untagged queue. They wrap from 2^32-1 to 0 (RFC 5041 §4.3 [R5041-047]),
	// so they are compared for equality only: TCP keeps the order, and what is not the next is a
	// fault.
	sendMSN   uint32 // of the message on queue 0 that is expected, or being received
	readMSN   uint32 // and queue 1
	atomicMSN uint32 // and queue 3

	// What is in the middle of being received. A sender finishes a message before it begins the
	// next (RFC 5041 §5.3 [R5041-067]), but nothing here depends on that: recv and read are apart,
	// so a peer that mixes a Send with a Read Response has both placed where they belong. place is
	// a segment, not a message: at most one is open, and nothing is taken from the stream while it
	// is.
	recv   receiving
	read   reading
	mr     *rnic.MR // the last one written to
	src    *rnic.MR // and the last one that the peer asked to read
	place  placement
	cont   continuation
	readIn atomic.Uint64 // bytes of all Read Responses
	owed   owed
	small  int // FPDUs since one that was large: bulkPause of them, and no large one is expected next
}

// A receiving is the Send that is being received: from its first segment until its last one is
// complete.
type receiving struct {
	open bool
	op   rdmap.Opcode
	// A copy: the receive stays the head of the queue until the message is whole. wr.Buf may be
	// from wr.Pool, and belongs to this side until CompleteRecv gives it to the ULP, or Release
	// back to the pool.
	wr     rnic.RecvWR
	placed uint32 // bytes in its buffer, which is also the MO of the next segment
}

// An owed is what has been done of Reads and Work has not been told of: a word for each would cost
// as much as what it tells. It is told before Consume returns, and before any other message does
// anything that can be seen.
type owed struct {
	done  uint32 // of our oldest Reads the whole response has come
	made  uint32 // how many of ours Work had, those included, at the last look
	asked uint32 // Reads of the peer's that have come
	room  int    // for more of them, at the last look
	bytes uint64 // of Read Responses
}

// owedMost is how many Reads that are done wait to be told of: who waits for them, or for room to
// have others outstanding, need not wait for a long batch.
const owedMost = 16

// A reading is the Read of ours whose response is being received.
type reading struct {
	e    *entry // nil: none
	done uint32 // bytes of the response that have come
}

// Init makes an Inbound that takes nothing yet.
//
// Both sides begin with MSN 1 in each queue, and no message says so.
func (in *Inbound) Init(q *rnic.ProviderQP, w *Work) {
	in.q, in.w = q, w
	in.sendMSN, in.readMSN, in.atomicMSN = 1, 1, 1 // RFC 5041 §4.3 [R5041-046]
	in.small = bulkPause
}

// Start sets it up for a stream.
func (in *Inbound) Start(m Modes) {
	in.crc, in.extensions = m.CRC, m.Extensions
	// Markers stand within the payload, so it cannot be read to where it belongs. With a CRC it can
	// only if the place is known before the segment is: see continuation.
	in.direct = m.Direct && !m.RecvMarkers && !(m.CRC && m.Strict)
	if m.RecvMarkers {
		in.markers = new(mpa.MarkerReceiver)
	}
}

// Consume takes every whole FPDU at the front of b, and returns how many bytes those were. What it
// left has to stay in front of what comes next, unless Direct says that the payload of it is placed
// elsewhere. The error, a *Fault or one that needs no Terminate, ends the stream: nothing
// after it is placed (RFC 5041 §7.1 [R5041-109]). Under the owner's lock.
func (in *Inbound) Consume(b []byte) (used int, err error) {
	used, err = in.consume(b)
	if failed := in.settle(); failed != nil && err == nil {
		err = in.fail(failed, nil, 0)
	}
	return used, err
}

// settle tells Work of the Reads of both sides that it has not been told of. Fails with
// ErrCQOverrun.
func (in *Inbound) settle() (err error) {
	o := &in.owed
	if o.bytes > 0 {
		in.readIn.Add(o.bytes)
		o.bytes = 0
	}
	if o.asked > 0 {
		in.w.pushAnswers(o.asked)
		o.asked = 0
	}
	if o.done > 0 {
		err = in.w.readsDone(o.done)
		o.made -= o.done
		o.done = 0
	}
	return err
}

// oldestRead is the request that the next response is for, nil when none is outstanding.
func (in *Inbound) oldestRead() *entry {
	o := &in.owed
	if o.done == o.made {
		if o.made = in.w.readsMade(); o.done == o.made {
			return nil
		}
	}
	return in.w.readAt(o.done)
}

// readsFull reports whether another request of the peer's would be one too many.
func (in *Inbound) readsFull() bool {
	o := &in.owed
	if o.room == 0 {
		o.room = max(in.w.readsRoom()-int(o.asked), 0)
	}
	return o.room == 0
}

// newAnswer is where the answer to a request of the peer's goes, whose check has found room.
func (in *Inbound) newAnswer() *answer {
	o := &in.owed
	o.room--
	o.asked++
	return in.w.answerAt(o.asked - 1)
}

// consume is Consume but for what is told in the end.
func (in *Inbound) consume(b []byte) (used int, err error) {
	for !in.stopped {
		// What is in place by direct reads is in order only if nothing after it is taken first.
		if in.place.open {
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
		// Not whole. It is left in front of the buffer, or its payload is placed as far as it has
		// come.
		if n == 0 {
			n, err := in.beginDirect(b[used:])
			return used + n, err
		}
		used += n
		in.cont = continuation{}
		in.noteSmall(n)
		// In two steps, so that all that can be refused without memory is refused before a byte is
		// placed, and a fault leaves the numbers and the message that is open as they were.
		a, err := in.check(ulpdu, len(ulpdu))
		if err == nil {
			err = in.do(&a)
		}
		if err != nil {
			return used, in.fail(err, ulpdu, len(ulpdu))
		}
		in.cont.after(a.op, &a.h, a.n)
		// Only now: the FPDU that opens the door has to be a valid one to the end.
		in.begin()
	}
	return used, nil
}

// next is the first FPDU of b; n == 0: it is not whole.
func (in *Inbound) next(b []byte) (ulpdu []byte, n int, err error) {
	if in.markers != nil {
		return in.markers.Parse(b, in.crc)
	}
	return mpa.ParseFPDU(b, in.crc)
}

// begin notes that a valid FPDU has come: a responder might send from now on (RFC 5044 §7.1.2 rule
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

// Stop ends placement: once it has returned nothing is placed any more. Under the owner's lock.
func (in *Inbound) Stop() { in.stopped = true }

// Stopped reports whether input is only discarded. Under the owner's lock.
func (in *Inbound) Stopped() bool { return in.stopped }

// Begun reports whether a valid FPDU has come. Under the owner's lock.
func (in *Inbound) Begun() bool { return in.begun }

// InMessage reports whether a Send has begun that is not whole. Under the owner's lock.
func (in *Inbound) InMessage() bool { return in.recv.open }

// Messages is how many Sends have come so far, modulo 2^32, for the receive loop.
func (in *Inbound) Messages() uint32 { return in.sendMSN }

// ReadBytes is how many bytes of responses to our Reads have come. Any goroutine may ask.
func (in *Inbound) ReadBytes() uint64 { return in.readIn.Load() }

// Release returns the buffer of a message that is not whole to its pool; its receive was
// flushed. Under the owner's lock, when the stream has ended.
func (in *Inbound) Release() {
	if in.recv.open && in.recv.wr.Pool != nil {
		in.recv.wr.Pool.Put(in.recv.wr.Buf)
	}
	in.recv = receiving{}
}
