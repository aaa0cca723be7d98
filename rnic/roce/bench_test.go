// RC's cost compared with plain UDP with equal packet and batch sizes.

package roce

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// BenchmarkPlainUDP moves 1 MiB in 4 KiB packets between two sockets, in batches of 64, with a
// one-byte answer after each 64.
func BenchmarkPlainUDP(b *testing.B) {
	at, to := hosts(b)
	x, y := plainUDP(b, at), plainUDP(b, to)
	done := make(chan struct{})
	const size = 4096 + 28
	go func() {
		defer close(done)
		n, one := 0, make([]byte, 1)
		for {
			k, err := y.receive()
			if err != nil {
				return
			}
			for n += k; n >= 64; n -= 64 {
				y.conn.WriteToUDPAddrPort(one, x.addr)
			}
		}
	}()
	b.SetBytes(1 << 20)
	out := 0
	for b.Loop() {
		// Two windows of 64 are in flight, like RC's 128 packets.
		for left := 4; left > 0; left-- {
			for out >= 2 {
				out -= x.receive1()
			}
			x.send(y.addr, 64, size)
			out++
		}
	}
	y.conn.Close()
	<-done
}

// BenchmarkPlainUDPPingPong measures a 64-byte packet's round-trip time.
func BenchmarkPlainUDPPingPong(b *testing.B) {
	at, to := hosts(b)
	x, y := plainUDP(b, at), plainUDP(b, to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := y.receive(); err != nil {
				return
			}
			y.send(x.addr, 1, 64)
		}
	}()
	for b.Loop() {
		x.send(y.addr, 1, 64)
		x.receive1()
	}
	y.conn.Close()
	<-done
}

func BenchmarkWrite(b *testing.B) {
	x, y := pair(b, rnic.RC, Options{}, 4096)
	mr, _ := y.region(1<<20, rnic.RemoteWrite)
	data := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	wr := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}
	streamOf(b, x, wr)
}

func BenchmarkRead(b *testing.B) {
	x, y := pair(b, rnic.RC, Options{}, 4096)
	mr, _ := y.region(1<<20, rnic.RemoteRead)
	sink, _ := x.region(1<<20, rnic.LocalWrite)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	streamOf(b, x, rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 1 << 20, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
}

// streamOf keeps two copies of a work request posted.
func streamOf(b *testing.B, x *side, wr rnic.SendWR) {
	x.post(wr)
	for b.Loop() {
		x.post(wr)
		x.good(1)
	}
	x.good(1)
}

func BenchmarkPingPong(b *testing.B)         { pingPong(b, rnic.RC, 0) }
func BenchmarkDatagramPingPong(b *testing.B) { pingPong(b, rnic.UD, 40) }

// pingPong makes each side answer in its handler. So no answer wakes another goroutine, as in
// BenchmarkPlainUDPPingPong.
func pingPong(b *testing.B, service rnic.Service, grh int) {
	x, y := pair(b, service, Options{}, 4096)
	done := make(chan struct{})
	left := b.N
	answers := func(s, to *side, first bool) {
		room := make([]byte, 64+grh)
		wr := rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 64)}, Unsignaled: true,
			AH: &rnic.AddressHandle{Addr: to.id.Addr, QPN: to.id.QPN, QKey: testQKey}}
		s.recv(0, len(room))
		s.cq.SetHandler(func() {
			var wcs [8]rnic.WC
			for n := s.cq.Poll(wcs[:]); n > 0; n = s.cq.Poll(wcs[:]) {
				for i := range wcs[:n] {
					if wcs[i].Op != rnic.OpRecv || wcs[i].Status != rnic.WCSuccess {
						continue
					}
					if first {
						left--
					}
					if first && left <= 0 {
						close(done)
						return
					}
					s.qp.PostRecv(rnic.RecvWR{Buf: room})
					s.qp.PostSend(wr)
				}
			}
		})
		if first {
			s.post(wr)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	answers(y, x, false)
	answers(x, y, true)
	<-done
}
