// A connection with TLS in the kernel.

package ktls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Content types of records (RFC 8446 §5.1).
const (
	typeAlert     = 21
	typeHandshake = 22
	typeData      = 23
)

// Alerts (RFC 8446 §6).
const (
	alertCloseNotify       tls.AlertError = 0
	alertUnexpectedMessage tls.AlertError = 10
	alertBadRecordMAC      tls.AlertError = 20
	alertIllegalParameter  tls.AlertError = 47
	alertDecodeError       tls.AlertError = 50
	alertInternalError     tls.AlertError = 80
	alertUserCanceled      tls.AlertError = 90

	levelWarning, levelFatal = 1, 2
)

// maxPlaintext is the longest content of a record in bytes.
const maxPlaintext = 1 << 14

// maxControls limits consecutive records without application data. crypto/tls has the same limit.
const maxControls = 16

// A Conn is a TLS 1.3 connection in the kernel. It is a net.Conn, safe for concurrent use.
//
// Write and WriteBuffers write application data, and so does sendfile(2) through SyscallConn. If a
// peer asks for a new key, the next Write or WriteBuffers sends it.
type Conn struct {
	socket
	suite    *suite
	isServer bool

	readMu   sync.Mutex
	receive  []byte // the peer's traffic secret
	messages messages
	finished atomic.Bool // the peer's close_notify has been read
	controls int         // records without application data since the latest data
	readErr  error       // the end of the stream

	writeMu  sync.Mutex
	send     []byte // our traffic secret
	writeErr error
	notified bool // close_notify was sent

	// updateAsked means that the peer awaits a KeyUpdate before further application data.
	updateAsked atomic.Bool
}

func newConn(s socket, u *suite, isServer bool, receive, send []byte) *Conn {
	return &Conn{socket: s, suite: u, isServer: isServer, receive: append([]byte{}, receive...), send: append([]byte{}, send...)}
}

// Read reads application data. It returns io.EOF after the peer's close_notify, or at the end of
// the stream.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.readMu.Lock()
	defer c.readMu.Unlock()
	for c.readErr == nil {
		n, err := c.socket.Read(p)
		switch {
		case err == nil && c.messages.partial():
			c.fail(alertUnexpectedMessage, "data within a handshake message")
		case err == nil:
			c.controls = 0
			return n, nil
		case errors.Is(err, syscall.EIO): // the next record has no application data
			c.readControl()
		case errors.Is(err, syscall.EBADMSG):
			c.fail(alertBadRecordMAC, "a record is forged or damaged")
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		default:
			c.readErr = err
		}
	}
	return 0, c.readErr
}

// fail ends the reading direction with an error, and sends an alert.
func (c *Conn) fail(alert tls.AlertError, format string, args ...any) {
	c.readErr = &net.OpError{Op: "local error", Net: "tcp", Err: fmt.Errorf("tls: %s (alert %d)", fmt.Sprintf(format, args...), alert)}
	c.alert(levelFatal, alert)
}

// alert sends an alert if no writer is at work and there is space.
func (c *Conn) alert(level byte, alert tls.AlertError) {
	if !c.writeMu.TryLock() {
		return
	}
	defer c.writeMu.Unlock()
	if c.writeErr != nil || c.notified {
		return
	}
	if level == levelFatal {
		c.writeErr = net.ErrClosed
	}
	c.notified = alert == alertCloseNotify
	_ = c.writeRecord(typeAlert, []byte{level, byte(alert)}, false) // the connection ends in any case
}

// readControl reads a record without application data, and acts on it.
func (c *Conn) readControl() {
	if c.controls++; c.controls > maxControls {
		c.fail(alertUnexpectedMessage, "more than %d records without data", maxControls)
		return
	}
	b := make([]byte, maxPlaintext+1)
	n, recordType, err := c.readRecord(b)
	b = b[:n]
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err != nil:
		c.readErr = err
	case recordType == typeAlert:
		c.readAlert(b)
	case recordType == typeHandshake:
		c.readHandshake(b)
	default:
		c.fail(alertUnexpectedMessage, "a record of type %d", recordType)
	}
}

func (c *Conn) readAlert(b []byte) {
	if len(b) != 2 || c.messages.partial() {
		c.fail(alertDecodeError, "a malformed alert")
		return
	}
	switch alert := tls.AlertError(b[1]); alert {
	case alertCloseNotify:
		c.finished.Store(true)
		c.readErr = io.EOF
	case alertUserCanceled: // close_notify follows
	default:
		c.readErr = &net.OpError{Op: "remote error", Net: "tcp", Err: alert}
	}
}

// readHandshake acts on a handshake record. It can hold several messages, or part of one.
func (c *Conn) readHandshake(b []byte) {
	if len(b) == 0 {
		c.fail(alertUnexpectedMessage, "an empty handshake record")
		return
	}
	c.messages.add(b)
	for c.readErr == nil {
		messageType, body, err := c.messages.next()
		switch {
		case err != nil:
			c.fail(alertDecodeError, "%v", err)
		case body == nil:
			return
		case messageType == newSessionTicket && !c.isServer: // no session is resumed
		case messageType == keyUpdate && c.messages.partial():
			c.fail(alertUnexpectedMessage, "a KeyUpdate within a record")
		case messageType == keyUpdate:
			c.updateReceive(body)
		default:
			c.fail(alertUnexpectedMessage, "handshake message %d after the handshake", messageType)
		}
	}
}

// updateReceive changes to the peer's next key.
func (c *Conn) updateReceive(body []byte) {
	if len(body) != 1 {
		c.fail(alertDecodeError, "a malformed KeyUpdate")
		return
	}
	if body[0] > 1 {
		c.fail(alertIllegalParameter, "a KeyUpdate with request %d", body[0])
		return
	}
	secret := c.suite.update(c.receive)
	if err := c.setKey(receiving, c.suite.info(secret)); err != nil {
		c.fail(alertInternalError, "the peer changes its key, and this kernel cannot follow (Linux 6.14 can): %v", err)
		return
	}
	clear(c.receive)
	c.receive = secret
	if body[0] == 1 {
		c.updateAsked.Store(true)
	}
}

// Write writes application data.
func (c *Conn) Write(p []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.beforeWrite(); err != nil {
		return 0, err
	}
	return c.socket.Write(p)
}

// WriteBuffers writes application data from several buffers by writev(2), as net.Buffers does to a
// TCP connection, in full records. It removes the written bytes from b.
func (c *Conn) WriteBuffers(b *net.Buffers) (int64, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.beforeWrite(); err != nil {
		return 0, err
	}
	return c.writeBuffers(b)
}

// beforeWrite reports an earlier error, and sends a KeyUpdate that the peer has asked for: it must
// come before further application data (RFC 8446 §4.6.3). The caller holds writeMu.
func (c *Conn) beforeWrite() error {
	switch {
	case c.writeErr != nil:
		return c.writeErr
	case c.notified:
		return net.ErrClosed
	case !c.updateAsked.Load():
		return nil
	}
	c.updateAsked.Store(false)
	secret := c.suite.update(c.send)
	err := c.writeRecord(typeHandshake, []byte{keyUpdate, 0, 0, 1, 0}, true)
	if err == nil {
		err = c.setKey(sending, c.suite.info(secret))
	}
	if err != nil { // the peer's key and ours may differ now
		c.writeErr = fmt.Errorf("tls: cannot change the key: %w", err)
		return c.writeErr
	}
	clear(c.send)
	c.send = secret
	return nil
}

// Notified reports whether a Read has met the peer's close_notify. Without it io.EOF comes from a
// FIN alone, which anyone on the way can forge.
func (c *Conn) Notified() bool { return c.finished.Load() }

// CloseWrite sends close_notify, and ends the writing direction.
func (c *Conn) CloseWrite() error {
	c.alert(levelWarning, alertCloseNotify)
	return c.socket.CloseWrite()
}

// Close sends close_notify if there is space in the send buffer, and closes the connection.
func (c *Conn) Close() error {
	c.alert(levelWarning, alertCloseNotify)
	return c.socket.Close()
}
