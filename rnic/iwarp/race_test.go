// Invariants with several goroutines at work.

package iwarp

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestInvalidateIsFinal: after Invalidate has returned nothing is placed, although the peer keeps
// writing (RFC 5040 §8.1.1 [R5040-209], RFC 5041 §8.3.1 [R5041-141]).
func TestInvalidateIsFinal(t *testing.T) {
	conformance.Proves(t, "R5040-209", "R5041-132", "R5041-141")
	for i := range 40 {
		cfg := rnic.DeviceConfig{CRC: rnic.CRCMode(i%2) * rnic.CRCOff} // read into the buffer, or directly
		a, b := joined(t, cfg, cfg, 64)
		mem := make([]byte, 64<<10)
		mr, _ := b.pd.RegMR(mem, rnic.RemoteWrite)
		ones := [][]byte{bytes.Repeat([]byte{1}, len(mem))}
		stag, to := mr.STag(), mr.Base()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 64 {
				a.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: ones, RemoteSTag: stag, RemoteTO: to, Unsignaled: true})
			}
		})
		for !begun(b.qp) {
		}
		mr.Invalidate()
		clear(mem)
		if err := mr.Rereg(nil, 0); err != nil || mr.STag() == stag {
			t.Fatal("Rereg has to change the key")
		}
		wg.Wait()
		a.qp.Close()
		b.qp.Close()
		if !bytes.Equal(mem, make([]byte, len(mem))) {
			t.Fatal("a byte was placed after Invalidate")
		}
	}
}

// begun reports whether the first FPDU has come.
func begun(qp *rnic.QP) bool {
	r := &streamOf(qp).rx
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in.Begun() || r.in.Stopped()
}

// TestManyPosters: work of many goroutines arrives whole, and completes once each.
func TestManyPosters(t *testing.T) {
	conformance.Proves(t, "R5040-122", "R5041-007")
	const posters, each = 8, 200
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, posters*each)
	for i := range posters * each {
		recv(t, b.qp, uint64(i), make([]byte, 2000))
	}
	var wg sync.WaitGroup
	for p := range posters {
		wg.Go(func() {
			for i := range each {
				msg := bytes.Repeat([]byte{byte(p)}, 1+i*9)
				if err := a.qp.PostSend(rnic.SendWR{ID: uint64(p), Op: rnic.OpSend, SGL: [][]byte{msg[:len(msg)/2], msg[len(msg)/2:]}}); err != nil {
					t.Errorf("PostSend: %v", err)
				}
			}
		})
	}
	wg.Wait()
	next := make([]int, posters)
	sum := 0
	for i := range posters * each {
		sum += int(b.want(t, rnic.OpRecv, uint64(i), rnic.WCSuccess).Len)
	}
	for range posters * each {
		ctx := t.Context()
		if err := a.cq.Wait(ctx); err != nil {
			t.Fatalf("Wait: %v", err)
		}
		var wc [1]rnic.WC
		a.cq.Poll(wc[:])
		if wc[0].Status != rnic.WCSuccess {
			t.Fatalf("%+v", wc[0])
		}
		next[wc[0].ID]++
	}
	if want := posters * (each + 9*each*(each-1)/2); sum != want {
		t.Fatalf("%d bytes came, want %d", sum, want)
	}
	for p, n := range next {
		if n != each {
			t.Fatalf("poster %d has %d completions", p, n)
		}
	}
}

// TestCork: a handler's posts leave in one system call, unless the handler takes long. In this test
// no time passes.
func TestCork(t *testing.T) {
	byPipe(t, func(k *piped) {
		tx := &streamOf(k.qp).tx
		counter := &countingLink{link: tx.link}
		tx.link = counter // only the handler posts
		k.cq.SetHandler(func() {
			var wc [1]rnic.WC
			for k.cq.Poll(wc[:]) > 0 {
				if wc[0].Op != rnic.OpRecv {
					continue
				}
				for range 10 {
					post(t, k.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("x")}, Unsignaled: true})
				}
			}
		})
		var msn uint32
		k.say(messages(&msn, 1))
		for range 10 {
			k.hearULPDU()
		}
		synctest.Wait()
		if counter.calls != 1 {
			t.Errorf("%d system calls for 10 posts, want 1", counter.calls)
		}
	})
}

// A countingLink counts writev calls that took something.
type countingLink struct {
	link
	calls int
}

func (l *countingLink) writev(pieces [][]byte, how core.WriteMode) (int, bool, error) {
	n, full, err := l.link.writev(pieces, how)
	if n > 0 {
		l.calls++
	}
	return n, full, err
}

// TestNoAllocs: a Send, a Write and a Read allocate nothing at either end.
func TestNoAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, cfg := range []rnic.DeviceConfig{{}, {CRC: rnic.CRCOff}, {Markers: true}} {
		noAllocs(t, cfg)
	}
}

func noAllocs(t *testing.T, cfg rnic.DeviceConfig) {
	t.Helper()
	a, b := joined(t, cfg, cfg, 16)
	mem := make([]byte, 128<<10)
	dst, _ := b.pd.RegMR(mem, rnic.RemoteWrite|rnic.RemoteRead)
	sink, _ := a.pd.RegMR(make([]byte, len(mem)), rnic.LocalWrite)
	sgl := [][]byte{make([]byte, len(mem))}
	msg := [][]byte{make([]byte, 200)}
	buf := make([]byte, 256)
	var wcs [4]rnic.WC
	await := func(s *side, n int) {
		for n > 0 {
			s.cq.Wait(t.Context())
			n -= s.cq.Poll(wcs[:])
		}
	}
	round := func() {
		b.qp.PostRecv(rnic.RecvWR{Buf: buf})
		a.qp.PostSend(
			rnic.SendWR{Op: rnic.OpWrite, SGL: sgl, RemoteSTag: dst.STag(), RemoteTO: dst.Base(), Unsignaled: true},
			rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: uint32(len(mem)), RemoteSTag: dst.STag(), RemoteTO: dst.Base()},
			rnic.SendWR{Op: rnic.OpSend, SGL: msg, Unsignaled: true})
		await(a, 1)
		await(b, 1)
	}
	for range 50 { // buffers grow to their size
		round()
	}
	if n := testing.AllocsPerRun(200, round); n >= 1 {
		t.Fatalf("%+v: %v allocations per round", cfg, n)
	}
}
