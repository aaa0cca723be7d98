// RoCE's baseline: plain Go UDP between two processes on this machine, with RoCE's packets and
// batches.

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

// A stream packet is as long as a RoCE message's middle packet at the largest path MTU: BTH,
// payload, ICRC. As in the RoCE provider on loopback, as many packets as UDP allows are joined to
// one message (UDP_SEGMENT, UDP_GRO), and acknowledgments are equally frequent. The bytes come from
// 1 MiB of memory and go to 1 MiB, as in an RDMA Write.
const (
	udpPacket  = 12 + 4096 + 4
	udpJoined  = 65_000 / udpPacket
	udpWindow  = 8 // messages in flight, close to an RC QP's 128 packets
	udpAckEach = 2 // messages
	udpMessage = 12 + rawMessage + 4
	udpBuffer  = 8 << 20 // the socket buffer's bytes, as in the provider
	udpRoom    = 1 << 16 // the receive buffer's bytes: more than a message
	udpMemory  = 1 << 20
)

// UDPOverdue is the time after which a packet counts as lost. On loopback no packet is lost while
// the buffer has room. Tests set a longer time for busy machines.
var UDPOverdue = 5 * time.Second

var errUDPLost = errors.New("raw UDP: packets were lost")

// A udpReport has raw UDP's figures: the stream in MiB/s, and a rawMessage-byte packet's ping-pong
// in microseconds.
type udpReport struct {
	StreamMiBs float64     `json:"stream_mib_s"`      // one stream
	PingPongUs text.Micros `json:"ping_pong_seconds"` // a packet with 100 bytes and its return
}

// udpAround measures raw UDP before and after f, and returns their mean.
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

// openUDP opens a loopback socket with joined packets in both directions, if the system supports
// that.
func openUDP() (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			for _, o := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
				// SO_RCVBUFFORCE and SO_SNDBUFFORCE need root
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

// segmented returns the control message that makes the kernel cut a message into packets.
func segmented() []byte {
	oob := make([]byte, unix.CmsgSpace(2))
	h := binary.NativeEndian
	h.PutUint64(oob, uint64(unix.CmsgLen(2)))
	h.PutUint32(oob[unix.SizeofCmsghdr-8:], unix.IPPROTO_UDP)
	h.PutUint32(oob[unix.SizeofCmsghdr-4:], unix.UDP_SEGMENT)
	h.PutUint16(oob[unix.CmsgLen(0):], udpPacket)
	return oob
}

// udpStreamRate sends messages for d, at least one window, with at most one window in flight, until
// all messages are acknowledged.
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
			got += n * udpAckEach // one-byte answers may arrive joined
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

// udpPingPongTime returns a packet's mean round-trip time, in microseconds.
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

// RawUDPPeer is the other end of the measurement. It writes its address to out in one line and
// answers until in ends: one byte per udpAckEach stream messages, and an echo of each ping-pong
// packet.
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
