// The group of sockets: rnic/rconn beside TCP, both ends processes of this program.

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	roceprovider "github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A meeting is the line that the serving end writes: its address for each network, and its UDP port
// for RoCE.
type meeting struct {
	Addrs map[string]string
	Port  uint16
}

// Sizes in bytes: a ping, and a write or read of a stream.
const (
	pingSize   = 64
	streamSize = 1 << 20
)

// sockets runs "_sockets serve HOST", which serves until in ends, or "_sockets DURATION MEETING",
// which writes one figure for each kind of socket and test.
func sockets(args []string, in io.Reader, out io.Writer) error {
	if args[0] == "serve" {
		m, err := serveSockets(args[1])
		if err == nil {
			err = json.NewEncoder(out).Encode(m)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		return err
	}
	d, err := time.ParseDuration(args[0])
	var m meeting
	if err == nil {
		err = json.Unmarshal([]byte(args[1]), &m)
	}
	if err != nil {
		return err
	}
	figures, err := m.measure(d)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// serveSockets listens on host, once for each network.
func serveSockets(host string) (m meeting, err error) {
	port, release, err := machine.ReservePort() // nfsrdmad may have RoCE's default port
	if err != nil {
		return m, err
	}
	defer release()
	m = meeting{map[string]string{}, uint16(port)}
	for network, dev := range map[string]*rnic.Device{
		"tcp":             nil,
		iwarp.Name:        iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCAuto}), // the other end decides
		roceprovider.Name: roceprovider.OpenWith(rnic.DeviceConfig{}, roceprovider.Options{Port: m.Port}),
	} {
		var l net.Listener
		switch network {
		case "tcp":
			l, err = net.Listen(network, host+":0")
		case roceprovider.Name:
			l, err = rconn.Listen(network, host+":20049", &rconn.Config{Device: dev})
		default:
			l, err = rconn.Listen(network, host+":0", &rconn.Config{Device: dev})
		}
		if err != nil {
			return m, err
		}
		m.Addrs[network] = l.Addr().String()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go serveSocket(c)
			}
		}()
	}
	return m, nil
}

// serveSocket serves the test named by the first byte. For 's' it reads a stream to its end and
// writes the number of bytes. For 'p' it echoes pings.
func serveSocket(c net.Conn) {
	defer c.Close()
	p := make([]byte, streamSize)
	if _, err := io.ReadFull(c, p[:1]); err != nil {
		return
	}
	if p[0] == 's' {
		n, total := 0, uint64(0)
		for err := error(nil); err == nil; total += uint64(n) {
			n, err = c.Read(p)
		}
		_, _ = c.Write(binary.BigEndian.AppendUint64(nil, total))
		return
	}
	for p = p[:pingSize]; ; {
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		if _, err := c.Write(p); err != nil {
			return
		}
	}
}

// measure returns MiB/s under KIND/stream and µs under KIND/pingpong.
func (m meeting) measure(d time.Duration) (map[string]float64, error) {
	ctx := context.Background()
	over := func(dev *rnic.Device) func() (net.Conn, error) {
		network := dev.Caps().Provider
		return func() (net.Conn, error) {
			return rconn.Dial(ctx, network, m.Addrs[network], &rconn.Config{Device: dev})
		}
	}
	kinds := map[string]func() (net.Conn, error){
		"tcp":      func() (net.Conn, error) { return net.Dial("tcp", m.Addrs["tcp"]) },
		"iwarp":    over(iwarp.Open(rnic.DeviceConfig{})),
		"iwarpoff": over(iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCOff})),
		"roce":     over(roceprovider.OpenWith(rnic.DeviceConfig{}, roceprovider.Options{Port: m.Port})),
	}
	figures := map[string]float64{}
	for kind, dial := range kinds { // in random order
		for test, run := range map[string]func(net.Conn, time.Duration) (float64, error){"stream": streamFor, "pingpong": pingFor} {
			c, err := dial()
			if err != nil {
				return nil, err
			}
			figures[kind+"/"+test], err = run(c, d)
			if err = errors.Join(err, c.Close()); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", kind, test, err)
			}
		}
	}
	return figures, nil
}

// streamFor writes for d after a warm-up of d/5. It returns the rate in MiB/s, up to the time at
// which the peer has read all bytes.
func streamFor(c net.Conn, d time.Duration) (float64, error) {
	p := make([]byte, streamSize)
	if _, err := c.Write([]byte("s")); err != nil {
		return 0, err
	}
	start, total := time.Now(), 0
	for warm := true; warm || time.Since(start) < d; {
		if warm && time.Since(start) >= d/5 {
			warm, start, total = false, time.Now(), 0
		}
		if _, err := c.Write(p); err != nil {
			return 0, err
		}
		total += len(p)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, p[:8]); err != nil {
		return 0, err
	}
	return float64(total) / (1 << 20) / time.Since(start).Seconds(), nil
}

// pingFor returns the mean µs of a round trip.
func pingFor(c net.Conn, d time.Duration) (float64, error) {
	p := make([]byte, pingSize)
	if _, err := c.Write([]byte("p")); err != nil {
		return 0, err
	}
	start, trips := time.Now(), 0
	for warm := true; warm || time.Since(start) < d; trips++ {
		if warm && time.Since(start) >= d/5 {
			warm, start, trips = false, time.Now(), 0
		}
		if _, err := c.Write(p); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, p); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start).Microseconds()) / float64(trips), nil
}

// measureSockets samples each kind of socket once a round.
func (b *bed) measureSockets(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := b.serverCommand(self, "_sockets", "serve", b.host)
	cmd.Stderr = os.Stderr
	_, out, end, err := machine.Start(cmd)
	if err != nil {
		return err
	}
	defer end()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	return b.each(func() error {
		out, err := output(b.clientCommand(ctx, self, "_sockets", b.config.duration.String(), line))
		if err != nil {
			return err
		}
		return b.samples.addSockets(out)
	})
}

// addSockets adds the figures of one run of the client.
func (s samples) addSockets(out []byte) error {
	var figures map[string]float64
	err := json.Unmarshal(out, &figures)
	for k, v := range figures {
		s.add("sockets/"+k, v)
	}
	return err
}

var socketRows = []row{
	{"TCP stream", mib, "sockets/tcp/stream", "", "", 0, false},
	{"rconn stream, iWARP, CRC on", mib, "sockets/iwarp/stream", "sockets/tcp/stream", asPlain, 0.9, false},
	{"rconn stream, iWARP, CRC off", mib, "sockets/iwarpoff/stream", "sockets/tcp/stream", asPlain, 0.9, false},
	{"rconn stream, RoCE", mib, "sockets/roce/stream", "sockets/tcp/stream", asPlain, 0.9, false},
	{"TCP round trip of 64 bytes", "µs", "sockets/tcp/pingpong", "", "", 0, true},
	{"rconn round trip, iWARP, CRC on", "µs", "sockets/iwarp/pingpong", "sockets/tcp/pingpong", asPlain, 1, true},
	{"rconn round trip, iWARP, CRC off", "µs", "sockets/iwarpoff/pingpong", "sockets/tcp/pingpong", asPlain, 1, true},
	{"rconn round trip, RoCE", "µs", "sockets/roce/pingpong", "sockets/tcp/pingpong", asPlain, 1, true},
}
