// Peers that break the protocol: the connection ends with the reason, and nothing else happens.

package rconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A raw is a hand-made peer, on bare verbs.
type raw struct {
	t    *testing.T
	dev  *rnic.Device
	qp   *rnic.QP
	cq   *rnic.CQ
	peer hello // of the connection under test
}

// dialRaw connects a hand-made peer to l, with private data.
func dialRaw(t *testing.T, l *Listener, dev *rnic.Device, private []byte) (*raw, error) {
	t.Helper()
	cq := dev.NewCQ(3000)
	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 2000, RQDepth: 500})
	must.Succeed(t, err)
	t.Cleanup(func() { qp.Close() })
	for range 400 {
		must.Succeed(t, qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 64)}))
	}
	r := &raw{t: t, dev: dev, qp: qp, cq: cq}
	if err := dev.Connect(context.Background(), qp, l.Addr().String(), rnic.ConnParams{PrivateData: private}); err != nil {
		return nil, err
	}
	r.peer, err = parseHello(qp.PrivateData())
	must.Succeed(t, err)
	return r, nil
}

// send posts a Send of the bytes.
func (r *raw) send(b []byte) {
	r.t.Helper()
	must.Succeed(r.t, r.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{b}}))
}

// message posts a Send of a message.
func (r *raw) message(m message) {
	r.t.Helper()
	var b [messageLen]byte
	m.put(&b)
	r.send(b[:])
}

// TestHostileMessages: each invalid message ends the connection, and Read returns why.
func TestHostileMessages(t *testing.T) {
	valid := appendHello(nil, hello{ring: minRing, stag: 5, receives: 100})
	for _, c := range []struct {
		name string
		do   func(r *raw)
		want error
	}{
		{"short", func(r *raw) { r.send([]byte{1, 2, 3}) }, errMessage},
		{"empty", func(r *raw) { r.send(nil) }, errMessage},
		{"unknown kind", func(r *raw) { r.send(append([]byte{9}, make([]byte, 15)...)) }, errMessage},
		{"more data than the ring", func(r *raw) { r.message(message{kind: kindData, bytes: r.peer.ring + 1}) }, errOverrun},
		{"all data at once", func(r *raw) { r.message(message{kind: kindData, bytes: 1<<32 - 1}) }, errOverrun},
		{"a second ring of data", func(r *raw) {
			r.message(message{kind: kindData, bytes: r.peer.ring})
			r.message(message{kind: kindData, bytes: 1})
		}, errOverrun},
		{"data across the end", func(r *raw) {
			r.message(message{kind: kindData, bytes: r.peer.ring - 1})
			r.message(message{kind: kindData, bytes: 2})
		}, errOverrun},
		{"read what was not written", func(r *raw) { r.message(message{kind: kindUpdate, read: 1}) }, errAnnounce},
		{"received what was not sent", func(r *raw) { r.message(message{kind: kindUpdate, received: 1}) }, errAnnounce},
		{"announced less than before", func(r *raw) { r.message(message{kind: kindUpdate, received: 1<<32 - 1}) }, errAnnounce},
		{"data after the end", func(r *raw) {
			r.message(message{kind: kindEnd})
			r.message(message{kind: kindData, bytes: 1})
		}, errAfterEnd},
		{"two ends", func(r *raw) {
			r.message(message{kind: kindEnd})
			r.message(message{kind: kindEnd})
		}, errAfterEnd},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, cfg := listen(t, "iwarp", Config{Ring: minRing})
			r, err := dialRaw(t, l, cfg.Device, valid)
			must.Succeed(t, err)
			accepted, err := l.Accept()
			must.Succeed(t, err)
			conn := accepted.(*Conn)
			defer conn.Close()
			c.do(r)
			<-conn.qp.Done()
			conn.mu.Lock()
			defer conn.mu.Unlock()
			if !errors.Is(conn.err, c.want) {
				t.Errorf("the connection ended with %v, want %v", conn.err, c.want)
			}
		})
	}
}

// TestHostileImmediate: Immediate Data that names more than the ring ends the connection, and so do
// kinds of messages that the protocol does not have.
func TestHostileImmediate(t *testing.T) {
	for _, c := range []struct {
		name string
		wr   rnic.SendWR
		want error
	}{
		{"overrun", rnic.SendWR{Op: rnic.OpWriteImmediate, Immediate: minRing + 1}, errOverrun},
		{"nothing", rnic.SendWR{Op: rnic.OpWriteImmediate}, errMessage},
		{"Send", rnic.SendWR{Op: rnic.OpSendImmediate, Immediate: 1, SGL: [][]byte{append([]byte{2}, make([]byte, 15)...)}}, errMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, cfg := listen(t, "roce", Config{Ring: minRing})
			r, err := dialRaw(t, l, cfg.Device, appendHello(nil, hello{ring: minRing, stag: 5, receives: 100}))
			must.Succeed(t, err)
			accepted, err := l.Accept()
			must.Succeed(t, err)
			conn := accepted.(*Conn)
			defer conn.Close()
			must.Succeed(t, r.qp.PostSend(c.wr))
			<-conn.qp.Done()
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, c.want) {
				t.Errorf("Read: %v, want %v", err, c.want)
			}
		})
	}
}

// TestForeignPeers: private data of other programs and versions is refused in both directions, and
// the listener continues.
func TestForeignPeers(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		l, cfg := listen(t, network, Config{})
		other := appendHello(nil, aHello)
		other[4] = version + 1
		for _, private := range [][]byte{nil, []byte("something else"), other, appendHello(nil, hello{})} {
			_, err := dialRaw(t, l, cfg.Device, private)
			if _, refused := errors.AsType[*rnic.RejectError](err); !refused {
				t.Errorf("private data % x: %v, want a refusal", private, err)
			}
		}
		x, y := join(t, l, cfg)
		_, err := x.Write([]byte("x"))
		must.Succeed(t, err)
		_, err = io.ReadFull(y, make([]byte, 1))
		must.Succeed(t, err)
	})
}

// TestForeignListener: Dial fails at a listener that answers with other private data. The error
// says if the listener has refused our version.
func TestForeignListener(t *testing.T) {
	dev, addr := device(t, "iwarp", rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", addr)
	must.Succeed(t, err)
	defer l.Close()
	later := appendHello(nil, aHello)
	later[4] = version + 1
	answers := []func(rnic.ConnRequest) error{
		func(r rnic.ConnRequest) error { return r.Reject(later) },
		func(r rnic.ConnRequest) error {
			cq := dev.NewCQ(8)
			qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 4, RQDepth: 4})
			if err != nil {
				return err
			}
			t.Cleanup(func() { qp.Close() })
			return r.Accept(qp, rnic.ConnParams{PrivateData: []byte("something else")})
		},
	}
	for i, want := range []error{errVersion, errMagic} {
		answered := make(chan error, 1)
		go func() {
			r, err := l.Accept(context.Background())
			if err == nil {
				err = answers[i](r)
			}
			answered <- err
		}()
		_, err := Dial(context.Background(), "iwarp", l.Addr().String(), &Config{Device: dev})
		if !errors.Is(err, want) {
			t.Errorf("Dial: %v, want %v", err, want)
		}
		must.Succeed(t, <-answered)
	}
}

// TestSilentPeer: a peer that returns no receives stops the Write, not the connection; its flood of
// updates is answered only as far as it returns receives.
func TestSilentPeer(t *testing.T) {
	l, cfg := listen(t, "iwarp", Config{})
	r, err := dialRaw(t, l, cfg.Device, appendHello(nil, hello{ring: 1 << 20, stag: 5, receives: minReceives}))
	must.Succeed(t, err)
	accepted, err := l.Accept()
	must.Succeed(t, err)
	conn := accepted.(*Conn)
	defer conn.Close()
	for i := range uint32(20) {
		for range 50 {
			r.message(message{kind: kindUpdate})
		}
		must.Become(t, "the updates are received", func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return conn.flow.received == 50*(i+1)
		})
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.err != nil {
		t.Errorf("the connection has ended: %v", conn.err)
	}
	if conn.flow.sent > minReceives-1 {
		t.Errorf("%d messages for %d receives", conn.flow.sent, minReceives)
	}
}

// TestRefusedRing: if the peer's ring refuses our Write, the connection is lost.
func TestRefusedRing(t *testing.T) {
	l, cfg := listen(t, "iwarp", Config{})
	r, err := dialRaw(t, l, cfg.Device, appendHello(nil, hello{ring: 1 << 20, stag: 5, base: 1 << 40, receives: 100}))
	must.Succeed(t, err)
	accepted, err := l.Accept()
	must.Succeed(t, err)
	defer accepted.Close()
	r.message(message{kind: kindUpdate})
	_, err = accepted.Write(binary.BigEndian.AppendUint64(nil, 1))
	must.Succeed(t, err)
	if _, err := accepted.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("Read: %v, want the end of the connection", err)
	}
}
