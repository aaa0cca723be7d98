// Inbound: the peer's messages, and Read.

package rconn

import (
	"io"
	"net"
	"os"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// handle processes completed receives. It runs on a provider's goroutine, or in a Read that polls.
func (c *Conn) handle() {
	for n := c.recvs.Poll(c.wcs[:]); n > 0; n = c.recvs.Poll(c.wcs[:]) {
		if err := c.take(c.wcs[:n]); err != nil {
			c.abort(err)
		}
	}
	c.update()
}

// take applies a batch and posts its receives again.
func (c *Conn) take(wcs []rnic.WC) error {
	came, credit := false, false
	n := 0
	c.mu.Lock()
	for i := range wcs {
		wc := &wcs[i]
		if wc.Status != rnic.WCSuccess {
			continue
		}
		m, err := decode(wc)
		if err == nil {
			err = c.flow.receive(m)
		}
		if wc.Buf != nil {
			messages.Put(wc.Buf)
		}
		if err != nil {
			c.mu.Unlock()
			return err
		}
		came = came || m.kind != kindUpdate
		credit = credit || !m.bare
		c.reposts[n] = rnic.RecvWR{Pool: messages}
		n++
	}
	c.wakeFor(came, credit)
	c.mu.Unlock()
	if n == len(wcs) && c.qp.PostRecv(c.reposts[:n]...) == nil {
		c.mu.Lock()
		c.flow.posted(n)
		c.mu.Unlock()
		return nil
	}
	return causeOf(c.qp.Err())
}

// decode returns a completed receive's message.
func decode(wc *rnic.WC) (message, error) {
	switch {
	case wc.Op == rnic.OpRecvWrite:
		return parseImmediate(wc.Value)
	case wc.Immediate:
		return message{}, errMessage
	}
	return parseMessage(wc.Buf[:wc.Len])
}

// wakeFor wakes the waiting Read if data or the end came, and the waiting Write if the peer has
// returned something. The caller holds mu.
func (c *Conn) wakeFor(came, credit bool) {
	if came && c.readWaits.Load() {
		c.readWaits.Store(false)
		wake(c.readWake)
	}
	if credit && c.writeWaits.Load() {
		c.writeWaits.Store(false)
		wake(c.writeWake)
	}
}

// Read reads up to len(b) bytes. It returns io.EOF after the peer's Close or CloseWrite, once all
// bytes have been read. Bytes that came before the connection broke are read first.
func (c *Conn) Read(b []byte) (int, error) {
	c.readers.Lock()
	defer c.readers.Unlock()
	for {
		from, wait, err := c.readable()
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return 0, c.opError("read", err)
		case len(b) == 0:
			return 0, nil
		case !wait:
			n := copy(b, from)
			c.consumed(n)
			return n, nil
		}
		c.awaitMessage()
	}
}

// WriteTo writes to w until io.EOF, straight from the ring. It implements io.WriterTo for io.Copy.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	c.readers.Lock()
	defer c.readers.Unlock()
	for {
		from, wait, err := c.readable()
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, c.opError("read", err)
		case wait:
			c.awaitMessage()
			continue
		}
		k, err := w.Write(from)
		k = min(max(k, 0), len(from)) // a wrong w cannot confuse the ring
		c.consumed(k)
		n += int64(k)
		if err == nil && k < len(from) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
}

// readable returns the unread bytes at hand. wait: there are none, and Read is recorded as waiting.
func (c *Conn) readable() (from []byte, wait bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, n := c.flow.unread()
	switch {
	case c.closed:
		return nil, false, net.ErrClosed
	case c.readDeadline.passed():
		return nil, false, os.ErrDeadlineExceeded
	case n > 0:
		return c.memory[offset:][:n], false, nil
	case c.flow.endCame:
		return nil, false, io.EOF
	case c.err != nil:
		return nil, false, c.err
	}
	c.readWaits.Store(true)
	return nil, true, nil
}

// consumed records n read bytes, and announces them if it is time.
func (c *Conn) consumed(n int) {
	c.mu.Lock()
	c.flow.take(n)
	due := c.flow.due()
	c.mu.Unlock()
	if due {
		c.update()
	}
}

// awaitMessage waits until a message, the deadline or the connection's end wakes Read. Read then
// receives itself, so no other goroutine has to wake it, and the bytes are in the CPU's cache.
func (c *Conn) awaitMessage() {
	c.qp.PollUntil(c.answered)
	if c.readWaits.Load() {
		c.qp.EnsureReceiver()
	}
	<-c.readWake
	c.readWaits.Store(false)
}
