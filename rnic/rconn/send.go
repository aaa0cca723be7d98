// Outbound: Write, updates, and records of memory in the provider's hands.

package rconn

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// An outbound is the sending side. Each record is in use from its post to its completion.
type outbound struct {
	nudge nudge // ends the wait for a completion

	mu      sync.Mutex
	stage   []byte // guarded by mu, as is all below: copied pieces; nil before the first
	staged  uint64 // position: bytes put into stage
	freed   uint64 // position: bytes that the provider has completed
	data    [dataRecords]record
	control [controlRecords]record
	end     record
	counts  [classes]struct{ posted, done uint32 } // by class
	waits   bool                                   // a Write waits for completions
}

// The classes, two bits in a completion's ID; the others are the record's number.
const (
	classEnd = iota
	classData
	classControl
	classes
)

// A record is one message's memory, in use by the provider.
type record struct {
	message [messageLen]byte
	sgl     [1][]byte // the message
	piece   [1][]byte // the data
	stage   uint64    // data: the stage position after it
}

// A nudge ends waits, as a context that is done, and can be used again.
type nudge struct {
	mu     sync.Mutex
	ch     chan struct{} // guarded by mu; closed by now
	nudged bool          // guarded by mu
}

var errNudged = errors.New("rconn: nudged")

func (n *nudge) init() { n.ch = make(chan struct{}) }

// now ends the present wait, or the next one.
func (n *nudge) now() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.nudged {
		n.nudged = true
		close(n.ch)
	}
}

// again makes a used nudge fit for the next wait.
func (n *nudge) again() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nudged {
		n.nudged = false
		n.ch = make(chan struct{})
	}
}

// Done, Err, Deadline and Value implement context.Context for rnic.CQ.Wait.
func (n *nudge) Done() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ch
}
func (n *nudge) Err() error                  { return errNudged }
func (n *nudge) Deadline() (time.Time, bool) { return time.Time{}, false }
func (n *nudge) Value(any) any               { return nil }

var _ context.Context = (*nudge)(nil)

// Write writes all of b, unless it fails. It returns when b may be changed, before the peer has the
// bytes. It waits while the peer's ring is full. A large write without a deadline is sent from b
// itself. If a deadline is set meanwhile, Write then waits for the bytes on their way, for
// Config.Linger at most. After that the connection ends.
func (c *Conn) Write(b []byte) (int, error) {
	c.writers.Lock()
	defer c.writers.Unlock()
	direct := len(b) >= directBytes && !c.writeDeadline.pending()
	n, err := c.writeAll(b, direct)
	if direct {
		c.settle()
	}
	if err != nil {
		return n, c.opError("write", err)
	}
	return n, nil
}

// writeAll posts all of b. direct: the pieces are not copied.
func (c *Conn) writeAll(b []byte, direct bool) (n int, err error) {
	for {
		k, blocked, err := c.writeSome(b[n:], direct)
		n += k
		switch {
		case err != nil || n == len(b):
			return n, err
		case blocked == onPeer:
			c.qp.EnsureReceiver()
			<-c.writeWake
			c.writeWaits.Store(false)
		case blocked == onProvider:
			_ = c.sends.Wait(&c.out.nudge)
		}
	}
}

// settle returns once the provider has let go the caller's memory. After the deadline it waits for
// Config.Linger at most: then the connection ends.
func (c *Conn) settle() {
	if c.settled() {
		return
	}
	var limit *time.Timer
	for !c.settled() {
		if limit == nil && c.writeDeadline.passed() {
			limit = time.AfterFunc(c.linger, func() { c.abort(os.ErrDeadlineExceeded) })
			defer limit.Stop()
		}
		_ = c.sends.Wait(&c.out.nudge)
	}
}

// settled reports whether the provider has completed all data. If not, the next completion or nudge
// ends a wait.
func (c *Conn) settled() bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = false
	c.reap()
	d := &o.counts[classData]
	o.waits = d.posted != d.done
	if o.waits {
		o.nudge.again()
		return false
	}
	for i := range o.data {
		o.data[i].piece[0] = nil
	}
	return true
}

// A blocker is what a Write waits for.
type blocker uint8

const (
	onNothing  blocker = iota
	onPeer             // room in the peer's ring, or receives
	onProvider         // completions
)

// writeSome posts one piece from the front of b, as much as there is room for.
func (c *Conn) writeSome(b []byte, direct bool) (n int, blocked blocker, err error) {
	defer c.update()
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = false
	c.reap()
	free := o.room(len(b), direct)
	if free == 0 {
		o.nudge.again() // before the look at the causes that nudge
	}
	c.mu.Lock()
	if err := c.writable(); err != nil || len(b) == 0 {
		c.mu.Unlock()
		return 0, onNothing, err
	}
	if free == 0 {
		c.mu.Unlock()
		o.waits = true
		return 0, onProvider, nil
	}
	offset, n := c.flow.room(free)
	if n == 0 {
		c.writeWaits.Store(true)
		c.mu.Unlock()
		return 0, onPeer, nil
	}
	m := c.flow.sendData(n, c.immediate)
	c.mu.Unlock()
	return n, onNothing, c.postData(b[:n], offset, &m, direct)
}

// writable returns why nothing can be written, or nil. The caller holds mu.
func (c *Conn) writable() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.writeDeadline.passed():
		return os.ErrDeadlineExceeded
	case c.noWrite:
		return os.NewSyscallError("rdma", syscall.EPIPE)
	}
	return c.err
}

// room returns how many bytes, at most n, can be posted at once: they fit contiguously into the
// stage, unless direct. 0: the stage or the records are used up. The caller holds mu.
func (o *outbound) room(n int, direct bool) int {
	if d := &o.counts[classData]; d.posted-d.done == dataRecords {
		return 0
	}
	if direct {
		return min(n, pieceBytes)
	}
	if o.stage == nil && n > 0 {
		o.stage = make([]byte, stageBytes)
	}
	at := int(o.staged % stageBytes)
	return min(n, pieceBytes, stageBytes-int(o.staged-o.freed), stageBytes-at)
}

// postData posts a piece, from the stage unless direct. The caller holds out.mu.
func (c *Conn) postData(b []byte, offset int, m *message, direct bool) error {
	o := &c.out
	i := o.counts[classData].posted
	r := &o.data[i%dataRecords]
	if !direct {
		at := int(o.staged % stageBytes)
		b = o.stage[at:][:copy(o.stage[at:], b)]
		o.staged += uint64(len(b))
	}
	r.piece[0], r.stage = b, o.staged
	id := uint64(i)<<2 | classData
	write := rnic.SendWR{ID: id, Op: rnic.OpWrite, SGL: r.piece[:], RemoteSTag: rnic.STag(c.peer.stag), RemoteTO: c.peer.base + uint64(offset)}
	var err error
	if m.bare {
		write.Op, write.Immediate = rnic.OpWriteImmediate, uint64(m.bytes)
		err = c.qp.PostSend(write)
	} else {
		write.Unsignaled = true
		err = c.qp.PostSend(write, c.send(r, m, id))
	}
	if err == nil {
		o.counts[classData].posted++
	}
	return c.posted(err)
}

// send returns the work request for a message.
func (c *Conn) send(r *record, m *message, id uint64) rnic.SendWR {
	m.put(&r.message)
	r.sgl[0] = r.message[:]
	return rnic.SendWR{ID: id, Op: rnic.OpSend, SGL: r.sgl[:]}
}

// posted ends the connection if a post failed, and returns the cause.
func (c *Conn) posted(err error) error {
	if err == nil {
		return nil
	}
	if err == rnic.ErrState {
		err = causeOf(c.qp.Err())
	}
	c.abort(err)
	return err
}

// reap takes completions. The caller holds out.mu.
func (c *Conn) reap() {
	o := &c.out
	var wcs [16]rnic.WC
	for n := c.sends.Poll(wcs[:]); n > 0; n = c.sends.Poll(wcs[:]) {
		for i := range wcs[:n] {
			o.complete(wcs[i].ID, wcs[i].Op)
		}
		if o.waits {
			o.nudge.now()
		}
	}
}

// complete records a message as completed, with all older ones in its class. An unsignaled Write
// completes only when the connection ends.
func (o *outbound) complete(id uint64, op rnic.Opcode) {
	class, i := id&3, uint32(id>>2)
	if class == classEnd || op == rnic.OpWrite {
		return
	}
	o.counts[class].done = i + 1
	if class == classData {
		o.freed = o.data[i%dataRecords].stage
	}
}

var errUnanswered = errors.New("rconn: the peer acknowledges nothing")

// update posts updates as long as they are due.
func (c *Conn) update() {
	for c.owes() && c.tryUpdate() {
	}
}

// tryUpdate posts an update unless another goroutine posts at the time. That one looks for updates
// after its post.
func (c *Conn) tryUpdate() bool {
	if !c.out.mu.TryLock() {
		return false
	}
	defer c.out.mu.Unlock()
	c.postUpdate()
	return true
}

// owes reports whether an update is due.
func (c *Conn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.closed && c.flow.due()
}

// postUpdate posts an update. The caller holds out.mu.
func (c *Conn) postUpdate() {
	c.reap()
	n := &c.out.counts[classControl]
	if n.posted-n.done == controlRecords {
		c.abort(errUnanswered)
		return
	}
	c.mu.Lock()
	if !c.flow.due() {
		c.mu.Unlock()
		return
	}
	m := c.flow.sendUpdate()
	c.mu.Unlock()
	i := n.posted
	n.posted++
	_ = c.posted(c.qp.PostSend(c.send(&c.out.control[i%controlRecords], &m, uint64(i)<<2|classControl)))
}

// postEnd posts the end, once.
func (c *Conn) postEnd() {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.mu.Lock()
	if c.err != nil || c.flow.endSent {
		c.mu.Unlock()
		return
	}
	m := c.flow.sendEnd()
	c.mu.Unlock()
	_ = c.posted(c.qp.PostSend(c.send(&o.end, &m, classEnd)))
}
