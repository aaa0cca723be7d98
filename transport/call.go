// One inbound call: what a procedure sees of it, and how it ends.

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

// A Call is one inbound call while its procedure runs. It is used again for
// another call once the procedure has returned. Result items must not point
// into the arguments, whose memory goes back before the reply has left.
type Call struct {
	Ctx    context.Context // done when the connection is
	Remote net.Addr
	Owner  Owner // of the peer's end of the connection
	RDMA   bool
	XID    uint32
	Cred   Cred
	// Memo is where the program keeps what it has found out about the connection, for its later
	// calls. Several calls may read and write it at once; all values have one type. nil: there is
	// no connection, as over UDP, where clients share a socket.
	Memo *atomic.Value
	// Distinct: the server has a call of the same bytes, host and user over another connection, and
	// this call does not repeat it.
	Distinct bool
	Args     *xdr.Decoder // positioned behind the RPC header
	Res      *xdr.Encoder // positioned behind the RPC reply header

	via    carrier // the connection it came by
	header oncrpc.CallHeader
	prog   *Program
	proc   *Procedure // set, as prog is, when the header has been found good
	args   xdr.Decoder
	res    xdr.Encoder

	chunkFault bool      // arguments were in chunks where none may be: ERR_CHUNK
	dup        *drcEntry // the entry that this call's reply is to fill
	running    drcEntry  // the entry of a NoOverlap call
	next       *Call     // in a queue of calls
	lane       int       // what it may wait for (Procedure.Lane), 0: nothing in particular
	line       *line     // set while it has a share of its lane

	standing standing
	here     *receiver // of the goroutine that serves it, if another one can follow; else nil
	run      lead.Run  // of here
	ownLoop  bool      // that goroutine serves no other connection
	more     bool      // others of this connection do, as it arrived
	since    time.Time // of a call that stays: when it became busy
	turn     chan bool // of a goroutine in Busy: whether it has a share now, or is shed; else nil

	// Each carrier has a part of its own, which it fills, and empties before recycle.
	socket socketPart // TCP and UDP
	rdma   rdmaPart
}

// A carrier is the connection that a call came by. Exactly one of reply,
// rejectChunks and drop ends a call, on any goroutine; the carrier has it then.
type carrier interface {
	lines() *lines
	request(c *Call) *rpcrdma.Request // nil: not over RDMA
	buffer(c *Call, n int) []byte
	uncork(c *Call)          // replies that were collected leave now; the leader calls it
	inputWaits(c *Call) bool // the peer has sent something since c; true where that is not known
	reply(c *Call)           // c.res is the whole reply
	rejectChunks(c *Call)    // ERR_CHUNK where there are chunks
	drop(c *Call)
}

var callPool = sync.Pool{New: func() any {
	c := new(Call)
	c.Args, c.Res = &c.args, &c.res
	return c
}}

// getCall returns an empty Call of a connection.
func getCall(via carrier) *Call {
	c := callPool.Get().(*Call)
	c.via = via
	return c
}

// recycle makes the Call ready for another connection's use. The carrier has emptied its part.
func (c *Call) recycle() {
	c.args.Reset(nil, nil)
	c.res.Reset(nil)
	c.Ctx, c.Remote, c.Owner, c.Cred, c.Memo, c.header = nil, nil, Owner{}, Cred{}, nil, oncrpc.CallHeader{}
	c.via, c.prog, c.proc, c.dup, c.next = nil, nil, nil, nil, nil
	c.lane, c.line, c.running.from = 0, nil, nil
	c.standing, c.here, c.turn = standsArrived, nil, nil
	c.RDMA, c.Distinct, c.chunkFault, c.ownLoop, c.more = false, false, false, false, false
	callPool.Put(c)
}

// Buffer returns n bytes for a result item (c.Res.Item), valid until the reply
// has left. Their content is arbitrary. Where the server's memory budget is
// spent, or this connection has had its share, it becomes Busy and waits
// a while for others to give back; nil says that it was for nothing.
func (c *Call) Buffer(n int) []byte {
	b := c.via.buffer(c, n)
	if b != nil || c.Busy() != nil {
		return b
	}
	c.inside(-1)
	defer c.inside(1)
	end := time.Now().Add(bufferWait)
	for pause := budgetPoll; b == nil && c.Ctx.Err() == nil && time.Now().Before(end); pause = min(2*pause, bufferPause) {
		time.Sleep(pause)
		b = c.via.buffer(c, n)
	}
	return b
}

// inside adds n to the calls of c's lane that are in their procedure, if c has a share of it.
func (c *Call) inside(n int32) {
	if c.line != nil {
		c.line.share.lane.inside.Add(n)
	}
}

// bufferWait is how long a call waits for memory before its client is told to
// come again, seconds later; bufferPause is between two looks, at most.
const (
	bufferWait  = time.Second
	bufferPause = 40 * time.Millisecond
)

// minDeferredItem is the smallest number of bytes that is cheaper to read when the reply leaves.
const minDeferredItem = 32 << 10

// TakesDeferredItem reports whether the n bytes of the reply's first item may be read when it
// leaves (mem.DeferredRead), and that pays.
func (c *Call) TakesDeferredItem(n int) bool {
	if n < minDeferredItem {
		return false
	}
	req := c.via.request(c)
	return req != nil && req.TakesDeferredItem()
}

// DeferItem makes the n bytes of src from off on the reply's first item; its Data is n unfilled
// bytes from Buffer. They are read when they are sent; if src then has fewer, cut changes the
// reply. The call owns src from here on. TakesDeferredItem must have returned true.
func (c *Call) DeferItem(src mem.DeferredRead, off int64, n int, cut mem.Cut) {
	c.via.request(c).DeferItem(src, off, n, cut)
}

// Room has the reply's stream hold n bytes more. What is beyond the small space
// that each reply begins with comes from the server's memory budget; false says
// that it is spent. Procedures with large results that are no items call it as
// they go, and before the first item.
func (c *Call) Room(n int) bool {
	had := c.res.Bytes()
	if cap(had)-len(had) >= n {
		return true
	}
	b := c.Buffer(len(had) + max(n, 2*len(had))) // as it will go on to grow
	if b == nil {
		b = c.Buffer(len(had) + n)
	}
	if b == nil {
		return false
	}
	c.res.Reset(b)
	c.res.Raw(had)
	return true
}

// ArgsErr returns nil, or ErrGarbageArgs when the arguments did not decode. A procedure asks after
// it has decoded all and before it does any work: where the arguments came in chunks that do not
// belong to them, the call is answered with ERR_CHUNK instead of the reply (RFC 8166 §6.1
// [R8166-189]).
func (c *Call) ArgsErr() error {
	err := c.args.Err()
	switch {
	case err == nil && c.args.ItemsLeft() == 0:
		return nil
	case err == nil || (errors.Is(err, xdr.ErrShort) && c.args.ItemsLeft() > 0):
		// No item stood where a chunk says that its content belongs.
		c.chunkFault = true
	}
	return ErrGarbageArgs
}
