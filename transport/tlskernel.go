// TLS in the kernel: after the handshake Linux encrypts and decrypts a session's records.

package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/nfsrdma/nfsrdma/transport/internal/ktls"
	"golang.org/x/sys/unix"
)

// A kernelTLS is a session in the kernel: a *ktls.Conn. Expired deadlines leave it usable.
type kernelTLS interface {
	io.ReadWriter
	WriteBuffers(b *net.Buffers) (int64, error)
	CloseWrite() error
	Notified() bool // the peer's close_notify has been read
}

// A takeTLS moves a session into the kernel after its handshake. ktls.ErrUnsupported leaves it to
// crypto/tls.
type takeTLS func(h *ktls.Handshake) (kernelTLS, error)

// kernelTake is Handshake.Take.
func kernelTake(h *ktls.Handshake) (kernelTLS, error) {
	c, err := h.Take()
	if err != nil { // not a nil *ktls.Conn in the interface
		return nil, err
	}
	return c, nil
}

// A tlsEnd is one of the two ends of a handshake.
type tlsEnd struct {
	user   func(net.Conn, *tls.Config) *tls.Conn
	kernel func(net.Conn, *tls.Config) *ktls.Handshake
}

var (
	serverEnd = tlsEnd{tls.Server, ktls.Server}
	clientEnd = tlsEnd{tls.Client, ktls.Client}
)

// ProbeKernelTLS reports whether the Linux kernel can encrypt sessions (KernelTLS): an error gives
// the reason why not. rekeys means that it follows a peer that changes its key (Linux 6.14);
// otherwise such a session ends, and the client connects again.
func ProbeKernelTLS() (rekeys bool, err error) { return ktls.Probe() }

// NetConn returns the socket, for ktls.
func (w *tlsWire) NetConn() net.Conn { return w.Conn }

// moveToKernel moves the session after its handshake, if that is wanted and possible.
func (s *tlsStream) moveToKernel() error {
	if s.toKernel == nil {
		return nil
	}
	k, err := s.toKernel(s.hands)
	if err == nil {
		s.kernel, s.channel.Kernel = k, true
		return nil
	}
	if errors.Is(err, ktls.ErrUnsupported) {
		return nil
	}
	return fmt.Errorf("the session cannot be moved into the kernel: %w", err)
}

// readable reports whether a Read of the socket returns at once; true if unknown. The number of
// bytes in the socket does not suffice: the kernel may have decrypted some already.
func readable(nc net.Conn) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	n := 0
	err = raw.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) })
	return err != nil || n != 0
}

// acknowledged reports whether the peer's kernel has acknowledged all bytes in the socket, with no
// reply being written. The kernel's records have no sizes known here, so replied is a lower bound.
func (t *tcpConn) acknowledged() bool {
	t.mu.Lock()
	busy := t.writing || len(t.out) > 0
	t.mu.Unlock()
	sc, ok := t.nc.(syscall.Conn)
	if busy || !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	n := 1
	err = raw.Control(func(fd uintptr) {
		if unsent, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ); err == nil {
			n = unsent
		}
	})
	return err == nil && n == 0
}
