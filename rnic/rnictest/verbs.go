// The promises of every provider to programs, independent of its wire protocol: one suite, run by
// each provider's tests.

package rnictest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// Verbs tests a provider through its verbs alone.
func Verbs(t *testing.T, b Bed) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Bed)
	}{
		{"Operations", testOperations}, {"Invalidations", testInvalidations}, {"PrivateData", testPrivateData}, {"Reject", testReject},
		{"Limits", testLimits}, {"Unsignaled", testUnsignaled}, {"Disconnect", testDisconnect}, {"Flush", testFlush}, {"CloseIdle", testCloseIdle},
		{"Refused", testRefused}, {"NoRoom", testNoRoom}, {"Overrun", testOverrun},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, b) })
	}
}

// Sends, Writes and Reads of all sizes, including zero, from payload in pieces, complete in order
// with all of their bytes in place.
func testOperations(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	for i, n := range []int{0, 1, 3, 1000, 4096, 70_001} {
		data := filled(n, i)
		got := z.recv(9, n)
		dst, in := z.region(n+1, rnic.RemoteWrite)
		src := z.register(append(bytes.Clone(data), 0), rnic.RemoteRead)
		sink, read := a.region(n+1, rnic.LocalWrite)
		sgl := [][]byte{data[:n/3], nil, data[n/3:]}
		a.post(rnic.SendWR{ID: 1, Op: rnic.OpWrite, SGL: sgl, RemoteSTag: dst.STag(), RemoteTO: dst.Base()},
			rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: sink, Length: uint32(n), RemoteSTag: src.STag(), RemoteTO: src.Base()},
			rnic.SendWR{ID: 3, Op: rnic.OpSendSE, SGL: sgl, Fence: true})
		wc := z.want(9, rnic.OpRecv, rnic.WCSuccess)
		if int(wc.Len) != n || !wc.Solicited || !bytes.Equal(got, data) || !bytes.Equal(in[:n], data) || in[n] != 0 {
			t.Errorf("%d bytes: %+v", n, wc)
		}
		a.want(1, rnic.OpWrite, rnic.WCSuccess)
		a.want(2, rnic.OpRead, rnic.WCSuccess)
		a.want(3, rnic.OpSendSE, rnic.WCSuccess)
		if !bytes.Equal(read[:n], data) || read[n] != 0 {
			t.Errorf("%d bytes: others were read", n)
		}
	}
}

// An STag invalidated by its owner, or by the peer with a Send, is no longer usable by the peer.
func testInvalidations(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	own, _ := z.region(8, rnic.RemoteWrite)
	stag := own.STag()
	z.recv(1, 8)
	a.post(rnic.SendWR{ID: 2, Op: rnic.OpSendInvalidate, SGL: [][]byte{filled(8, 1)}, Invalidate: stag})
	if wc := z.want(1, rnic.OpRecv, rnic.WCSuccess); wc.Invalidated != stag || own.Valid() {
		t.Errorf("%+v; the region is valid: %v", wc, own.Valid())
	}
	a.want(2, rnic.OpSendInvalidate, rnic.WCSuccess)
	local, memory := z.region(8, rnic.RemoteWrite)
	stag = local.STag()
	z.post(rnic.SendWR{ID: 3, Op: rnic.OpLocalInvalidate, MR: local})
	z.want(3, rnic.OpLocalInvalidate, rnic.WCSuccess)
	a.post(rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{filled(8, 1)}, RemoteSTag: stag, RemoteTO: local.Base()})
	if z.ended() == nil || a.ended() == nil || !bytes.Equal(memory, make([]byte, 8)) {
		t.Errorf("%v, %v; %v was written", z.qp.Err(), a.qp.Err(), memory)
	}
}

// Each side sees the other's connection parameters.
func testPrivateData(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	if !bytes.HasPrefix(a.qp.PrivateData(), []byte("passive")) || !bytes.HasPrefix(z.qp.PrivateData(), []byte("active")) {
		t.Errorf("%q, %q", a.qp.PrivateData(), z.qp.PrivateData())
	}
	if a.qp.LocalAddr() == nil || a.qp.RemoteAddr() == nil || z.qp.RemoteAddr().String() != a.qp.LocalAddr().String() {
		t.Errorf("%v to %v, which sees %v", a.qp.LocalAddr(), a.qp.RemoteAddr(), z.qp.RemoteAddr())
	}
	if a.qp.State() != rnic.StateRTS || a.qp.ORD() == 0 || z.qp.IRD() < 1 {
		t.Errorf("%v, ORD %d, IRD %d", a.qp.State(), a.qp.ORD(), z.qp.IRD())
	}
}

// A refused peer gets the refusal's data, and may try again with the same QP.
func testReject(t *testing.T, b Bed) {
	dev, l := b.listen(t)
	a := newEnd(t, dev, 64)
	for range 2 {
		refused := make(chan error, 1)
		go func() {
			req, err := l.Accept(t.Context())
			if err == nil {
				err = req.Reject([]byte("no"))
			}
			refused <- err
		}()
		err := dev.Connect(t.Context(), a.qp, l.Addr().String(), rnic.ConnParams{})
		var r *rnic.RejectError
		if !errors.As(err, &r) || !bytes.HasPrefix(r.PrivateData, []byte("no")) {
			t.Fatalf("Connect: %v, want a refusal with private data", err)
		}
		if a.qp.State() != rnic.StateIdle {
			t.Fatalf("a refused QP is %v, want %v", a.qp.State(), rnic.StateIdle)
		}
		if err := <-refused; err != nil {
			t.Fatalf("Reject: %v", err)
		}
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpSend}); err != rnic.ErrState {
		t.Errorf("a Send without a connection: %v", err)
	}
	l.Close()
	if _, err := l.Accept(t.Context()); !errors.Is(err, rnic.ErrClosed) {
		t.Errorf("Accept: %v, want %v", err, rnic.ErrClosed)
	}
}

// Queues hold their depth, and refuse a post beyond it completely.
func testLimits(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	if err := a.qp.PostSend(make([]rnic.SendWR, bedDepth+1)...); err != rnic.ErrSQFull {
		t.Errorf("PostSend: %v, want %v", err, rnic.ErrSQFull)
	}
	if err := z.qp.PostRecv(make([]rnic.RecvWR, bedDepth+1)...); err != rnic.ErrRQFull {
		t.Errorf("PostRecv: %v, want %v", err, rnic.ErrRQFull)
	}
	for i := range bedDepth {
		z.recv(uint64(i), 10)
	}
	if err := z.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 10)}); err != rnic.ErrRQFull {
		t.Errorf("PostRecv: %v, want %v", err, rnic.ErrRQFull)
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpRead, Length: 1}); err == nil {
		t.Error("a Read without a sink")
	}
	for i := range bedDepth {
		a.post(rnic.SendWR{ID: uint64(i), Op: rnic.OpSend, SGL: [][]byte{filled(10, i)}})
	}
	for i := range uint64(bedDepth) {
		z.want(i, rnic.OpRecv, rnic.WCSuccess)
		a.want(i, rnic.OpSend, rnic.WCSuccess)
	}
}

// Unsignaled work has no completion, and its place in the queue is freed all the same.
func testUnsignaled(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	for i := range uint64(3 * bedDepth) {
		z.recv(i, 1)
		a.post(rnic.SendWR{ID: 99, Op: rnic.OpWrite, Unsignaled: true}, rnic.SendWR{ID: i, Op: rnic.OpSend, SGL: [][]byte{{1}}})
		z.want(i, rnic.OpRecv, rnic.WCSuccess)
		a.want(i, rnic.OpSend, rnic.WCSuccess)
	}
}

// Disconnect sends the posted work before it ends the connection; neither side then has an error
// other than the end of the stream.
func testDisconnect(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	got := z.recv(1, 100_000)
	a.post(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{filled(100_000, 5)}})
	if err := a.qp.Disconnect(t.Context()); err != nil {
		t.Errorf("Disconnect: %v", err)
	}
	a.want(2, rnic.OpSend, rnic.WCSuccess)
	z.want(1, rnic.OpRecv, rnic.WCSuccess)
	if !bytes.Equal(got, filled(100_000, 5)) {
		t.Error("other bytes came")
	}
	if err := z.ended(); err != io.EOF {
		t.Errorf("ended: %v, want %v", err, io.EOF)
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpSend}); err != rnic.ErrState {
		t.Errorf("PostSend: %v, want %v", err, rnic.ErrState)
	}
}

// When the QP is aborted, all posted work completes as flushed, sends and receives each in order;
// the first cause stays.
func testFlush(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	for i := range uint64(bedDepth) {
		a.recv(i, 10)
	}
	why := errors.New("enough")
	a.qp.Abort(why)
	a.qp.Abort(errors.New("another cause"))
	if err := a.ended(); err != why {
		t.Errorf("ended: %v, want %v", err, why)
	}
	for i := range uint64(bedDepth) {
		a.want(i, rnic.OpRecv, rnic.WCFlushErr)
	}
	if err := a.qp.PostRecv(rnic.RecvWR{}); err == nil {
		t.Error("a receive was taken by a QP that has ended")
	}
	if z.ended() == nil {
		t.Error("the peer was not told")
	}
	if err := a.qp.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// An unconnected QP gives its receives back when it is closed, and can be closed again.
func testCloseIdle(t *testing.T, b Bed) {
	a := newEnd(t, b.Open(rnic.DeviceConfig{}), 64)
	a.recv(7, 10)
	for range 2 {
		if err := a.qp.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	a.want(7, rnic.OpRecv, rnic.WCFlushErr)
	a.ended()
}

// An access without a right ends the connection and touches nothing; the requesting side learns the
// refused STag.
func testRefused(t *testing.T, b Bed) {
	for _, c := range []struct {
		name   string
		access rnic.Access
		offset uint64
		read   bool
	}{
		{"Write without the right", rnic.RemoteRead, 0, false},
		{"Read without the right", rnic.RemoteWrite, 0, true},
		{"Write past the end", rnic.RemoteWrite, 60, false},
		{"Read past the end", rnic.RemoteRead, 60, true},
	} {
		a, z := b.pair(t, 64, nil)
		z.recv(1, 0)
		a.post(rnic.SendWR{ID: 2, Op: rnic.OpSend}) // iWARP sends no report before the first good FPDU
		z.want(1, rnic.OpRecv, rnic.WCSuccess)
		mr, memory := z.region(64, c.access)
		wr := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{filled(8, 1)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + c.offset}
		if c.read {
			sink, _ := a.region(8, rnic.LocalWrite)
			wr = rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 8, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + c.offset}
		}
		a.post(wr)
		var told rnic.PeerError
		if err := a.ended(); !errors.As(err, &told) {
			t.Errorf("%s: %v", c.name, err)
		} else if stag, ok := told.RefusedSTag(); !ok || stag != uint32(mr.STag()) {
			t.Errorf("%s: %v names %#x", c.name, err, stag)
		}
		if z.ended() == nil || !bytes.Equal(memory, make([]byte, 64)) {
			t.Errorf("%s: %v, %v", c.name, z.qp.Err(), memory)
		}
		a.qp.Close()
		z.qp.Close()
	}
}

// A message larger than the receive ends the connection, and the receive is flushed.
func testNoRoom(t *testing.T, b Bed) {
	a, z := b.pair(t, 64, nil)
	z.recv(1, 10)
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{filled(11, 1)}})
	if z.ended() == nil || a.ended() == nil {
		t.Errorf("the ends: %v, %v, want an error at both", z.qp.Err(), a.qp.Err())
	}
	z.want(1, rnic.OpRecv, rnic.WCFlushErr)
}

// A full completion queue ends the QP, and loses no completion.
func testOverrun(t *testing.T, b Bed) {
	a, z := b.pair(t, 2, func(z *end) {
		for i := range uint64(5) {
			z.recv(i, 1)
		}
	})
	for range 3 {
		a.post(rnic.SendWR{Op: rnic.OpSend})
	}
	if err := z.ended(); err != rnic.ErrCQOverrun {
		t.Errorf("ended: %v, want %v", err, rnic.ErrCQOverrun)
	}
	for i := range uint64(5) {
		if wc := z.next(); wc.ID != i {
			t.Errorf("%+v, want %d", wc, i)
		}
	}
	a.ended()
}
