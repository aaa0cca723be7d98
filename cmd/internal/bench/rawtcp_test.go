// The baseline: the peer's behavior for each kind of connection, and an error for a wrong count.

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// startRawPeer runs the peer in this process; stop ends it like a parent.
func startRawPeer(t *testing.T) (addr string, stop func() error) {
	t.Helper()
	in, holdIn := io.Pipe()
	out, writeOut := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RawPeer("127.0.0.1:0", in, writeOut) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("ReadString: %v", err)
	}
	return strings.TrimSpace(line), func() error {
		holdIn.Close()
		return <-ended
	}
}

func TestRawPeerCountsAStream(t *testing.T) {
	addr, stop := startRawPeer(t)
	for _, n := range []int{0, 1, rawWrite, 3*rawWrite + 7} {
		conn, err := rawDial(addr, rawStream)
		if err != nil {
			t.Fatalf("rawDial: %v", err)
		}
		if _, err := conn.Write(make([]byte, n)); err != nil {
			t.Fatalf("conn.Write: %v", err)
		}
		conn.(*net.TCPConn).CloseWrite()
		var got uint64
		if err := binary.Read(conn, binary.BigEndian, &got); err != nil || got != uint64(n) {
			t.Errorf("counted %d of %d bytes, %v", got, n, err)
		}
		conn.Close()
	}
	if err := stop(); err != nil {
		t.Errorf("the peer ended with %v", err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("it listens after its parent has gone")
	}
}

func TestRawPeerEchoes(t *testing.T) {
	addr, stop := startRawPeer(t)
	defer stop()
	conn, err := rawDial(addr, rawPingPong)
	if err != nil {
		t.Fatalf("rawDial: %v", err)
	}
	defer conn.Close()
	for i := range 10 {
		msg := strings.Repeat(string(rune('a'+i)), rawMessage)
		if _, err := io.WriteString(conn, msg); err != nil {
			t.Fatalf("io.WriteString: %v", err)
		}
		got := make([]byte, rawMessage)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != msg {
			t.Fatalf("message %d: %q, %v", i, got, err)
		}
	}
}

func TestRawFigures(t *testing.T) {
	f, err := rawPlan{each: 5 * time.Millisecond}.measure(t.Context())
	if err != nil || f.StreamMiBs <= 0 || f.PingPongUs <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
	addr, stop := startRawPeer(t)
	defer stop()
	// even without any time, one message is measured
	if mean, err := rawPingPongTime(addr, 0); err != nil || mean <= 0 {
		t.Errorf("round trips: %v, %v", mean, err)
	}
	if rate, err := rawStreamRate(addr, 0); err != nil || rate <= 0 {
		t.Errorf("stream: %v, %v", rate, err)
	}
}

// A peer whose count differs from the bytes sent causes an error.
func TestLostDataIsNoFigure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn)
		binary.Write(conn, binary.BigEndian, uint64(n-2)) // one of the n bytes selects the kind
	}()
	if rate, err := rawStreamRate(l.Addr().String(), time.Millisecond); err == nil || err.Error() != "raw TCP lost data" {
		t.Errorf("%v, %v", rate, err)
	}
}

func TestPeerThatIsGone(t *testing.T) {
	addr, stop := startRawPeer(t)
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if _, err := rawStreamRate(addr, time.Millisecond); err == nil {
		t.Error("a stream to nobody")
	}
	if _, err := rawPingPongTime(addr, time.Millisecond); err == nil {
		t.Error("a ping-pong with nobody")
	}
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer hangsUp.Close()
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	if _, err := rawPingPongTime(hangsUp.Addr().String(), time.Hour); err == nil {
		t.Error("a ping-pong that is not answered")
	}
}

// The baseline is the mean of two measurements, before and after the tests. After a failure it is
// unknown.
func TestYardstickIsMeasuredAround(t *testing.T) {
	calls := 0
	raw, err := rawPlan{each: 2 * time.Millisecond}.around(t.Context(), func() error { calls++; return nil })
	if err != nil || calls != 1 || raw.StreamMiBs <= 0 || raw.PingPongUs <= 0 {
		t.Errorf("%+v, %v, %d calls", raw, err, calls)
	}
	if got := (rawReport{StreamMiBs: 1000, PingPongUs: 10}).mean(rawReport{StreamMiBs: 3000, PingPongUs: 50}); got != (rawReport{StreamMiBs: 2000, PingPongUs: 30}) {
		t.Errorf("the mean is %+v", got)
	}
	bad := errors.New("bad")
	plan := rawPlan{each: time.Millisecond}
	if raw, err := plan.around(t.Context(), func() error { return bad }); !errors.Is(err, bad) || raw != (rawReport{}) {
		t.Errorf("%+v, %v", raw, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := plan.around(ctx, func() error { t.Error("measured in spite of the end"); return nil }); err == nil || !strings.HasPrefix(err.Error(), "raw TCP: ") {
		t.Errorf("%v", err)
	}
}
