// RoCE's baseline: the packets sent and acknowledged, and how the measurement ends.

package bench

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A udpPeer is RawUDPPeer in this process.
type udpPeer struct {
	addr netip.AddrPort
	in   *io.PipeWriter // closing it ends the peer
	done chan error
}

func startUDPPeer(t *testing.T) *udpPeer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &udpPeer{in: inW, done: make(chan error, 1)}
	go func() { p.done <- RawUDPPeer(inR, outW) }()
	line, err := bufio.NewReader(outR).ReadString('\n')
	if err != nil {
		t.Fatalf("ReadString: %v", err)
	}
	if p.addr, err = netip.ParseAddrPort(strings.TrimSpace(line)); err != nil {
		t.Fatalf("netip.ParseAddrPort: %v", err)
	}
	t.Cleanup(func() { inW.Close() })
	return p
}

func benchUDP(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := openUDP()
	if err != nil {
		t.Fatalf("openUDP: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// come reads one datagram.
func come(t *testing.T, c *net.UDPConn) []byte {
	t.Helper()
	b := make([]byte, udpRoom)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatalf("ReadFromUDPAddrPort: %v", err)
	}
	return b[:n]
}

// The peer echoes a ping-pong and sends one byte per udpAckEach stream messages, whether these
// arrive joined or alone.
func TestRawUDPPeerAnswers(t *testing.T) {
	p, c := startUDPPeer(t), benchUDP(t)
	ping := make([]byte, udpMessage)
	ping[0], ping[udpMessage-1] = 1, 2
	message := make([]byte, udpJoined*udpPacket)
	for range 3 {
		if _, err := c.WriteToUDPAddrPort(ping, p.addr); err != nil {
			t.Fatalf("WriteToUDPAddrPort: %v", err)
		}
		if got := come(t, c); string(got) != string(ping) {
			t.Errorf("%d bytes come back", len(got))
		}
		for range udpAckEach {
			if _, _, err := c.WriteMsgUDPAddrPort(message, segmented(), p.addr); err != nil {
				t.Fatalf("WriteMsgUDPAddrPort: %v", err)
			}
		}
		if got := come(t, c); len(got) != 1 {
			t.Errorf("%d messages are acknowledged by %d bytes", udpAckEach, len(got))
		}
	}
	p.in.Close()
	if err := <-p.done; err != nil {
		t.Errorf("the peer ended with %v", err)
	}
}

// A stream message is on the wire in RoCE-sized packets.
func TestRawUDPIsCutIntoPackets(t *testing.T) {
	plain, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("net.ListenUDP: %v", err)
	}
	defer plain.Close()
	to := plain.LocalAddr().(*net.UDPAddr).AddrPort()
	if _, _, err := benchUDP(t).WriteMsgUDPAddrPort(make([]byte, udpJoined*udpPacket), segmented(), to); err != nil {
		t.Fatalf("WriteMsgUDPAddrPort: %v", err)
	}
	for i := range udpJoined {
		if got := come(t, plain); len(got) != udpPacket {
			// this socket has not enabled joined packets, so each read returns one
			t.Errorf("packet %d has %d bytes", i, len(got))
		}
	}
}

// Even the shortest measurement returns figures.
func TestRawUDPFigures(t *testing.T) {
	p, c := startUDPPeer(t), benchUDP(t)
	for _, d := range []time.Duration{0, time.Millisecond} {
		if rate, err := udpStreamRate(c, p.addr, d); err != nil || rate <= 0 {
			t.Errorf("stream for %v: %v MiB/s, %v", d, rate, err)
		}
		if mean, err := udpPingPongTime(c, p.addr, d); err != nil || mean <= 0 {
			t.Errorf("ping-pong for %v: %v µs, %v", d, mean, err)
		}
	}
}

// An invalid answer counts as a lost packet, and a closed socket is an error.
func TestRawUDPGoesWrong(t *testing.T) {
	wrong, c := benchUDP(t), benchUDP(t)
	go func() {
		b := make([]byte, udpRoom)
		if n, from, err := wrong.ReadFromUDPAddrPort(b); err == nil {
			_, _ = wrong.WriteToUDPAddrPort(b[:n-1], from)
		}
	}()
	if _, err := udpPingPongTime(c, wrong.LocalAddr().(*net.UDPAddr).AddrPort(), 0); !errors.Is(err, errUDPLost) {
		t.Errorf("a byte too few: %v", err)
	}
	c.Close()
	if _, err := udpStreamRate(c, netip.MustParseAddrPort("127.0.0.1:9"), 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("stream: %v", err)
	}
	if _, err := udpPingPongTime(c, netip.MustParseAddrPort("127.0.0.1:9"), 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ping-pong: %v", err)
	}
}
