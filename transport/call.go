// An inbound call: the procedure's view, its buffers, and its end.

package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Call is one inbound call while its procedure runs. Calls are reused after their procedure has
// returned. Result items must not point into the arguments, whose memory is released before the
// reply has left.
type Call struct {
	Ctx    context.Context // ends with the connection
	Remote net.Addr
	Owner  Owner // of the connection's peer end
	RDMA   bool
	// Channel is the connection's protection when the call arrived.
	Channel Channel
	XID     uint32
	Cred    Cred
	// Memo stores the program's knowledge about the connection, for later calls. Several calls may
	// use Memo concurrently; all values have one type. nil: no connection, as over UDP, where
	// clients share a socket.
	Memo *atomic.Value
	// Distinct: the server has a call with the same bytes, host and user over another connection,
	// and this call does not repeat it.
	Distinct bool
	Args     *xdr.Decoder // positioned after the RPC header
	Res      *xdr.Encoder // positioned after the RPC reply header

	via    carrier // the call's connection
	header oncrpc.CallHeader
	prog   *Program
	proc   *Procedure // set, like prog, once the header is valid
	args   xdr.Decoder
	res    xdr.Encoder

	secure callSecurity

	chunkFault bool       // arguments were in forbidden chunks: ERR_CHUNK
	dup        *drcEntry  // the entry that stores this call's reply
	running    drcEntry   // a NoOverlap call's entry
	next       *Call      // in a queue of calls
	lane       int        // the lane of this call (Procedure.Lane); 0: none
	queue      *connQueue // set while this call holds a share of its lane

	standing standing
	// here is the receiver that passed this call on, on its goroutine; nil if no follower can take
	// over.
	here    *receiver
	run     lead.Run  // the leader's run for this call
	ownLoop bool      // the goroutine of here serves only this connection
	more    bool      // when this call was served, others had arrived
	since   time.Time // for a call that stays: when the call became busy
	turn    chan bool // for a goroutine in Busy: true with a share, false if shed; otherwise nil

	// Each carrier fills its own part, and clears it before recycle.
	socket socketPart // TCP and UDP
	rdma   rdmaPart
}

// Number returns the number of the call's procedure.
func (c *Call) Number() uint32 { return c.header.Proc }

// A carrier is a call's connection. Exactly one of reply, rejectChunks and drop ends a call, on
// any goroutine, and takes the Call over.
type carrier interface {
	queues() *connQueues
	request(c *Call) *rpcrdma.Request // nil: not over RDMA
	buffer(c *Call, n int) []byte
	uncork(c *Call)          // called by the leader; sends the collected replies
	inputWaits(c *Call) bool // the peer has sent more since c; true if unknown
	reply(c *Call)           // c.res is the whole reply
	rejectChunks(c *Call)    // ERR_CHUNK if the transport has chunks
	drop(c *Call)
}

var callPool = sync.Pool{New: func() any {
	c := new(Call)
	c.Args, c.Res = &c.args, &c.res
	return c
}}

// getCall returns an empty Call for a connection.
func getCall(via carrier) *Call {
	c := callPool.Get().(*Call)
	c.via = via
	return c
}

// recycle clears the Call for reuse. The carrier has cleared its part.
func (c *Call) recycle() {
	c.args.Reset(nil, nil)
	c.res.Reset(nil)
	c.Ctx, c.Remote, c.Owner, c.Channel, c.Cred, c.Memo, c.header = nil, nil, Owner{}, Channel{}, Cred{}, nil, oncrpc.CallHeader{}
	c.via, c.prog, c.proc, c.dup, c.next = nil, nil, nil, nil, nil
	c.lane, c.queue, c.running.from = 0, nil, nil
	c.secure.clear()
	c.standing, c.here, c.turn, c.run = standsArrived, nil, nil, 0
	c.RDMA, c.Distinct, c.chunkFault, c.ownLoop, c.more = false, false, false, false, false
	callPool.Put(c)
}

// Buffer returns n bytes for a result item (c.Res.Item), valid until the reply has left, with
// arbitrary content. If the memory budget, or the connection's share of the budget, is exhausted,
// the call becomes Busy and waits for a while. nil: no memory came.
func (c *Call) Buffer(n int) []byte {
	b := c.via.buffer(c, n)
	if _, datagram := c.via.(*udpSocket); b != nil || datagram || c.Busy() != nil {
		return b // a datagram's limit does not change
	}
	c.inside(-1)
	defer c.inside(1)
	return c.awaitBuffer(n)
}

// awaitBuffer asks for a buffer until bufferWait has passed.
func (c *Call) awaitBuffer(n int) (b []byte) {
	end := time.Now().Add(bufferWait)
	for pause := budgetPoll; b == nil && c.Ctx.Err() == nil && time.Now().Before(end); pause = min(2*pause, bufferPause) {
		time.Sleep(pause)
		b = c.via.buffer(c, n)
	}
	return b
}

// inside adds n to the lane's number of calls in their procedure, if c has a share of the lane.
func (c *Call) inside(n int32) {
	if c.queue != nil {
		c.queue.share.lane.inside.Add(n)
	}
}

// TakesDeferredItem reports whether the n bytes of the reply's first item may be read at send
// time (mem.DeferredRead), and whether that pays off.
func (c *Call) TakesDeferredItem(n int) bool {
	if n < minDeferredItem || c.secure.state.covers() {
		return false
	}
	req := c.via.request(c)
	return req != nil && req.TakesDeferredItem()
}

// DeferItem makes the n bytes at off in src the reply's first item; the item's Data is an unfilled
// Buffer of n bytes. src is read when the reply is sent; if src has fewer bytes then, cut changes
// the reply. The call takes src over. Call it only after TakesDeferredItem has returned true.
func (c *Call) DeferItem(src mem.DeferredRead, off int64, n int, cut mem.Cut) {
	c.via.request(c).DeferItem(src, off, n, cut)
}

// Room makes room for n more bytes in the reply's stream. Beyond a small initial space Room takes
// memory from the server's budget; false: the budget is exhausted. Procedures with large results
// outside items call it repeatedly, before the first item.
func (c *Call) Room(n int) bool {
	had := c.res.Bytes()
	if cap(had)-len(had) >= n {
		return true
	}
	b := c.Buffer(len(had) + max(n, 2*len(had))) // with room to grow
	if b == nil {
		b = c.Buffer(len(had) + n)
	}
	if b == nil {
		return false
	}
	c.res.Move(b)
	return true
}

// ArgsErr returns nil, or ErrGarbageArgs if the arguments did not decode. A procedure calls it
// after decoding everything and before any work. If the arguments came in wrong chunks, the call
// is answered with ERR_CHUNK instead of the reply (RFC 8166 §6.1 [R8166-189]).
func (c *Call) ArgsErr() error {
	err := c.args.Err()
	switch {
	case err == nil && c.args.ItemsLeft() == 0:
		return nil
	case err == nil || (errors.Is(err, xdr.ErrShort) && c.args.ItemsLeft() > 0):
		// A chunk's position matched no item.
		c.chunkFault = true
	}
	return ErrGarbageArgs
}
