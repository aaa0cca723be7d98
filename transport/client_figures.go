// A client's metrics about its calls and its connection.

package transport

import (
	"time"
)

// CallFigures is one call's metrics, for ClientConfig.Observe.
type CallFigures struct {
	Queue          time.Duration // wait for connection, credit and calls before the last transmission
	RoundTrip      time.Duration // from the last transmission to the call's end; 0: never sent
	Retransmits    int           // number of retransmissions
	Sent, Received int           // bytes of the last attempt's RPC messages, with items
	Err            error         // the call's result
}

// A callWatch collects one call's metrics. The goroutine that writes the call sets sent, before
// the reply can come; the caller owns the rest.
type callWatch struct {
	begun    time.Time // zero: not observed
	sent     time.Time // when the last attempt was sent; zero: not yet
	tries    int
	size     int // of the call, in bytes
	received int // bytes of the reply
}

// since returns an attempt's start. The first attempt starts with the call, so for that attempt
// since() reads no clock.
func (w *callWatch) since() time.Time {
	if w.begun.IsZero() || w.tries == 0 {
		return w.begun
	}
	return now()
}

func (w *callWatch) sentAt(at time.Time) { w.sent = at }

// figures returns the metrics of a call that has returned err.
func (k *outCall) figures(err error) CallFigures {
	end := now()
	f := CallFigures{Queue: end.Sub(k.begun), Retransmits: k.tries, Sent: k.size, Received: k.received, Err: err}
	if !k.sent.IsZero() {
		f.RoundTrip = end.Sub(k.sent)
		f.Queue = k.sent.Sub(k.begun)
	}
	return f
}

// LinkFigures describes a Client's connection at one moment.
type LinkFigures struct {
	Up       bool   // there is a connection; false: the client is connecting
	Silent   bool   // calls wait, and the server has answered none recently
	Connects uint64 // connections made so far
	Waiting  int    // calls in progress
	Credits  int    // concurrent calls permitted over RDMA; 0: TCP, without a limit
	Addr     string // the server's

	CRC       bool   // messages sent over RDMA have CRCs; false without a connection
	Transport string // tcp, iwarp or roce, set by the Client's creator
	Xprtsec   string // the connection's protection: none, tls or mtls; none without a connection
	Cipher    string // of TLS; "": in clear, or without a connection
}

// Up reports whether there is a connection; calls wait without a connection.
func (c *Client) Up() bool { return c.current() != nil }

// Figures describes the current connection.
func (c *Client) Figures() LinkFigures {
	f := LinkFigures{Silent: c.Silent(), Waiting: int(c.waiting.Load()), Connects: c.connects.Load(), Up: c.Up()}
	channel := c.Channel()
	f.Addr, f.Xprtsec, f.Cipher = c.Addr(), channel.Level().String(), channel.Cipher()
	if info, ok := c.RDMAInfo(); ok {
		f.Credits, f.CRC = info.Credits, info.CRC
	}
	return f
}
