// The seam of the endpoint: what a requester calls and a responder serves.

package rpcrdma

import (
	"context"
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// Config is how an endpoint behaves. The zero value is right for most.
type Config struct {
	Credits    int     // both ways; 0: 128
	InlineSize int     // our send and receive size in octets, 1024..262144 in steps of 1024; 0: 4096
	MaxPull    int     // the most octets one call's Read chunks may hold; 0: 2 MiB
	MaxReply   int     // the most octets of a reply that we write into one Reply chunk; 0: 2 MiB
	Budget     *Budget // process-wide bound of pulled and result octets; nil: a default one of 256 MiB
	Handler    Handler // serves inbound calls; nil: there is no service, calls are dropped
}

// A Budget bounds the octets that all connections hold for chunks.
type Budget struct{}

func NewBudget(octets int64) *Budget { panic("stub") }

// A Handler serves inbound RPC calls.
type Handler interface {
	// ServeRPC is called on the connection's receive loop: it must not block.
	// It ends, now or later and on any goroutine, in exactly one of the
	// Request's Reply, RejectChunks and Drop.
	ServeRPC(r *Request)
}

// A Request is one inbound RPC call, its Read chunks pulled already.
type Request struct {
	// Msg is the call: the stream begins with the XID; items are the pulled
	// Read chunks with their offset in the stream. Valid until the request ends.
	Msg chunks.Message
}

func (r *Request) Conn() *Conn { panic("stub") }

// Scratch is a slice of length 0 for the reply's stream, of good capacity, valid until the reply has left.
func (r *Request) Scratch() []byte { panic("stub") }

// Buffer returns n octets for a result item, valid until the reply has left. It
// fails (nil) when the budget is spent. Contents are not zeroed.
func (r *Request) Buffer(n int) []byte { panic("stub") }

// Reply sends the reply: items go by the offered Write chunks, or inline, or all
// of it by the Reply chunk (RFC 8166 §3.5; notes §7). m.Stream must begin with
// the XID. Any goroutine; it never blocks.
func (r *Request) Reply(m chunks.Message) error { panic("stub") }

// RejectChunks answers RDMA_ERROR ERR_CHUNK.
func (r *Request) RejectChunks() error { panic("stub") }

// Drop ends the request with no answer.
func (r *Request) Drop() { panic("stub") }

// A Conn is one RPC-over-RDMA connection, requester and responder at once.
type Conn struct{}

// Errors that Call returns, beside those of the context and of the connection.
var (
	ErrChunk    = errors.New("rpcrdma: the peer could not use the chunks of the call (ERR_CHUNK)")
	ErrVersion  = errors.New("rpcrdma: the peer does not speak RPC-over-RDMA version 1 (ERR_VERS)")
	ErrTooLarge = errors.New("rpcrdma: message too large")
	ErrBadReply = errors.New("rpcrdma: the reply does not fit the chunks of the call")
	ErrClosed   = errors.New("rpcrdma: connection is closed")
)

// Dial connects as RPC client (active side).
func Dial(ctx context.Context, dev *rnic.Device, addr string, cfg Config) (*Conn, error) {
	panic("stub")
}

// Accept takes an inbound connection (passive side): posts receives, then accepts.
func Accept(dev *rnic.Device, req *rnic.ConnRequest, cfg Config) (*Conn, error) { panic("stub") }

func (c *Conn) Close() error          { panic("stub") }
func (c *Conn) Done() <-chan struct{} { panic("stub") }
func (c *Conn) Err() error            { panic("stub") }
func (c *Conn) RemoteAddr() net.Addr  { panic("stub") }
func (c *Conn) LocalAddr() net.Addr   { panic("stub") }

// A Call is one outbound RPC. It is made by Conn.NewCall, filled, given to Do,
// and comes home by Release, which lets it be used again with no allocation.
type Call struct {
	// Msg is the encoded RPC call, XID first. Its items are the arguments that
	// may travel as Read chunks.
	Msg chunks.Message
	// Sink is where the result item shall land; nil when there is none.
	Sink []byte
	// MaxReply is the most octets that the reply's stream can have, the item of Sink apart.
	MaxReply int
	// Reply is the reply, valid until Release. Where the item went into Sink,
	// it is an item of AnyOffset with Data = Sink[:n]; else it is in the stream.
	Reply chunks.Message
}

// NewCall returns a Call from the connection's free list.
func (c *Conn) NewCall() *Call { panic("stub") }

// Scratch is a slice of length 0 for the call's stream, valid until Release.
func (k *Call) Scratch() []byte { panic("stub") }

// Do sends the call when a credit is free and waits for the reply. When it
// returns, with or without an error, no octet can land in Sink and none of Msg
// is read any more.
func (c *Conn) Do(ctx context.Context, k *Call) error { panic("stub") }

// Release gives the Call, its receive buffer and its credit back.
func (k *Call) Release() { panic("stub") }
