// Heavy traffic in both directions, through full windows, ended at any moment.

package iwarp

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// TestBothServe: two peers that constantly read and write each other's memory through small windows
// do not block each other, and every byte is right (RFC 5040 §6.1 [R5040-173], RFC 5040 §5.5).
func TestBothServe(t *testing.T) {
	for _, cfg := range []rnic.DeviceConfig{{}, {CRC: rnic.CRCOff}, {Markers: true}, {CRC: rnic.CRCOff, MaxIRD: 1, MaxORD: 1}} {
		t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
			t.Parallel()
			a, b := joined(t, cfg, cfg, 256)
			for _, s := range []*side{a, b} {
				streamOf(s.qp).link.(*tcpLink).c.SetReadBuffer(256 << 10)
				streamOf(s.qp).link.(*tcpLink).c.SetWriteBuffer(256 << 10)
			}
			recv(t, b.qp, 99, nil)
			post(t, a.qp, rnic.SendWR{Op: rnic.OpSend, Unsignaled: true}) // opens the gate
			b.want(t, rnic.OpRecv, 99, rnic.WCSuccess)
			var wg sync.WaitGroup
			for _, p := range [][2]*side{{a, b}, {b, a}} {
				wg.Go(func() { exchange(t, p[0], p[1]) })
			}
			wg.Wait()
		})
	}
}

// exchange makes a read and write large pieces of b's memory, several at once.
func exchange(t *testing.T, a, b *side) {
	const n, each = 300_000, 12
	src := noise(n)
	from, _ := b.pd.RegMR(src, rnic.RemoteRead)
	back := make([]byte, each*n)
	sink, _ := a.pd.RegMR(back, rnic.LocalWrite)
	to, _ := b.pd.RegMR(make([]byte, n), rnic.RemoteWrite)
	for i := range uint64(each) {
		err := a.qp.PostSend(rnic.SendWR{ID: i, Op: rnic.OpRead, MR: sink, Offset: i * n, Length: n, RemoteSTag: from.STag(), RemoteTO: from.Base()},
			rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{src[:n/2], src[n/2:]}, RemoteSTag: to.STag(), RemoteTO: to.Base(), Unsignaled: true})
		if err != nil {
			t.Error(err)
			return
		}
	}
	for i := range uint64(each) {
		var wc [1]rnic.WC
		for a.cq.Poll(wc[:]) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err := a.cq.Wait(ctx)
			cancel()
			if err != nil {
				t.Errorf("stuck at Read %d: %v, %v", i, a.qp.Err(), b.qp.Err())
				return
			}
		}
		if wc[0].ID != i || wc[0].Status != rnic.WCSuccess {
			t.Errorf("Read %d: completion %+v", i, wc[0])
			return
		}
		if !bytes.Equal(back[i*n:][:n], src) {
			t.Errorf("Read %d has got other bytes", i)
			return
		}
	}
}

// TestEndAnyTime: each way to end a QP returns, on either side, at any moment of heavy traffic with
// regions that come and go. Every posted request completes once.
func TestEndAnyTime(t *testing.T) {
	for i := range 60 {
		cfg := rnic.DeviceConfig{CRC: rnic.CRCMode(i%2) * rnic.CRCOff, Markers: i%4 == 2}
		a, b := joined(t, cfg, cfg, 64)
		var wg sync.WaitGroup
		for _, p := range [][2]*side{{a, b}, {b, a}} {
			wg.Go(func() { churn(t, p[0], p[1]) })
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		switch i % 5 {
		case 0:
			a.qp.Close()
		case 1:
			b.qp.Abort(rnic.ErrClosed)
		case 2:
			streamOf(a.qp).fail(term.New(term.DDPMSNRange, ""))
		case 3:
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			b.qp.Disconnect(ctx)
			cancel()
		case 4:
			streamOf(a.qp).link.conn().Close()
		}
		wg.Wait()
		a.qp.Close()
		b.qp.Close()
	}
}

// churn posts work until the QP refuses it, and checks that all of it completes.
func churn(t *testing.T, a, b *side) {
	src := make([]byte, 100_000)
	to, _ := b.pd.RegMR(make([]byte, len(src)), rnic.RemoteWrite)
	from, _ := b.pd.RegMR(make([]byte, len(src)), rnic.RemoteRead)
	sink, _ := a.pd.RegMR(make([]byte, len(src)), rnic.LocalWrite)
	posted, home := 0, 0
	var wcs [16]rnic.WC
	for n := 0; ; n++ {
		wr := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{src}, RemoteSTag: to.STag(), RemoteTO: to.Base()}
		if n%3 == 0 {
			wr = rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: uint32(len(src)), RemoteSTag: from.STag(), RemoteTO: from.Base()}
		}
		err := a.qp.PostSend(wr)
		switch err {
		case nil:
			posted++
		case rnic.ErrSQFull:
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := a.cq.Wait(ctx); err != nil {
				t.Errorf("%d posted, %d home, QP %v %v", posted, home, a.qp.State(), a.qp.Err())
			}
			cancel()
		default:
			<-a.qp.Done()
			for k := a.cq.Poll(wcs[:]); k > 0; k = a.cq.Poll(wcs[:]) {
				home += k
			}
			if home != posted {
				t.Errorf("%d posted, %d home", posted, home)
			}
			to.Dereg()
			from.Dereg()
			sink.Dereg()
			return
		}
		home += a.cq.Poll(wcs[:])
	}
}
