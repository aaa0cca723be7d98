// Watching a server that is silent: a dead connection is told from a call that takes long.

package transport

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A clientWatch counts what a Client's calls see of their server. Nothing reads a clock
// for it on the way of a call: watchServer compares the counts from tick to tick.
type clientWatch struct {
	waiting atomic.Int64  // calls that have begun and not ended
	answers atomic.Uint64 // replies that have come
	asking  atomic.Bool   // a probe is under way
	silent  atomic.Bool   // nothing has been answered for two ticks: not to a probe either

	connects atomic.Uint64 // connections that were made
}

// Silence is measured in ticks of RetryTimeout/silentTicks each.
const (
	silentTicks = 8
	noticeTime  = 5 * time.Second
)

// watchServer runs until Close. A long call on a good connection and any call on a
// dead one look alike, so after the first tick of silence the server is asked for an
// answer to nothing in particular. When none has come to that either after
// RetryTimeout in all, the connection is given up. Over RDMA the question needs a
// credit: where all are taken by calls that stall, their silence decides.
func (c *Client) watchServer() {
	tick := max(c.cfg.RetryTimeout/silentTicks, time.Microsecond)
	t := time.NewTicker(tick)
	defer t.Stop()
	quiet, told := 0, false // ticks of silence; Responding(false) was called
	var last uint64
	conn := c.current() // the one of the last tick
	var since int       // quiet, when it was made
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
			told = told && !c.tell(true)
		case c.waiting.Load() == 0:
			quiet, since = 0, 0
		default:
			quiet++
		}
		if l != conn {
			conn, since = l, quiet
		}
		c.silent.Store(quiet > 1)
		if !told && quiet > 2 && time.Duration(quiet)*tick >= noticeTime {
			told = c.tell(false)
		}
		switch {
		case l == nil || quiet == since:
		case quiet-since > silentTicks:
			c.discard(l, errNoAnswer)
		case c.asking.CompareAndSwap(false, true):
			c.wg.Go(func() { c.ask(l) })
		}
	}
}

// current is the connection of the moment, nil where there is none.
func (c *Client) current() link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// tell tells Responding, if there is one to tell.
func (c *Client) tell(ok bool) bool {
	if c.cfg.Responding != nil {
		c.cfg.Responding(ok)
	}
	return c.cfg.Responding != nil
}

// ask has the server answer on l; the answer is counted where it comes in.
func (c *Client) ask(l link) {
	defer c.asking.Store(false)
	_ = c.probe(c.closing, l, c.cfg.RetryTimeout)
}

// Silent reports whether calls wait and the server has answered none of late:
// another Client of the same server may do better.
func (c *Client) Silent() bool { return c.silent.Load() }

// RDMAInfo is what was agreed on for the connection of the moment; false over TCP,
// and while there is none.
func (c *Client) RDMAInfo() (rpcrdma.Info, bool) {
	if l, ok := c.current().(*rdmaLink); ok {
		return l.conn.Info(), true
	}
	return rpcrdma.Info{}, false
}
