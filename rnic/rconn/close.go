// CloseWrite and Close.

package rconn

import (
	"context"
	"net"
	"os"
	"syscall"
)

// CloseWrite ends our data: the peer reads io.EOF after it. Reads go on.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	closed, err := c.closed, c.err
	c.noWrite = true
	c.mu.Unlock()
	switch {
	case closed:
		return c.opError("close", net.ErrClosed)
	case err != nil:
		return c.opError("close", os.NewSyscallError("rdma", syscall.ENOTCONN))
	}
	c.wakeAll() // a waiting Write fails
	c.postEnd()
	c.update()
	return nil
}

// Close ends the connection, and waits until the peer has all written bytes, at most for
// Config.Linger. Methods that wait fail with net.ErrClosed. A second Close is an error.
func (c *Conn) Close() error {
	first := false
	c.closing.Do(func() { first = true })
	if !first {
		<-c.ended
		return c.opError("close", net.ErrClosed)
	}
	defer close(c.ended)
	c.mu.Lock()
	c.closed, c.noWrite = true, true
	c.mu.Unlock()
	c.readDeadline.stop()
	c.writeDeadline.stop()
	c.wakeAll()
	c.postEnd()
	ctx, cancel := context.WithTimeout(context.Background(), c.linger)
	defer cancel()
	_ = c.qp.Disconnect(ctx) // after the end of the QP there is nothing to wait for
	c.discard()
	return nil
}
