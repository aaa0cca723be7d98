// Two QPs of ours over loopback TCP: every work request, in every mode.

package iwarp

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// A side is one end of a connection under test.
type side struct {
	dev *rnic.Device
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
}

func newSide(t testing.TB, cfg rnic.DeviceConfig, depth int) *side {
	t.Helper()
	return newSideCQ(t, cfg, depth, 2*depth)
}

// newSideCQ makes a side whose CQ has room for the given number of completions.
func newSideCQ(t testing.TB, cfg rnic.DeviceConfig, depth, completions int) *side {
	t.Helper()
	s := &side{dev: Open(cfg)}
	s.pd = s.dev.AllocPD()
	s.cq = s.dev.NewCQ(completions)
	var err error
	s.qp, err = s.pd.CreateQP(rnic.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SQDepth: depth, RQDepth: depth})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	t.Cleanup(func() { s.qp.Close() })
	return s
}

// joined returns two connected sides; a dialed.
func joined(t testing.TB, acfg, bcfg rnic.DeviceConfig, depth int) (a, b *side) {
	t.Helper()
	a, b = newSide(t, acfg, depth), newSide(t, bcfg, depth)
	join(t, a, b)
	return a, b
}

// join connects a to b.
func join(t testing.TB, a, b *side) {
	t.Helper()
	joinWith(t, a, b, rnic.ConnParams{PrivateData: []byte("from a"), Provider: ConnOptions{Settle: -1}})
}

// joinWith connects a to b, with p as a's parameters.
func joinWith(t testing.TB, a, b *side, p rnic.ConnParams) {
	t.Helper()
	l, err := b.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil {
			err = r.Accept(b.qp, rnic.ConnParams{PrivateData: []byte("from b")})
		}
		ended <- err
	}()
	err = a.dev.Connect(t.Context(), a.qp, l.Addr().String(), p)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// want waits for the next completion, and requires opcode, id and status.
func (s *side) want(t testing.TB, op rnic.Opcode, id uint64, st rnic.Status) rnic.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wc [1]rnic.WC
	for s.cq.Poll(wc[:]) == 0 {
		if err := s.cq.Wait(ctx); err != nil {
			t.Fatalf("waiting for opcode %d id %d: %v (QP: %v)", op, id, err, s.qp.Err())
		}
	}
	if wc[0].Op != op || wc[0].ID != id {
		t.Fatalf("completion %+v, want opcode %d id %d (QP: %v)", wc[0], op, id, s.qp.Err())
	}
	if wc[0].Status != st {
		t.Fatalf("completion %+v, want opcode %d id %d status %d (QP: %v)", wc[0], op, id, st, s.qp.Err())
	}
	return wc[0]
}

func post(t testing.TB, qp *rnic.QP, wrs ...rnic.SendWR) {
	t.Helper()
	if err := qp.PostSend(wrs...); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
}

func recv(t testing.TB, qp *rnic.QP, id uint64, buf []byte) {
	t.Helper()
	if err := qp.PostRecv(rnic.RecvWR{ID: id, Buf: buf}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestModes(t *testing.T) {
	conformance.Proves(t, "R5040-009", "R5040-011", "R5040-016", "R5040-018", "R5040-021", "R5040-089", "R5040-096", "R5040-107",
		"R5040-114", "R5040-130", "R5040-131", "R5040-134", "R5040-155", "R5040-156", "R5040-244", "R5041-002", "R5041-007",
		"R5041-020", "R5041-021", "R5041-056", "R5041-057", "R5041-062", "R5041-075", "R5041-076", "R5044-053", "R5044-089",
		"R5044-102", "R8166-009", "R8166-011", "R8797-001")
	for _, crc := range []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff} {
		for _, marks := range []bool{false, true} {
			t.Run(fmt.Sprintf("crc=%d markers=%v", crc, marks), func(t *testing.T) {
				cfg := rnic.DeviceConfig{CRC: crc, Markers: marks}
				a, b := joined(t, cfg, cfg, 64)
				transfers(t, a, b)
				transfers(t, b, a)
				if string(a.qp.PrivateData()) != "from b" || string(b.qp.PrivateData()) != "from a" {
					t.Fatal("private data")
				}
			})
		}
	}
}

// transfers makes a do each kind of work request with several sizes toward b.
func transfers(t *testing.T, a, b *side) {
	t.Helper()
	for _, n := range []int{0, 1, 3, 192, 193, 4096, 65000, 1 << 20, 3<<20 + 1} {
		data, mem := noise(n), make([]byte, n+8)
		recv(t, b.qp, 1, mem[:n])
		post(t, a.qp, rnic.SendWR{ID: 2, Op: rnic.OpSendSE, SGL: [][]byte{data[:n/3], nil, data[n/3:]}})
		// The first message opens the gate of a responder: let a speak first.
		wc := b.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
		a.want(t, rnic.OpSendSE, 2, rnic.WCSuccess)
		if int(wc.Len) != n || !wc.Solicited {
			t.Fatalf("Send of %d bytes: completion of %d, solicited %v", n, wc.Len, wc.Solicited)
		}
		if !bytes.Equal(mem[:n], data) {
			t.Fatalf("Send of %d bytes: other bytes have arrived", n)
		}
		clear(mem)
		mr, err := b.pd.RegMR(mem, rnic.RemoteWrite|rnic.RemoteRead)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		recv(t, b.qp, 3, nil)
		post(t, a.qp, rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 8},
			rnic.SendWR{ID: 5, Op: rnic.OpSend, Unsignaled: true})
		a.want(t, rnic.OpWrite, 4, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, 3, rnic.WCSuccess)
		if !bytes.Equal(mem[8:], data) {
			t.Fatalf("Write of %d bytes", n)
		}
		back := make([]byte, n+3)
		sink, err := a.pd.RegMR(back, rnic.LocalWrite)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		recv(t, b.qp, 7, nil)
		post(t, a.qp, rnic.SendWR{ID: 6, Op: rnic.OpReadInvalidate, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 8,
			MR: sink, Offset: 3, Length: uint32(n)},
			rnic.SendWR{ID: 8, Op: rnic.OpSendInvalidate, Invalidate: mr.STag(), Fence: true})
		a.want(t, rnic.OpReadInvalidate, 6, rnic.WCSuccess)
		a.want(t, rnic.OpSendInvalidate, 8, rnic.WCSuccess)
		if !bytes.Equal(back[3:], data) {
			t.Fatalf("Read of %d bytes", n)
		}
		if wc := b.want(t, rnic.OpRecv, 7, rnic.WCSuccess); wc.Invalidated != mr.STag() {
			t.Fatalf("the Send has invalidated %#x, want %#x", wc.Invalidated, mr.STag())
		}
		if mr.Valid() || sink.Valid() {
			t.Fatalf("valid after invalidation: the source %v, the sink %v", mr.Valid(), sink.Valid())
		}
		mr.Dereg()
		sink.Dereg()
	}
}
