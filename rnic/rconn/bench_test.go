// Benchmarks, each beside TCP in the same process. Machines differ, so compare the ratios.

package rconn

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// variants are the compared connections.
var variants = []struct {
	name, network string
	cfg           rnic.DeviceConfig
}{
	{"iwarp", iwarp.Name, rnic.DeviceConfig{}},
	{"iwarp-nocrc", iwarp.Name, rnic.DeviceConfig{CRC: rnic.CRCOff}},
	{"roce", roce.Name, rnic.DeviceConfig{}},
}

// benchPair returns both ends of a connection with a device configuration.
func benchPair(b *testing.B, network string, dc rnic.DeviceConfig) (x, y *Conn) {
	dev, addr := device(b, network, dc)
	cfg := &Config{Device: dev}
	l, err := Listen(network, addr, cfg)
	must.Succeed(b, err)
	b.Cleanup(func() { l.Close() })
	return join(b, l, cfg)
}

// pipeTCP returns both ends of a TCP connection.
func pipeTCP(b testing.TB) (x, y net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(b, err)
	defer l.Close()
	x, err = net.Dial("tcp", l.Addr().String())
	must.Succeed(b, err)
	y, err = l.Accept()
	must.Succeed(b, err)
	b.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

// bounce answers each 64 bytes, until the connection ends.
func bounce(c net.Conn) {
	buf := make([]byte, 64)
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		if _, err := c.Write(buf); err != nil {
			return
		}
	}
}

// pingPong returns a function that makes n round trips of 64 bytes.
func pingPong(b *testing.B, x, y net.Conn) func(n int) {
	go bounce(y)
	buf := make([]byte, 64)
	return func(n int) {
		for range n {
			_, err := x.Write(buf)
			must.Succeed(b, err)
			_, err = io.ReadFull(x, buf)
			must.Succeed(b, err)
		}
	}
}

// stream returns a function that makes n writes of 1 MiB, and reads them at the other end.
func stream(b *testing.B, x, y net.Conn) func(n int) {
	const size = 1 << 20
	buf, sink := make([]byte, size), make([]byte, size)
	return func(n int) {
		go func() {
			for range n {
				if _, err := x.Write(buf); err != nil {
					return
				}
			}
		}()
		for range n {
			_, err := io.ReadFull(y, sink)
			must.Succeed(b, err)
		}
	}
}

// compare runs ours and tcp in turns, each n times in all, and returns the median time of one run
// of each. Other programs on the machine then disturb both alike.
func compare(b *testing.B, ours, tcp func(n int), n, turn int) (o, t time.Duration) {
	ours(turn) // to the steady state
	tcp(turn)
	b.ReportAllocs()
	b.ResetTimer()
	var times [2][]time.Duration
	for ; n > 0; n -= turn {
		for i, f := range []func(int){ours, tcp} {
			start := time.Now()
			f(turn)
			times[i] = append(times[i], time.Since(start))
		}
	}
	b.StopTimer()
	for _, list := range times {
		slices.Sort(list)
	}
	return times[0][len(times[0])/2] / time.Duration(turn), times[1][len(times[1])/2] / time.Duration(turn)
}

// BenchmarkPingPong measures a round trip of 64 bytes. x-tcp-time is our time divided by TCP's.
func BenchmarkPingPong(b *testing.B) {
	for _, v := range variants {
		b.Run(v.name, func(b *testing.B) {
			x, y := benchPair(b, v.network, v.cfg)
			p, q := pipeTCP(b)
			ours, tcp := compare(b, pingPong(b, x, y), pingPong(b, p, q), b.N, 500)
			b.ReportMetric(float64(ours), "ns/trip")
			b.ReportMetric(float64(ours)/float64(tcp), "x-tcp-time")
		})
	}
}

// BenchmarkStream writes 1 MiB at a time. x-tcp-speed is our rate divided by TCP's.
func BenchmarkStream(b *testing.B) {
	for _, v := range variants {
		b.Run(v.name, func(b *testing.B) {
			x, y := benchPair(b, v.network, v.cfg)
			p, q := pipeTCP(b)
			ours, tcp := compare(b, stream(b, x, y), stream(b, p, q), b.N, 50)
			b.ReportMetric((1<<20)/ours.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(tcp)/float64(ours), "x-tcp-speed")
		})
	}
}
