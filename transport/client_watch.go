// Detecting a silent server: distinguishes a dead connection from a slow call.

package transport

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A clientWatch counts events for silence detection. watchServer compares the counts at each tick,
// so calls read no clock.
type clientWatch struct {
	waiting atomic.Int64  // calls that have begun and not ended
	answers atomic.Uint64 // replies received
	probing atomic.Bool   // a probe is running
	silent  atomic.Bool   // no answer for two ticks, not even to a probe

	connects atomic.Uint64 // connections made
}

// watchServer runs until Close. A slow call on a good connection looks like any call on a dead one.
// So after the first silent tick watchServer probes the server. If no answer has come for
// RetryTimeout in all, watchServer discards the connection. Over RDMA the probe needs a credit. If
// stalled calls hold all credits, no probe is sent, and the calls' silence decides.
func (c *Client) watchServer() {
	tick := max(c.cfg.RetryTimeout/silentTicks, time.Microsecond)
	t := time.NewTicker(tick)
	defer t.Stop()
	quiet, notified := 0, false // silent ticks; Responding(false) was called
	var last uint64
	conn := c.current() // the connection at the last tick
	var since int       // quiet when conn was made
	for {
		select {
		case <-c.closing.Done():
			return
		case <-t.C:
		}
		answers, l := c.answers.Load(), c.current()
		switch {
		case answers != last:
			last, quiet, since = answers, 0, 0
			notified = notified && !c.notifyResponding(true)
		case c.waiting.Load() == 0:
			quiet, since = 0, 0
		default:
			quiet++
		}
		if l != conn {
			conn, since = l, quiet
		}
		c.silent.Store(quiet > 1)
		if !notified && quiet > 2 && time.Duration(quiet)*tick >= noticeTime {
			notified = c.notifyResponding(false)
		}
		switch {
		case l == nil || quiet == since || c.udp: // over UDP calls are repeated anyway
		case quiet-since > silentTicks:
			c.discard(l, errNoAnswer)
		case c.probing.CompareAndSwap(false, true):
			c.wg.Go(func() { c.probeServer(l) })
		}
	}
}

// current returns the current connection, or nil.
func (c *Client) current() clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// notifyResponding calls Responding, if set, and reports whether Responding is set.
func (c *Client) notifyResponding(ok bool) bool {
	if c.cfg.Responding != nil {
		c.cfg.Responding(ok)
	}
	return c.cfg.Responding != nil
}

// probeServer probes the server on l; l counts the reply.
func (c *Client) probeServer(l clientConn) {
	defer c.probing.Store(false)
	_ = c.probe(c.closing, l, c.cfg.RetryTimeout)
}

// Silent reports whether calls wait and the server has answered none recently: another Client of
// the same server may do better.
func (c *Client) Silent() bool { return c.silent.Load() }

// RDMAInfo returns the current connection's negotiated parameters; false over TCP, and without a
// connection.
func (c *Client) RDMAInfo() (rpcrdma.Info, bool) {
	if l, ok := c.current().(*rdmaClientConn); ok {
		return l.conn.Info(), true
	}
	return rpcrdma.Info{}, false
}
