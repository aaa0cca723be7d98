// The kernel's interface: socket options and control messages (linux/tls.h).

package ktls

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A direction is the half of a connection that a key is for. Its value is the socket option.
type direction int

// Constants of linux/tls.h.
const (
	sending   direction = 1 // TLS_TX
	receiving direction = 2 // TLS_RX

	setRecordType = 1 // TLS_SET_RECORD_TYPE, a control message
	getRecordType = 2 // TLS_GET_RECORD_TYPE
	expectNoPad   = 4 // TLS_RX_EXPECT_NO_PAD

	cipherAESGCM128        = 51
	cipherAESGCM256        = 52
	cipherChaCha20Poly1305 = 54
)

// A socket is a TCP connection with TLS in the kernel. Tests replace it by a softSocket.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
	// enable attaches TLS. Without keys the socket stays in clear.
	enable() error
	// setKey sets a direction's tls_crypto_info. The first call turns encryption on.
	setKey(d direction, info []byte) error
	// writeBuffers writes application data, in as few records as possible.
	writeBuffers(b *net.Buffers) (int64, error)
	// Read fails with syscall.EIO if the next record has no application data. readRecord reads a
	// record with any content, and returns its type.
	readRecord(p []byte) (n int, recordType byte, err error)
	// writeRecord writes one short record. Without wait it fails if the send buffer has no space.
	writeRecord(recordType byte, p []byte, wait bool) error
}

// A kernelSocket is a socket of this kernel.
type kernelSocket struct {
	*net.TCPConn
	raw syscall.RawConn
}

func newKernelSocket(c *net.TCPConn) (*kernelSocket, error) {
	raw, err := c.SyscallConn()
	return &kernelSocket{c, raw}, err
}

func (k *kernelSocket) enable() error {
	return k.setsockopt(func(fd int) error { return unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_ULP, "tls") })
}

func (k *kernelSocket) setKey(d direction, info []byte) error {
	return k.setsockopt(func(fd int) error {
		if err := unix.SetsockoptString(fd, unix.SOL_TLS, int(d), string(info)); err != nil || d != receiving {
			return err
		}
		// Our peers pad nothing, so the kernel may decrypt into the reader's memory. A kernel
		// without the option, or a padded record, costs a copy.
		_ = unix.SetsockoptInt(fd, unix.SOL_TLS, expectNoPad, 1)
		return nil
	})
}

func (k *kernelSocket) setsockopt(f func(fd int) error) error {
	var err error
	if e := k.raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return os.NewSyscallError("setsockopt", err)
}

// Read reads application data. If a record cannot be decrypted, the kernel also keeps the error for
// the next system call, the write of our alert. So Read clears it (SO_ERROR).
func (k *kernelSocket) Read(p []byte) (int, error) {
	n, err := k.TCPConn.Read(p)
	if errors.Is(err, syscall.EBADMSG) {
		_ = k.raw.Control(func(fd uintptr) { _, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR) })
	}
	return n, err
}

func (k *kernelSocket) writeBuffers(b *net.Buffers) (int64, error) { return b.WriteTo(k.TCPConn) }

func (k *kernelSocket) readRecord(p []byte) (n int, recordType byte, err error) {
	oob := make([]byte, unix.CmsgSpace(1))
	var oobn int
	e := k.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), p, oob, 0)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if e != nil {
		return 0, 0, e
	}
	if err != nil {
		return 0, 0, os.NewSyscallError("recvmsg", err)
	}
	recordType, err = parseRecordType(oob[:oobn])
	return n, recordType, err
}

// parseRecordType returns the record type in control messages.
func parseRecordType(oob []byte) (byte, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, os.NewSyscallError("recvmsg", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_TLS && m.Header.Type == getRecordType && len(m.Data) > 0 {
			return m.Data[0], nil
		}
	}
	return typeData, nil // the end of the stream has no control message
}

func (k *kernelSocket) writeRecord(recordType byte, p []byte, wait bool) error {
	oob := recordTypeMessage(recordType)
	var err error
	e := k.raw.Write(func(fd uintptr) bool {
		for {
			_, err = unix.SendmsgN(int(fd), p, oob, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if !errors.Is(err, unix.EINTR) {
				return !wait || !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if e != nil {
		return e
	}
	return os.NewSyscallError("sendmsg", err)
}

// recordTypeMessage returns the control message for the type of a record to write.
func recordTypeMessage(recordType byte) []byte {
	b := make([]byte, unix.CmsgSpace(1))
	length := uint64(unix.CmsgLen(1))
	at := unix.CmsgLen(0) - 8 // where cmsg_level is: after cmsg_len, which has the size of a pointer
	if at == 8 {
		binary.NativeEndian.PutUint64(b, length)
	} else {
		binary.NativeEndian.PutUint32(b, uint32(length))
	}
	binary.NativeEndian.PutUint32(b[at:], unix.SOL_TLS)
	binary.NativeEndian.PutUint32(b[at+4:], setRecordType)
	b[unix.CmsgLen(0)] = recordType
	return b
}
