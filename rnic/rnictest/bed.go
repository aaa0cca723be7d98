// A provider under test: its connections, and their ends' actions and expectations.

package rnictest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Bed is a provider under test by Verbs.
type Bed struct {
	Open          func(rnic.DeviceConfig) *rnic.Device
	Network, Addr string // its listener
}

// bedDepth is the depth of an end's queues.
const bedDepth = 8

// An end is one QP of a connection.
type end struct {
	t   *testing.T
	dev *rnic.Device
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
}

func newEnd(t *testing.T, dev *rnic.Device, cqDepth int) *end {
	t.Helper()
	e := &end{t: t, dev: dev, pd: dev.AllocPD(), cq: dev.NewCQ(cqDepth)}
	var err error
	if e.qp, err = e.pd.CreateQP(rnic.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SQDepth: bedDepth, RQDepth: bedDepth}); err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	t.Cleanup(func() { e.qp.Close() })
	return e
}

// listen opens a device and a listener, closed when the test ends.
func (b Bed) listen(t *testing.T) (*rnic.Device, rnic.Listener) {
	t.Helper()
	dev := b.Open(rnic.DeviceConfig{})
	l, err := dev.Listen(b.Network, b.Addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return dev, l
}

// pair returns a connection's two ends, the active one first; ready prepares the passive one.
func (b Bed) pair(t *testing.T, cqDepth int, ready func(passive *end)) (active, passive *end) {
	t.Helper()
	dev, l := b.listen(t)
	active, passive = newEnd(t, dev, 64), newEnd(t, dev, cqDepth)
	if ready != nil {
		ready(passive)
	}
	accepted := make(chan error, 1)
	go func() {
		req, err := l.Accept(t.Context())
		if err == nil {
			err = req.Accept(passive.qp, rnic.ConnParams{PrivateData: []byte("passive")})
		}
		accepted <- err
	}()
	if err := dev.Connect(t.Context(), active.qp, l.Addr().String(), rnic.ConnParams{PrivateData: []byte("active")}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := <-accepted; err != nil {
		t.Fatalf("Accept: %v", err)
	}
	l.Close() // for the next pair
	return active, passive
}

// next returns the next completion and fails the test if there is none.
func (e *end) next() rnic.WC {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	var wc [1]rnic.WC
	for e.cq.Poll(wc[:]) == 0 {
		if err := e.cq.Wait(ctx); err != nil {
			e.t.Fatalf("no completion: %v; the QP: %v", err, e.qp.Err())
		}
	}
	return wc[0]
}

// want fails the test unless the next completion has the given work request id, operation and
// status.
func (e *end) want(id uint64, op rnic.Opcode, status rnic.Status) rnic.WC {
	e.t.Helper()
	wc := e.next()
	if wc.ID != id || wc.Op != op || wc.Status != status || wc.QP != e.qp {
		e.t.Fatalf("%+v; want %d, %v, %v; the QP: %v", wc, id, op, status, e.qp.Err())
	}
	return wc
}

func (e *end) post(wrs ...rnic.SendWR) {
	e.t.Helper()
	if err := e.qp.PostSend(wrs...); err != nil {
		e.t.Fatalf("PostSend: %v", err)
	}
}

// recv posts a receive with n bytes.
func (e *end) recv(id uint64, n int) []byte {
	e.t.Helper()
	b := make([]byte, n)
	if err := e.qp.PostRecv(rnic.RecvWR{ID: id, Buf: b}); err != nil {
		e.t.Fatalf("PostRecv: %v", err)
	}
	return b
}

func (e *end) region(n int, access rnic.Access) (*rnic.MR, []byte) {
	e.t.Helper()
	b := make([]byte, n)
	return e.register(b, access), b
}

func (e *end) register(b []byte, access rnic.Access) *rnic.MR {
	e.t.Helper()
	mr, err := e.pd.RegMR(b, access)
	if err != nil {
		e.t.Fatalf("RegMR: %v", err)
	}
	return mr
}

// ended waits for the end of the QP, and returns its cause.
func (e *end) ended() error {
	e.t.Helper()
	select {
	case <-e.qp.Done():
	case <-time.After(time.Minute):
		e.t.Fatalf("the QP does not end: %v", e.qp.State())
	}
	return e.qp.Err()
}

// filled returns n bytes, starting from seed.
func filled(n, seed int) []byte {
	return bytes.Repeat([]byte{byte(seed), byte(seed >> 3), 7}, n/3+1)[:n]
}
