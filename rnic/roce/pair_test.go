// Two QPs in this process, connected out of band over loopback, and a lossy wire.

package roce

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// hosts returns two unused addresses.
func hosts(t testing.TB) (a, b netip.Addr) {
	t.Helper()
	return machine.Addr(t), machine.Addr(t)
}

// A side is one QP under test.
type side struct {
	t   testing.TB
	dev *rnic.Device
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
	id  Identity
}

func newSide(t testing.TB, dev *rnic.Device, service rnic.Service) *side {
	t.Helper()
	s := &side{t: t, dev: dev, pd: dev.AllocPD(), cq: dev.NewCQ(4096)}
	var err error
	if s.qp, err = s.pd.CreateQP(rnic.QPConfig{Service: service, SendCQ: s.cq, RecvCQ: s.cq, SQDepth: 1024, RQDepth: 1024}); err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	t.Cleanup(func() { s.qp.Close() })
	return s
}

const testQKey = 0x11111111

func (s *side) bind(at netip.Addr) *side {
	s.t.Helper()
	var err error
	if s.id, err = Bind(s.qp, at, testQKey); err != nil {
		s.t.Fatalf("Bind: %v", err)
	}
	return s
}

func (s *side) connect(o OutOfBand) {
	s.t.Helper()
	if err := ConnectOutOfBand(s.qp, o); err != nil {
		s.t.Fatalf("ConnectOutOfBand: %v", err)
	}
}

// pair returns two connected QPs of two devices.
func pair(t testing.TB, service rnic.Service, o Options, mtu int) (a, b *side) {
	t.Helper()
	at, to := hosts(t)
	return pairAt(t, service, o, mtu, at, to)
}

func pairAt(t testing.TB, service rnic.Service, o Options, mtu int, at, to netip.Addr) (a, b *side) {
	t.Helper()
	a = newSide(t, OpenWith(rnic.DeviceConfig{}, o), service).bind(at)
	b = newSide(t, OpenWith(rnic.DeviceConfig{}, o), service).bind(to)
	if service == rnic.UD {
		a.connect(OutOfBand{})
		b.connect(OutOfBand{})
		return a, b
	}
	a.connect(OutOfBand{Peer: b.id, MTU: mtu, ORD: 4, IRD: 4})
	b.connect(OutOfBand{Peer: a.id, MTU: mtu, ORD: 4, IRD: 4})
	return a, b
}

// wait returns the next n completions; they must come.
func (s *side) wait(n int) (wcs []rnic.WC) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for len(wcs) < n {
		var room [16]rnic.WC
		got := s.cq.Poll(room[:min(len(room), n-len(wcs))])
		wcs = append(wcs, room[:got]...)
		if got == 0 {
			if err := s.cq.Wait(ctx); err != nil {
				s.t.Fatalf("%d of %d completions: %v; QP: %v", len(wcs), n, err, s.qp.Err())
			}
		}
	}
	return wcs
}

// good returns the next n completions; they must come and be successful.
func (s *side) good(n int) []rnic.WC {
	s.t.Helper()
	wcs := s.wait(n)
	for _, wc := range wcs {
		if wc.Status != rnic.WCSuccess {
			s.t.Fatalf("%v; QP: %v", wc, s.qp.Err())
		}
	}
	return wcs
}

func (s *side) post(wrs ...rnic.SendWR) {
	s.t.Helper()
	if err := s.qp.PostSend(wrs...); err != nil {
		s.t.Fatalf("PostSend: %v", err)
	}
}

func (s *side) recv(id uint64, n int) []byte {
	s.t.Helper()
	b := make([]byte, n)
	if err := s.qp.PostRecv(rnic.RecvWR{ID: id, Buf: b}); err != nil {
		s.t.Fatalf("PostRecv: %v", err)
	}
	return b
}

func (s *side) region(n int, access rnic.Access) (*rnic.MR, []byte) {
	s.t.Helper()
	b := make([]byte, n)
	mr, err := s.pd.RegMR(b, access)
	if err != nil {
		s.t.Fatalf("RegMR: %v", err)
	}
	return mr, b
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i+seed)*0x9e3779b97f4a7c15)
	}
	return b
}

// badly returns a wire that loses, repeats and reorders packets, each with probability
// chance/1000.
func badly(chance int) func(udp.Wire) udp.Wire {
	return func(w udp.Wire) udp.Wire { return rnictest.NewBadWire(w, chance, uint64(w.Local().Addr().As16()[15])) }
}
