// The yardstick of RoCE: what plain Go UDP does between two processes of this machine, in packets and batches like RoCE's.

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"golang.org/x/sys/unix"
)

// A packet of the stream is as long as one of RoCE in the middle of a message of the largest path MTU: BTH, payload, ICRC. As many
// are joined to a message as UDP allows (UDP_SEGMENT, UDP_GRO), which is what the RoCE provider does on loopback, and an
// acknowledge is sent as often as there. The bytes come from memory of 1 MiB and go to such, as those of an RDMA Write do.
const (
	udpPacket  = 12 + 4096 + 4
	udpJoined  = 65_000 / udpPacket
	udpWindow  = 8 // messages on the wire, close to the 128 packets of an RC QP
	udpAckEach = 2 // messages
	udpMessage = 12 + rawMessage + 4
	udpBuffer  = 8 << 20 // of the socket, as the provider has it
	udpRoom    = 1 << 16 // for what comes: more than a message has
	udpMemory  = 1 << 20
)

// UDPOverdue is after how long a packet counts as lost; nothing is lost on loopback while the buffer has room. Tests on a busy machine have more.
var UDPOverdue = 5 * time.Second

var errUDPLost = errors.New("raw UDP: packets were lost")

// A udpReport is what raw UDP did: the stream in MiB/s, a ping-pong of a packet with rawMessage bytes in microseconds.
type udpReport struct {
	StreamMiBs float64     `json:"stream_mib_s"`      // one stream
	PingPongUs text.Micros `json:"ping_pong_seconds"` // a packet with 100 bytes and its return
}

// udpAround measures raw UDP before and after f, and returns the mean of both.
func udpAround(ctx context.Context, each time.Duration, f func() error) (r udpReport, err error) {
	before, err := measureUDP(ctx, each)
	if err != nil {
		return r, err
	}
	if err = f(); err != nil {
		return r, err
	}
	after, err := measureUDP(ctx, each)
	return udpReport{(before.StreamMiBs + after.StreamMiBs) / 2, (before.PingPongUs + after.PingPongUs) / 2}, err
}

// measureUDP measures both figures with a child process.
func measureUDP(ctx context.Context, each time.Duration) (r udpReport, err error) {
	peer, err := child.Start(ctx, "_rawudp")
	if err != nil {
		return r, err
	}
	defer peer.Stop()
	to, err := netip.ParseAddrPort(peer.Line)
	if err != nil {
		return r, err
	}
	conn, err := openUDP()
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if r.StreamMiBs, err = udpStreamRate(conn, to, each); err != nil {
		return r, err
	}
	r.PingPongUs, err = udpPingPongTime(conn, to, each)
	return r, err
}

// openUDP opens a socket of loopback with packets joined both ways, where the system knows how.
func openUDP() (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			for _, o := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} { // the latter for root alone
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o, udpBuffer)
			}
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
		})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// segmented is the control message that has the kernel cut a message into packets.
func segmented() []byte {
	oob := make([]byte, unix.CmsgSpace(2))
	h := binary.NativeEndian
	h.PutUint64(oob, uint64(unix.CmsgLen(2)))
	h.PutUint32(oob[unix.SizeofCmsghdr-8:], unix.IPPROTO_UDP)
	h.PutUint32(oob[unix.SizeofCmsghdr-4:], unix.UDP_SEGMENT)
	h.PutUint16(oob[unix.CmsgLen(0):], udpPacket)
	return oob
}

// udpStreamRate sends messages for d, but a window at least, with at most a window on the wire, and waits until all are acknowledged.
func udpStreamRate(conn *net.UDPConn, to netip.AddrPort, d time.Duration) (float64, error) {
	memory, oob, answer := make([]byte, udpMemory), segmented(), make([]byte, udpRoom)
	start, sent, got := time.Now(), 0, 0
	acknowledged := func(down int) error {
		for sent-got > down {
			_ = conn.SetReadDeadline(time.Now().Add(UDPOverdue))
			n, _, err := conn.ReadFromUDPAddrPort(answer)
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				return errUDPLost
			}
			if err != nil {
				return err
			}
			got += n * udpAckEach // answers of one byte may come joined
		}
		return nil
	}
	for sent < udpWindow || sent%udpAckEach != 0 || time.Since(start) < d {
		if err := acknowledged(udpWindow - 1); err != nil {
			return 0, err
		}
		at := sent * udpRoom % udpMemory
		if _, _, err := conn.WriteMsgUDPAddrPort(memory[at:at+udpJoined*udpPacket], oob, to); err != nil {
			return 0, fmt.Errorf("raw UDP: %w", err)
		}
		sent++
	}
	if err := acknowledged(0); err != nil {
		return 0, err
	}
	return float64(sent) * udpJoined * 4096 / (1 << 20) / time.Since(start).Seconds(), nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// udpPingPongTime is the mean time of a packet there and back, in microseconds.
func udpPingPongTime(conn *net.UDPConn, to netip.AddrPort, d time.Duration) (text.Micros, error) {
	var h Histogram
	b := make([]byte, udpRoom)
	for start := time.Now(); h.N == 0 || time.Since(start) < d; {
		t := time.Now()
		if _, err := conn.WriteToUDPAddrPort(b[:udpMessage], to); err != nil {
			return 0, err
		}
		_ = conn.SetReadDeadline(t.Add(UDPOverdue))
		n, _, err := conn.ReadFromUDPAddrPort(b)
		if err != nil || n != udpMessage {
			return 0, errUDPLost
		}
		h.Add(time.Since(t))
	}
	return us(h.Mean()), nil
}

// RawUDPPeer is the other end of the measurement: it writes its address to out in one line, and answers until in ends: packets of the
// stream by a byte for each udpAckEach messages, a ping-pong by itself.
func RawUDPPeer(in io.Reader, out io.Writer) error {
	conn, err := openUDP()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, conn.LocalAddr())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		conn.Close()
	}()
	memory, bytes := make([]byte, udpMemory), 0
	for at := 0; ; at = (at + udpRoom) % udpMemory {
		b := memory[at : at+udpRoom]
		n, from, err := conn.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		case n == udpMessage:
			_, _ = conn.WriteToUDPAddrPort(b[:n], from)
			continue
		}
		for bytes += n; bytes >= udpAckEach*udpJoined*udpPacket; bytes -= udpAckEach * udpJoined * udpPacket {
			_, _ = conn.WriteToUDPAddrPort(b[:1], from)
		}
	}
}
