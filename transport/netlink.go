// Netlink requests to the kernel with a single answer message.

package transport

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

var errNetlink = errors.New("rpc: netlink: the answer is not one of ours")

// A netlink is a socket for one netlink protocol. The zero value is a closed socket. A netlink is
// not safe for concurrent use.
type netlink struct {
	fd    int // plus 1; 0: closed
	seq   uint32
	space [4096]byte
}

// ask sends a request and returns its answer's type and body, valid until the next ask. An error
// answer is a unix.Errno; any other error closes the socket.
func (n *netlink) ask(protocol int, typ uint16, body []byte) (uint16, []byte, error) {
	if err := n.open(protocol); err != nil {
		return 0, nil, err
	}
	n.seq++
	msg := binary.NativeEndian.AppendUint32(n.space[:0], uint32(unix.NLMSG_HDRLEN+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, typ)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST)
	msg = binary.NativeEndian.AppendUint32(msg, n.seq)
	msg = binary.NativeEndian.AppendUint32(msg, 0) // port, set by the kernel
	msg = append(msg, body...)
	err := unix.Sendto(n.fd-1, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err == nil {
		return n.answer()
	}
	n.close()
	return 0, nil, err
}

// answer reads messages until the answer to request seq.
func (n *netlink) answer() (uint16, []byte, error) {
	for end := time.Now().Add(netlinkWait); time.Now().Before(end); {
		size, from, err := unix.Recvfrom(n.fd-1, n.space[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			n.close()
			return 0, nil, err
		}
		// Only the kernel has port 0; messages from other ports are no answers.
		if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid != 0 {
			continue
		}
		typ, seq, body, ok := parseNetlink(n.space[:size])
		switch {
		case !ok || seq != n.seq:
			continue
		case typ == unix.NLMSG_ERROR && len(body) >= 4:
			return 0, nil, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		}
		return typ, body, nil
	}
	n.close()
	return 0, nil, errNetlink
}

// parseNetlink splits b's first message: struct nlmsghdr in linux/netlink.h is length (4), type
// (2), flags (2), sequence number (4) and port (4).
func parseNetlink(b []byte) (typ uint16, seq uint32, body []byte, ok bool) {
	if len(b) < unix.NLMSG_HDRLEN {
		return 0, 0, nil, false
	}
	size := binary.NativeEndian.Uint32(b)
	if size < unix.NLMSG_HDRLEN || uint64(size) > uint64(len(b)) {
		return 0, 0, nil, false
	}
	return binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:]), b[unix.NLMSG_HDRLEN:size], true
}

func (n *netlink) open(protocol int) error {
	if n.fd != 0 {
		return nil
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	limit := unix.NsecToTimeval(int64(netlinkWait))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			unix.Close(fd)
			return err
		}
	}
	n.fd = fd + 1
	return nil
}

func (n *netlink) close() {
	if n.fd != 0 {
		unix.Close(n.fd - 1)
		n.fd = 0
	}
}
