// The baseline: plain Go TCP between two processes on this machine.

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"io"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
)

const (
	rawStream   = 'S' // the client sends until it shuts down; the peer replies with the count
	rawPingPong = 'P' // every rawMessage-byte message is echoed
	rawMessage  = 100
	rawWrite    = 1 << 20
)

// A rawReport has raw TCP's figures: the stream in MiB/s, a ping-pong of rawMessage bytes in
// microseconds, and a file-data stream's limits.
type rawReport struct {
	StreamMiBs float64     `json:"stream_mib_s"`      // one stream
	PingPongUs text.Micros `json:"ping_pong_seconds"` // a 100-byte message and its return
	Limits     limitReport `json:"limits,omitzero"`   // for a stream of file bytes
}

// A rawPlan selects the raw TCP measurements and their peer.
type rawPlan struct {
	each          time.Duration // time for each figure
	reads, writes bool          // the limits of READ and WRITE
	peer          string        // an existing peer's address; empty: start a child process
}

// around measures raw TCP before and after f and returns the mean of both, because a machine that
// slows down during f slows the baseline too.
func (p rawPlan) around(ctx context.Context, f func() error) (rawReport, error) {
	before, err := p.measure(ctx)
	if err != nil {
		return rawReport{}, fmt.Errorf("raw TCP: %w", err)
	}
	if err := f(); err != nil {
		return rawReport{}, err
	}
	after, err := p.measure(ctx)
	if err != nil {
		return rawReport{}, fmt.Errorf("raw TCP: %w", err)
	}
	return before.mean(after), nil
}

// mean returns the average of two measurements.
func (r rawReport) mean(o rawReport) rawReport {
	return rawReport{(r.StreamMiBs + o.StreamMiBs) / 2, (r.PingPongUs + o.PingPongUs) / 2, r.Limits.mean(o.Limits)}
}

// RawPeer is the other end of the measurement. It listens on addr, writes the resulting address to
// out in one line, and serves until in ends.
func RawPeer(addr string, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		l.Close()
	}()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go rawServe(conn)
	}
}

func rawServe(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, rawWrite)
	if _, err := io.ReadFull(conn, buf[:1]); err != nil {
		return
	}
	if buf[0] != rawPingPong && buf[0] != rawStream {
		_ = serveLimit(conn, buf[0]) // the other end notices the early end of the connection
		return
	}
	if buf[0] == rawPingPong {
		for {
			if _, err := io.ReadFull(conn, buf[:rawMessage]); err != nil {
				return
			}
			if _, err := conn.Write(buf[:rawMessage]); err != nil {
				return
			}
		}
	}
	var total uint64
	for {
		n, err := conn.Read(buf)
		total += uint64(n)
		if err != nil {
			_ = binary.Write(conn, binary.BigEndian, total)
			return
		}
	}
}

// measure measures the plan's figures, with a child process unless a peer is given.
func (p rawPlan) measure(ctx context.Context) (f rawReport, err error) {
	addr := p.peer
	if addr == "" {
		peer, err := child.Start(ctx, "_rawtcp")
		if err != nil {
			return f, err
		}
		defer peer.Stop()
		addr = peer.Line
	}
	if f.StreamMiBs, err = rawStreamRate(addr, p.each); err != nil {
		return f, err
	}
	mean, err := rawPingPongTime(addr, p.each)
	if err != nil {
		return f, err
	}
	f.PingPongUs = us(mean)
	f.Limits, err = measureLimits(addr, p.each, p.reads, p.writes)
	return f, err
}

func rawStreamRate(addr string, d time.Duration) (float64, error) {
	conn, err := rawDial(addr, rawStream)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	buf := make([]byte, rawWrite)
	start, sent := time.Now(), uint64(0)
	for sent == 0 || time.Since(start) < d { // at least once, even if this process got no CPU time
		n, err := conn.Write(buf)
		sent += uint64(n)
		if err != nil {
			return 0, err
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var got uint64
	if err := binary.Read(conn, binary.BigEndian, &got); err != nil {
		return 0, err
	}
	if got != sent {
		return 0, errors.New("raw TCP lost data")
	}
	return float64(sent) / (1 << 20) / time.Since(start).Seconds(), nil
}

func rawPingPongTime(addr string, d time.Duration) (time.Duration, error) {
	conn, err := rawDial(addr, rawPingPong)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	buf := make([]byte, rawMessage)
	var h Histogram
	for start := time.Now(); h.N == 0 || time.Since(start) < d; {
		t := time.Now()
		if _, err := conn.Write(buf); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			return 0, err
		}
		h.Add(time.Since(t))
	}
	return h.Mean(), nil
}

func rawDial(addr string, kind byte) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{kind}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
