// A Call: one outbound RPC, and what it keeps from use to use.

package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Call is one outbound RPC. It is made by Conn.NewCall, filled, given to Do
// once, and comes home by Release, which lets it be used again with no
// allocation. It is not for use by several goroutines at once.
type Call struct {
	// Msg is the encoded RPC call, XID first. Its items are the arguments that
	// may travel as Read chunks.
	Msg chunks.Message
	// Sink is where the result item shall land; nil when there is none.
	Sink []byte
	// MaxReply is the most octets that the reply's stream can have, the item of Sink apart.
	MaxReply int
	// Expired, if not nil, ends the call when it delivers: a timer's channel, which
	// a caller of many calls can use for all of them where a context cannot be used again.
	Expired <-chan time.Time
	// Reply is the reply, valid until Release. Where the item went into Sink,
	// it is an item of AnyOffset with Data = Sink[:n]; else it is in the stream.
	Reply chunks.Message

	// Set once.
	c     *Conn
	id    uint64
	ready chan struct{} // one token: a credit was given, or none ever will be
	done  chan struct{} // one token: what awaited asks for has come about

	// Owned by the goroutine in Do, then by whoever settles the Call.
	scratch   []byte
	hdr       Header // as sent
	out       []byte // its octets
	sgl       [][]byte
	wr        [1]rnic.SendWR
	argMRs    []*rnic.MR // of the argument items
	sinkMR    *rnic.MR
	replyMR   *rnic.MR
	longMR    *rnic.MR
	longBuf   *buffer   // the complete call, when it travels as Position-zero chunk
	replyBuf  *buffer   // the Reply chunk
	standIns  []*buffer // what the peer has in place of the caller's memory
	sinkOffer bool
	items     [1]xdr.Item // Reply.Items

	// Guarded by Conn.mu.
	nextWait, nextIdle, nextXID *Call
	xid                         uint32
	credit                      bool // holds a credit
	sent                        bool // the RNIC has let go of the send buffers
	answered                    bool // reply, error or end of connection is in
	abandoned                   bool // Do has returned without an answer
	released                    bool // Release was called meanwhile
	awaited                     await
	recv                        *recvCtx // holds the reply
	err                         error
	streamOff                   int // where in recv the reply's stream begins
	placed                      int // octets in Sink or in the Reply chunk
	long                        bool
}

// await is what the goroutine in Do waits for.
type await uint8

const (
	awaitNothing await = iota
	awaitReply         // the answer, and the send buffers
	awaitSent          // the send buffers
)

// NewCall returns a Call from the connection's free list.
func (c *Conn) NewCall() *Call {
	c.mu.Lock()
	if k := c.idle; k != nil {
		c.idle, k.nextIdle = k.nextIdle, nil
		c.mu.Unlock()
		return k
	}
	k := &Call{
		c:       c,
		id:      wrCall | uint64(len(c.calls)),
		ready:   make(chan struct{}, 1),
		done:    make(chan struct{}, 1),
		scratch: make([]byte, 0, c.cfg.InlineSize),
	}
	if c.err == nil { // else it is never posted, so that nobody looks for it, and is not used again
		c.calls = append(c.calls, k)
	}
	c.mu.Unlock()
	return k
}

// Scratch is a slice of length 0 for the call's stream, valid until Release.
func (k *Call) Scratch() []byte { return k.scratch[:0] }

// SinkOffered says, once Do has returned, whether Sink was offered to the peer
// as a Write chunk. If so a reply that carries the item in its stream is wrong
// and must end the RPC with an error (R8166-191).
func (k *Call) SinkOffered() bool { return k.sinkOffer }

// ArgsOffered reports, once Do has returned, whether any part of the call was offered to
// the peer as a Read chunk, so that ErrChunk can mean the call as well as its reply.
func (k *Call) ArgsOffered() bool { return len(k.hdr.Read) > 0 }

// wake gives the goroutine in Do its token when what it waits for is there. The
// caller holds Conn.mu.
func (k *Call) wake() {
	switch {
	case k.awaited == awaitReply && k.sent && k.answered,
		k.awaited == awaitSent && k.sent:
		k.awaited = awaitNothing
		k.done <- struct{}{}
	}
}

// Release gives the Call, its receive buffer and its credit back. A Call that
// Do gave up on keeps XID and credit until its late reply or the end of the
// connection, and comes home then.
func (k *Call) Release() {
	c := k.c
	c.mu.Lock()
	if k.abandoned {
		k.released = true
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	k.settle()
	c.recycle(k)
}

// settle lets go of everything that the peer could use or has filled.
func (k *Call) settle() {
	c := k.c
	k.invalidate()
	k.dropBuffers()
	c.mu.Lock()
	r := k.recv
	k.recv = nil
	c.mu.Unlock()
	if r != nil {
		c.repost(r) // before the credit lets another call go (R8166-028)
	}
	c.giveCredit(k)
}

func (k *Call) dropBuffers() {
	if k.longBuf != nil {
		k.longBuf.put()
		k.longBuf = nil
	}
	if k.replyBuf != nil {
		k.replyBuf.put()
		k.replyBuf = nil
	}
	for i, f := range k.standIns {
		f.put()
		k.standIns[i] = nil
	}
	k.standIns = k.standIns[:0]
}

// recycle puts a settled Call on the free list.
func (c *Conn) recycle(k *Call) {
	k.Msg, k.Reply = chunks.Message{}, chunks.Message{}
	k.Sink, k.MaxReply, k.Expired = nil, 0, nil
	clear(k.sgl)
	k.wr[0] = rnic.SendWR{}
	c.mu.Lock()
	k.sent, k.answered, k.abandoned, k.released = false, false, false, false
	k.err, k.awaited = nil, awaitNothing
	ended := c.ended
	if !ended {
		k.nextIdle, c.idle = c.idle, k
	}
	c.mu.Unlock()
	if ended {
		k.deregister()
	}
}

// deregister gives the Call's STags back: its connection has ended.
func (k *Call) deregister() {
	for _, mr := range append(k.argMRs, k.sinkMR, k.replyMR, k.longMR) {
		if mr != nil {
			mr.Dereg()
		}
	}
	k.argMRs, k.sinkMR, k.replyMR, k.longMR = nil, nil, nil, nil
}

// invalidate ends the peer's access to all memory of the Call. What the peer has
// invalidated itself is passed over by the RNIC.
func (k *Call) invalidate() {
	k.fenceCaller()
	invalidate(k.replyMR)
	invalidate(k.longMR)
}

// maxStandIn is the largest memory that a call given up on has replaced.
const maxStandIn = 4 << 20

// standIn ends the peer's access to the memory of the caller, but not to the
// STags: a responder that has not heard that the call was given up on, and cannot
// hear it, writes its result to buffers of ours, and reads from them what the
// caller had. A stale STag would cost it, and all other calls, the connection.
func (k *Call) standIn() {
	for i := range min(len(k.argMRs), len(k.Msg.Items)) {
		k.divert(k.argMRs[i], k.Msg.Items[i].Data, true)
	}
	k.divert(k.sinkMR, k.Sink, false)
}

// divert gives the peer a buffer in place of b, with the content of b if it may read it.
func (k *Call) divert(mr *rnic.MR, b []byte, keep bool) {
	if mr == nil || !mr.Valid() || len(b) > maxStandIn {
		invalidate(mr)
		return
	}
	f := getBuffer(len(b))
	if keep {
		copy(f.b, b)
	}
	k.standIns = append(k.standIns, f)
	mr.Divert(f.b[:len(b)])
}

// fenceCaller is invalidate for the memory of the caller: Sink and the
// argument items; the Reply chunk and a long call lie in buffers of ours.
func (k *Call) fenceCaller() {
	for _, mr := range k.argMRs {
		invalidate(mr)
	}
	invalidate(k.sinkMR)
}

func invalidate(mr *rnic.MR) {
	if mr != nil {
		mr.Invalidate()
	}
}
