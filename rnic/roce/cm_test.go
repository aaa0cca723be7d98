// Connections by the connection manager, over loopback.

package roce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/must"
)

const service = 20049

// A meeting is a listener with a connecting side.
type meeting struct {
	l    rnic.Listener
	addr string
	dev  *rnic.Device // the device of both sides
}

func meet(t testing.TB, o Options) *meeting {
	t.Helper()
	if o.Wrap != nil {
		ownPorts(t)
	}
	_, at := hosts(t)
	dev := OpenWith(rnic.DeviceConfig{}, o)
	addr := fmt.Sprintf("%v:%d", at, service)
	l, err := dev.Listen("udp", addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return &meeting{l, addr, dev}
}

// ownPorts waits until the process has no port, now and at the test's end. A client always
// chooses the same address, and a connection in time-wait keeps its port open, with the wire of
// the test that opened it.
func ownPorts(t testing.TB) {
	t.Helper()
	wait := func() {
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			ports.mu.Lock()
			n := len(ports.all)
			ports.mu.Unlock()
			if n == 0 {
				return
			}
			if time.Since(began) > 3*time.Minute {
				t.Errorf("%d ports are still open", n)
				return
			}
		}
	}
	wait()
	t.Cleanup(wait)
}

// connected returns both ends of a CM connection.
func (m *meeting) connected(t testing.TB, there, here rnic.ConnParams) (a, b *side) {
	t.Helper()
	a, b = newSide(t, m.dev, rnic.RC), newSide(t, m.dev, rnic.RC)
	accepted := make(chan error, 1)
	go func() {
		req, err := m.l.Accept(t.Context())
		if err == nil {
			if got := req.(*connRequest).remote.AckTimeout; got != peerTimeout {
				t.Errorf("the peer is asked for the time-out %d", got)
			}
			err = req.Accept(b.qp, there)
		}
		accepted <- err
	}()
	if err := m.dev.Connect(t.Context(), a.qp, m.addr, here); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := <-accepted; err != nil {
		t.Fatalf("accepted: %v", err)
	}
	return a, b
}

// TestConnect: private data and depths go both ways, data flows, and each side may disconnect.
func TestConnect(t *testing.T) {
	m := meet(t, Options{})
	for _, first := range []bool{true, false} {
		a, b := m.connected(t, rnic.ConnParams{PrivateData: []byte("server"), IRD: 3, ORD: 5}, rnic.ConnParams{PrivateData: []byte("client"), IRD: 7, ORD: 9})
		if !bytes.HasPrefix(a.qp.PrivateData(), []byte("server\x00")) || !bytes.HasPrefix(b.qp.PrivateData(), []byte("client\x00")) {
			t.Errorf("%q, %q", a.qp.PrivateData(), b.qp.PrivateData())
		}
		must.Equal(t, "a.qp.ORD()", a.qp.ORD(), 3)
		must.Equal(t, "b.qp.ORD()", b.qp.ORD(), 5)
		must.Equal(t, "b.qp.IRD()", b.qp.IRD(), 3)
		operations(t, a, b, []int{0, 100, 100_000})
		if !first {
			a, b = b, a
		}
		if err := a.qp.Disconnect(t.Context()); err != nil {
			t.Errorf("Disconnect: %v", err)
		}
		<-b.qp.Done()
		if err := b.qp.Err(); err != io.EOF {
			t.Errorf("Err: %v, want %v", err, io.EOF)
		}
	}
}

// TestConnectOverABadWire: connections are established although CM datagrams are lost.
func TestConnectOverABadWire(t *testing.T) {
	a, b := meet(t, Options{Wrap: badly(100)}).connected(t, rnic.ConnParams{}, rnic.ConnParams{})
	operations(t, a, b, []int{0, 100_000})
}

// TestReject: a rejecting program's data reaches the requesting one. Its QP can be reused, also
// after a rejection for lack of a listener.
func TestReject(t *testing.T) {
	m := meet(t, Options{})
	a := newSide(t, m.dev, rnic.RC)
	go func() {
		if req, err := m.l.Accept(t.Context()); err == nil {
			req.Reject([]byte("no"))
		}
	}()
	err := m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{})
	var r *rnic.RejectError
	if !errors.As(err, &r) || !bytes.HasPrefix(r.PrivateData, []byte("no\x00")) {
		t.Errorf("Connect: %v, want a RejectError with no", err)
	}
	host, _ := netip.ParseAddrPort(m.addr)
	if err := m.dev.Connect(t.Context(), a.qp, netip.AddrPortFrom(host.Addr(), service+1).String(), rnic.ConnParams{}); !errors.Is(err, errRefused) {
		t.Errorf("Connect: %v, want %v", err, errRefused)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	// Without an Accept, Connect waits until its context ends.
	if err := m.dev.Connect(ctx, a.qp, m.addr, rnic.ConnParams{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect: %v, want %v", err, context.DeadlineExceeded)
	}
	if a.qp.State() != rnic.StateIdle {
		t.Error(a.qp.State())
	}
}

// TestServiceInUse: a service belongs to one listener, and is free once the listener has closed.
func TestServiceInUse(t *testing.T) {
	m := meet(t, Options{})
	if _, err := m.dev.Listen("udp", m.addr); !errors.Is(err, errListen) {
		t.Errorf("Listen: %v, want %v", err, errListen)
	}
	m.l.Close()
	l, err := m.dev.Listen("udp", m.addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	l.Close()
}
