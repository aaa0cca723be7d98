// Unread bytes in a socket.

package transport

import (
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestSocketInputAllocatesNothing: the check for unread bytes, which runs after each long call,
// sees them, and allocates nothing.
func TestSocketInputAllocatesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	defer out.Close()
	in, err := l.Accept()
	must.Succeed(t, err)
	defer in.Close()
	c := &tcpConn{nc: in}
	c.input.init(in)
	if c.inputWaits(nil) {
		t.Error("input waits before any was sent")
	}
	_, err = out.Write([]byte{1})
	must.Succeed(t, err)
	must.Become(t, "input that waits", func() bool { return c.inputWaits(nil) })
	if n := testing.AllocsPerRun(100, func() { c.inputWaits(nil) }); n > 0 {
		t.Errorf("%v allocations for each check, want 0", n)
	}
}
