// Benchmarks, each beside raw TCP in the same process. Machines differ, so compare the ratios.

package iwarp

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// pipeTCP returns both ends of a loopback connection.
func pipeTCP(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

func crcModes(b *testing.B, f func(b *testing.B, cfg rnic.DeviceConfig)) {
	b.Run("crc", func(b *testing.B) { f(b, rnic.DeviceConfig{CRC: rnic.CRCOn}) })
	b.Run("nocrc", func(b *testing.B) { f(b, rnic.DeviceConfig{CRC: rnic.CRCOff}) })
}

// rawPingPong returns the time for n round trips of 64 bytes over TCP.
func rawPingPong(b testing.TB, n int) time.Duration {
	c, d := pipeTCP(b)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := io.ReadFull(d, buf); err != nil {
				return
			}
			d.Write(buf)
		}
	}()
	buf := make([]byte, 64)
	start := time.Now()
	for range n {
		c.Write(buf)
		io.ReadFull(c, buf)
	}
	return time.Since(start)
}

// BenchmarkPingPong answers each message in the CQ handler, on the goroutine that received it, as
// the raw loops do.
func BenchmarkPingPong(b *testing.B) {
	crcModes(b, func(b *testing.B, cfg rnic.DeviceConfig) {
		x, y := joined(b, cfg, cfg, 16)
		left, done := b.N, make(chan struct{})
		y.cq.SetHandler(y.bouncer(b, func() bool { return true }))
		x.cq.SetHandler(x.bouncer(b, func() bool {
			if left--; left == 0 {
				close(done)
			}
			return left > 0
		}))
		b.ReportAllocs()
		b.ResetTimer()
		post(b, x.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 64)}, Unsignaled: true})
		<-done
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed())/float64(rawPingPong(b, b.N)), "x-raw-time")
	})
}

// BenchmarkPingPongCall measures a goroutine that posts, then waits until the handler passes it the
// answer.
func BenchmarkPingPongCall(b *testing.B) {
	crcModes(b, func(b *testing.B, cfg rnic.DeviceConfig) {
		x, y := joined(b, cfg, cfg, 16)
		done := make(chan struct{}, 8)
		y.cq.SetHandler(y.bouncer(b, func() bool { return true }))
		x.cq.SetHandler(x.bouncer(b, func() bool { done <- struct{}{}; return false }))
		msg := [][]byte{make([]byte, 64)}
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			x.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: msg, Unsignaled: true})
			<-done
		}
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed())/float64(rawPingPong(b, b.N)), "x-raw-time")
	})
}

// bouncer posts receives and returns a handler that posts them again, and answers each message with
// one of the same size if answer returns true.
func (s *side) bouncer(b testing.TB, answer func() bool) func() {
	wcs := make([]rnic.WC, 8)
	bufs := make([]byte, 8*64)
	msg := [][]byte{make([]byte, 64)}
	for i := range 8 {
		recv(b, s.qp, uint64(i), bufs[i*64:][:64])
	}
	return func() {
		for n := s.cq.Poll(wcs); n > 0; n = s.cq.Poll(wcs) {
			for _, wc := range wcs[:n] {
				if wc.Status != rnic.WCSuccess {
					return
				}
				s.qp.PostRecv(rnic.RecvWR{ID: wc.ID, Buf: bufs[wc.ID*64:][:64]})
				if answer() {
					s.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: msg, Unsignaled: true})
				}
			}
		}
	}
}

// rawStream returns the time for n MiB over TCP.
func rawStream(b testing.TB, n int) time.Duration {
	c, d := pipeTCP(b)
	buf, sink := make([]byte, 1<<20), make([]byte, 1<<20)
	start := time.Now()
	go func() {
		for range n {
			c.Write(buf)
		}
	}()
	for range n {
		io.ReadFull(d, sink)
	}
	return time.Since(start)
}

const mib = 1 << 20

func BenchmarkWrite1M(b *testing.B) {
	crcModes(b, func(b *testing.B, cfg rnic.DeviceConfig) {
		x, y := joined(b, cfg, cfg, 8)
		mr, _ := y.pd.RegMR(make([]byte, mib), rnic.RemoteWrite)
		sgl := [][]byte{make([]byte, mib)}
		bulk(b, x, y, rnic.SendWR{Op: rnic.OpWrite, SGL: sgl, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	})
}

func BenchmarkRead1M(b *testing.B) {
	crcModes(b, func(b *testing.B, cfg rnic.DeviceConfig) {
		x, y := joined(b, cfg, cfg, 8)
		mr, _ := y.pd.RegMR(make([]byte, mib), rnic.RemoteRead)
		sink, _ := x.pd.RegMR(make([]byte, mib), rnic.LocalWrite)
		bulk(b, x, y, rnic.SendWR{Op: rnic.OpRead, RemoteSTag: mr.STag(), RemoteTO: mr.Base(), MR: sink, Length: mib})
	})
}

// bulk keeps four of wr in flight, and ends with an empty Read: its completion shows that the peer
// has placed all Writes.
func bulk(b *testing.B, x, y *side, wr rnic.SendWR) {
	slots := make(chan struct{}, 4)
	wcs := make([]rnic.WC, 16)
	x.cq.SetHandler(func() {
		for n := x.cq.Poll(wcs); n > 0; n = x.cq.Poll(wcs) {
			for range n {
				<-slots
			}
		}
	})
	end, _ := x.pd.RegMR(nil, rnic.LocalWrite)
	b.SetBytes(mib)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		slots <- struct{}{}
		if err := x.qp.PostSend(wr); err != nil {
			b.Fatal(err)
		}
	}
	slots <- struct{}{}
	x.qp.PostSend(rnic.SendWR{Op: rnic.OpRead, MR: end, RemoteSTag: 1})
	for range cap(slots) {
		slots <- struct{}{}
	}
	b.StopTimer()
	b.ReportMetric(float64(rawStream(b, b.N))/float64(b.Elapsed()), "x-raw-speed")
}

// BenchmarkCallers measures 32 goroutines that each post a small Send and wait for its answer, as
// RPC clients do. The figure is for one call.
func BenchmarkCallers(b *testing.B) {
	const callers = 32
	x, y := joined(b, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 2*callers)
	echo(b, y, callers)
	answered := make([]chan struct{}, callers)
	for i := range answered {
		answered[i] = make(chan struct{}, 1)
	}
	bufs := make([]byte, callers*128)
	for i := range callers {
		recv(b, x.qp, uint64(i), bufs[i*128:][:128])
	}
	wcs := make([]rnic.WC, callers)
	x.cq.SetHandler(func() {
		for n := x.cq.Poll(wcs); n > 0; n = x.cq.Poll(wcs) {
			for _, wc := range wcs[:n] {
				if wc.Status != rnic.WCSuccess {
					return
				}
				who := bufs[wc.ID*128]
				x.qp.PostRecv(rnic.RecvWR{ID: wc.ID, Buf: bufs[wc.ID*128:][:128]})
				answered[who] <- struct{}{}
			}
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Go(func() {
			msg := make([]byte, 128)
			msg[0] = byte(i)
			sgl := [][]byte{msg}
			for range n {
				x.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: sgl, Unsignaled: true})
				<-answered[i]
			}
		})
	}
	wg.Wait()
}

// echo makes s answer each Send with the same bytes, from its handler.
func echo(b testing.TB, s *side, n int) {
	bufs := make([]byte, 2*n*128)
	sgls := make([][][]byte, n)
	for i := range n {
		recv(b, s.qp, uint64(i), bufs[i*128:][:128])
		sgls[i] = [][]byte{bufs[(n+i)*128:][:128]}
	}
	wcs := make([]rnic.WC, n)
	s.cq.SetHandler(func() {
		for k := s.cq.Poll(wcs); k > 0; k = s.cq.Poll(wcs) {
			for _, wc := range wcs[:k] {
				if wc.Status != rnic.WCSuccess {
					return
				}
				buf := bufs[wc.ID*128:][:128]
				copy(sgls[wc.ID][0], buf)
				s.qp.PostRecv(rnic.RecvWR{ID: wc.ID, Buf: buf})
				s.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: sgls[wc.ID], Unsignaled: true})
			}
		}
	})
}
