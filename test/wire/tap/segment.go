// Segments limited to the other side's MSS, which end at FPDU boundaries.

package tap

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxMSS is the largest value of the option TCP_MAXSEG.
const maxMSS = 32_767

// limit returns a control function for a dialer or listener. It limits a socket's segments, in both
// directions, to the MSS on the other side of the tap. So each peer makes FPDUs that fit there.
// Zero sets no limit.
func limit(mss int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		if mss <= 0 || mss > maxMSS {
			return nil
		}
		ctrl := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss) })
		if ctrl != nil {
			return ctrl
		}
		return err
	}
}

// pathMSS returns the maximum payload of a segment to an address, by the MTU of its route.
func pathMSS(address string) int {
	c, err := net.Dial("udp4", address) // sends nothing
	if err != nil {
		return 0
	}
	defer c.Close()
	const headers = 40 // of IPv4 and TCP
	return option(c, unix.IPPROTO_IP, unix.IP_MTU) - headers
}

// connMSS returns the payload of a full segment of a connection.
func connMSS(c net.Conn) int { return option(c, unix.IPPROTO_TCP, unix.TCP_MAXSEG) }

func option(c net.Conn, level, name int) (v int) {
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0
	}
	rc.Control(func(fd uintptr) { v, _ = unix.GetsockoptInt(int(fd), level, name) })
	return v
}

// records returns a function that sends its argument as one record: TCP starts a new segment after
// the record.
func records(c net.Conn) func(record []byte) error {
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return func([]byte) error { return err }
	}
	return func(b []byte) error {
		var failed error
		err := rc.Write(func(fd uintptr) bool {
			for len(b) > 0 {
				n, err := unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_EOR|unix.MSG_NOSIGNAL)
				switch err {
				case nil:
					b = b[n:]
				case unix.EINTR:
				case unix.EAGAIN:
					return false
				default:
					failed = err
					return true
				}
			}
			return true
		})
		return errors.Join(err, failed)
	}
}
