// What a client tells of its calls and its connection to who wants to count them.

package transport

import (
	"time"
)

// CallFigures is what an Observe of a Client learns of one call.
type CallFigures struct {
	Queue          time.Duration // from the call until it was last sent: for a connection, a credit, those before it
	RoundTrip      time.Duration // from then until its end; 0 if it was not sent
	Retransmits    int           // how often it was sent again
	Sent, Received int           // bytes of the RPC messages, items included; of the last attempt
	Err            error         // what the call has returned
}

// A callWatch takes the figures of one call. The goroutine that writes the call sets sent, before
// the reply can come; all else is the caller's.
type callWatch struct {
	begun    time.Time // zero: nobody wants to know
	sent     time.Time // when the last attempt was sent; zero: not yet
	tries    int
	size     int // bytes of the call
	received int // bytes of its reply
}

// since is the beginning of an attempt: for the first one the beginning of the call, which costs
// no look at the clock.
func (w *callWatch) since() time.Time {
	if w.begun.IsZero() || w.tries == 0 {
		return w.begun
	}
	return now()
}

func (w *callWatch) sentAt(at time.Time) { w.sent = at }

// figures are those of a call that has returned err.
func (k *outCall) figures(err error) CallFigures {
	end := now()
	f := CallFigures{Queue: end.Sub(k.begun), Retransmits: k.tries, Sent: k.size, Received: k.received, Err: err}
	if !k.sent.IsZero() {
		f.RoundTrip = end.Sub(k.sent)
		f.Queue = k.sent.Sub(k.begun)
	}
	return f
}

// LinkFigures is a Client's connection at one moment.
type LinkFigures struct {
	Up       bool   // there is a connection; else one is being made
	Silent   bool   // calls wait, and the server has answered none of late
	Connects uint64 // connections that were made
	Waiting  int    // calls that have begun and not ended
	Credits  int    // calls that the server lets be under way at once over RDMA; 0: TCP, which has none
	Addr     string // of the server

	CRC       bool   // messages sent over RDMA have CRCs; false without a connection
	Transport string // tcp, iwarp or roce, set by the Client's creator
}

// Up reports whether there is a connection; else a call has to wait for one.
func (c *Client) Up() bool { return c.current() != nil }

// Figures describes the connection.
func (c *Client) Figures() LinkFigures {
	f := LinkFigures{Silent: c.Silent(), Waiting: int(c.waiting.Load()), Connects: c.connects.Load(), Up: c.Up()}
	f.Addr = c.Addr()
	if info, ok := c.RDMAInfo(); ok {
		f.Credits, f.CRC = info.Credits, info.CRC
	}
	return f
}
