// The yardstick: what plain Go TCP does between two processes of this machine.

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
)

const (
	rawStream   = 'S' // the peer sends until it shuts down; we answer with the count
	rawPingPong = 'P' // every message of rawMessage octets comes back
	rawMessage  = 100
	rawWrite    = 1 << 20
)

// rawFigures is what raw TCP did.
type rawFigures struct {
	StreamMiBs float64       `json:"stream_mib_s"`
	PingPong   time.Duration `json:"ping_pong_ns"`
}

// newRawTCP is the other end of the measurement, a process of its own so that
// the two ends share no scheduler.
func newRawTCP() *cobra.Command {
	return &cobra.Command{
		Use: "_rawtcp", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.Addr())
			go func() { // ends with the parent, who holds our stdin
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				l.Close()
			}()
			for {
				conn, err := l.Accept()
				if err != nil {
					return nil
				}
				go rawServe(conn)
			}
		},
	}
}

func rawServe(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, rawWrite)
	if _, err := io.ReadFull(conn, buf[:1]); err != nil {
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

// measureRaw starts the child and measures both figures, each for d.
func measureRaw(ctx context.Context, d time.Duration) (f rawFigures, err error) {
	peer, err := startChild(ctx, "_rawtcp")
	if err != nil {
		return f, err
	}
	defer peer.stop()
	addr := peer.line
	if f.StreamMiBs, err = rawStreamRate(addr, d); err != nil {
		return f, err
	}
	f.PingPong, err = rawPingPongTime(addr, d)
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
	for time.Since(start) < d {
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
	var h histogram
	for start := time.Now(); time.Since(start) < d; {
		t := time.Now()
		if _, err := conn.Write(buf); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			return 0, err
		}
		h.add(time.Since(t))
	}
	return h.mean(), nil
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
