// Start-up: the agreed modes, in every combination, and bytes that MUST NOT be sent before.

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestMatrix: both frames together decide about CRCs, and for each direction separately about
// markers.
func TestMatrix(t *testing.T) {
	conformance.Proves(t, "R5044-046", "R5044-053", "R5044-101", "R5044-102", "R5044-103", "R5044-104", "R5044-105", "R5044-106")
	for i := range 16 {
		mode := func(bit int) bool { return i>>bit&1 == 1 }
		crc := map[bool]rnic.CRCMode{false: rnic.CRCOff, true: rnic.CRCOn}
		a, b := joined(t, rnic.DeviceConfig{Markers: mode(0), CRC: crc[mode(1)]}, rnic.DeviceConfig{Markers: mode(2), CRC: crc[mode(3)]}, 64)
		transfers(t, a, b)
		transfers(t, b, a)
		on := mode(1) || mode(3)
		for _, s := range []*side{a, b} {
			if streamOf(s.qp).modes.CRC != on {
				t.Errorf("mode %04b: CRCs %v, want %v", i, streamOf(s.qp).modes.CRC, on)
			}
		}
		ma, mb := streamOf(a.qp).modes, streamOf(b.qp).modes
		got := [4]bool{ma.RecvMarkers, mb.SendMarkers, mb.RecvMarkers, ma.SendMarkers}
		if want := [4]bool{mode(0), mode(0), mode(2), mode(2)}; got != want {
			t.Errorf("mode %04b: markers %v, want %v", i, got, want)
		}
	}
}

// requested makes s send the frame req to its device.
func (s *script) requested(req string) rnic.ConnRequest {
	s.t.Helper()
	l, err := s.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	s.dial(l.Addr())
	s.say(must.Hex(s.t, req))
	r, err := l.Accept(context.Background())
	if err != nil {
		s.t.Fatalf("Accept: %v", err)
	}
	return r
}

// accepted makes a hand-made peer send the frame req to a QP of a device configured by cfg.
func accepted(t *testing.T, cfg rnic.DeviceConfig, req string) (*script, rnic.ConnRequest, mpa.Frame) {
	t.Helper()
	s := &script{side: newSide(t, cfg, 16), t: t}
	r := s.requested(req)
	if err := r.Accept(s.qp, rnic.ConnParams{}); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	head := s.hear(mpa.HeaderLen)
	rep, _, err := mpa.ParseFrame(append(head, s.hear(int(head[18])<<8|int(head[19]))...), true)
	if err != nil {
		t.Fatalf("ParseFrame: %v", err)
	}
	return s, r, rep
}

// TestCRCStays: if the peer or we asked for CRCs, they are sent and checked to the end.
func TestCRCStays(t *testing.T) {
	conformance.Proves(t, "R5044-051", "R5044-054", "R5044-105", "R5044-152")
	for _, c := range []struct {
		cfg rnic.DeviceConfig
		req string
	}{{rnic.DeviceConfig{CRC: rnic.CRCOff}, "5002000400100010"}, {rnic.DeviceConfig{}, "1002000400100010"}, {rnic.DeviceConfig{}, "5002000400100010"}} {
		s, _, _ := accepted(t, c.cfg, reqKey+c.req)
		mr, _ := s.pd.RegMR(make([]byte, 8), rnic.RemoteWrite)
		for range 1000 {
			s.fpdu(tagged(0xc1, 0x40, mr.STag(), mr.Base(), []byte{1}))
		}
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("ours has one too")}})
		s.hearULPDU() // checks its CRC
		b := mpa.AppendFPDU(nil, true, tagged(0xc1, 0x40, mr.STag(), mr.Base(), []byte("wrong")))
		b[len(b)-1] ^= 1
		s.say(b)
		s.wantSegment(terminate(0x20, 2, 0, nil))
		s.wantEnd(t, &term.Error{Code: term.MPACRC})
		if s.holds(mr, []byte("w")) {
			t.Error("bytes were placed")
		}
		s.c.Close()
	}
}

// TestRTRs: each possible first message of a peer-to-peer initiator opens the gate, and only a Send
// takes a receive.
func TestRTRs(t *testing.T) {
	conformance.Proves(t, "R5040-278", "R6581-026", "R6581-041", "R6581-042", "R6581-044", "R6581-053")
	for flags, c := range map[string]struct {
		rtr   []byte
		chose mpa.Enhanced
		recvs int
	}{
		"c0080000": {untagged(0x41, 0x43, 0, 0, 1, 0, nil), mpa.Enhanced{RTRSend: true}, 1},
		"80088000": {tagged(0xc1, 0x40, 0, 0, nil), mpa.Enhanced{RTRWrite: true}, 0},
		"80084000": {untagged(0x41, 0x41, 0, 1, 1, 0, readReq(0, 0, 0, 0, 0)), mpa.Enhanced{RTRRead: true}, 0},
	} {
		s, _, rep := accepted(t, rnic.DeviceConfig{}, reqKey+"50020004"+flags)
		e := rep.Enhanced
		if want := (mpa.Enhanced{PeerToPeer: true, RTRSend: c.chose.RTRSend, RTRWrite: c.chose.RTRWrite, RTRRead: c.chose.RTRRead,
			IRD: e.IRD, ORD: e.ORD}); e != want {
			t.Errorf("%s: got %+v, want %+v", flags, e, want)
		}
		if e.IRD < 1 {
			t.Errorf("%s: IRD %d, want 1 at least", flags, e.IRD)
		}
		recv(t, s.qp, 1, nil)
		post(t, s.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
		s.fpdu(c.rtr)
		heard := map[string]bool{string(s.hearULPDU()): true}
		if e.RTRRead {
			heard[string(s.hearULPDU())] = true
		}
		if !heard[string(untagged(0x41, 0x43, 0, 0, 1, 0, nil))] || heard[string(tagged(0xc1, 0x42, 0, 0, nil))] != e.RTRRead {
			t.Errorf("%s: heard %v", flags, heard)
		}
		if c.recvs > 0 {
			s.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
		}
		s.want(t, rnic.OpSend, 2, rnic.WCSuccess)
	}
}

// TestPeerIsTold: the ULP can see the depths in the peer's frame.
func TestPeerIsTold(t *testing.T) {
	conformance.Proves(t, "R5044-015", "R5044-115", "R5044-119", "R6581-024")
	for req, want := range map[string][3]int{"40010000": {1, 0, 0}, "5002000400050009": {2, 5, 9}, "500200043fff3fff": {2, 0, 0}} {
		s, r, rep := accepted(t, rnic.DeviceConfig{}, reqKey+req)
		if got := [3]int{int(r.(*connRequest).frame.Rev), r.IRD(), r.ORD()}; got != want {
			t.Errorf("%s: revision, IRD and ORD %v, want %v", req, got, want)
		}
		if got := int(rep.Rev); got != want[0] {
			t.Errorf("%s: the Reply has revision %d, want %d", req, got, want[0])
		}
		s.open() // DV and RV are 1 with either revision
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
		if u := s.hearULPDU(); u[0]&3 != 1 || u[1]>>6 != 1 {
			t.Errorf("%s: %x", req, u)
		}
	}
	s, err := responder(t, rnic.DeviceConfig{}, repKey+"5002000400030010")
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if got, want := [2]int{s.qp.IRD(), s.qp.ORD()}, [2]int{16, 3}; got != want {
		t.Errorf("IRD and ORD %v, want %v", got, want)
	}
}

// TestNotNegotiated: depths that the responder does not negotiate keep their values.
func TestNotNegotiated(t *testing.T) {
	conformance.Proves(t, "R5040-276", "R6581-034", "R6581-036", "R6581-038")
	for rep, want := range map[string][2]int{"3fff3fff": {16, 16}, "3fff0004": {16, 16}, "00043fff": {16, 4}} {
		s, err := responder(t, rnic.DeviceConfig{}, repKey+"50020004"+rep)
		if err != nil {
			t.Fatalf("%s: connect: %v", rep, err)
		}
		if got := [2]int{s.qp.IRD(), s.qp.ORD()}; got != want {
			t.Errorf("%s: IRD and ORD %v, want %v", rep, got, want)
		}
	}
}

// TestSilentBeforeReply: an initiator sends nothing after its Request until the Reply has come, and
// accepts no work before.
func TestSilentBeforeReply(t *testing.T) {
	conformance.Proves(t, "R5044-129", "R5044-132", "R5044-134")
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	ours, theirs := pipeTCP(t)
	s.c = theirs
	ended := make(chan error, 1)
	go func() {
		ended <- s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{Provider: ConnOptions{Settle: -1}})
	}()
	s.hear(24)
	if err := s.qp.PostSend(rnic.SendWR{Op: rnic.OpSend}); err != rnic.ErrState {
		t.Error(err)
	}
	theirs.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := theirs.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("spoke before the Reply")
	}
	theirs.SetReadDeadline(time.Now().Add(time.Minute))
	s.say(must.Hex(t, repKey+"5002000400100010"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend})
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 1, 0, nil))
}

// TestGoneBeforeReply: a QP closed while its peer accepts is a local error without a code of its
// own. The peer gets a report.
func TestGoneBeforeReply(t *testing.T) {
	conformance.Proves(t, "R6581-014", "R6581-055")
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	ours, theirs := pipeTCP(t)
	s.c = theirs
	ended := make(chan error, 1)
	go func() { ended <- s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{}) }()
	s.hear(24)
	s.qp.Close()
	s.say(must.Hex(t, repKey+"5002000400100010"))
	s.wantSegment(terminate(0x20, 5, 0, nil))
	s.wantEOF()
	if err := <-ended; !errors.Is(err, rnic.ErrState) {
		t.Error(err)
	}
}

// TestOneConnection: a QP has one connection in its life.
func TestOneConnection(t *testing.T) {
	conformance.Proves(t, "R5040-002")
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 4)
	for i, s := range []*side{a, b} {
		ours, theirs := pipeTCP(t)
		if err := s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{}); err != rnic.ErrState {
			t.Error(i, err)
		}
		if b, err := io.ReadAll(theirs); err != nil || len(b) > 0 {
			t.Errorf("%d: the peer heard %x, %v", i, b, err)
		}
	}
	transfers(t, a, b)
}

// TestHalfClosed: after our FIN the peer may continue, and its messages are delivered.
func TestHalfClosed(t *testing.T) {
	conformance.Proves(t, "R5044-149", "R5041-084", "R5041-085")
	s := scriptInitiator(t, rnic.ConnParams{})
	recv(t, s.qp, 1, make([]byte, 8))
	s.open()
	ended := make(chan error, 1)
	go func() { ended <- s.qp.Disconnect(t.Context()) }()
	s.wantEOF()
	s.fpdu(untagged(0x41, 0x43, 0, 0, 1, 0, []byte("still")))
	if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Len != 5 {
		t.Errorf("%+v", wc)
	}
	s.c.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReset: a connection that is cut ends in an error, and all work completes.
func TestReset(t *testing.T) {
	conformance.Proves(t, "R5041-010", "R5041-016", "R5041-086", "R5040-179", "R5044-151")
	s := scriptInitiator(t, rnic.ConnParams{})
	recv(t, s.qp, 1, nil)
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
	post(t, s.qp, rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: mr, Length: 8})
	s.hearULPDU()
	s.c.(*net.TCPConn).SetLinger(0)
	s.c.Close()
	s.wantEnd(t, rnic.ErrConnLost)
	got := map[string]bool{}
	for range 2 {
		wc := s.next(t)
		got[fmt.Sprint(wc.Op, wc.ID, wc.Status)] = true
	}
	if !got[fmt.Sprint(rnic.OpRecv, 1, rnic.WCFlushErr)] || !got[fmt.Sprint(rnic.OpRead, 2, rnic.WCFlushErr)] {
		t.Errorf("%v", got)
	}
}

// TestNoDelay: small segments are not held back by TCP.
func TestNoDelay(t *testing.T) {
	conformance.Proves(t, "R5044-078", "R5044-172")
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 4)
	for _, s := range []*side{a, b} {
		rc, err := streamOf(s.qp).socket().(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatalf("SyscallConn: %v", err)
		}
		on := 0
		rc.Control(func(fd uintptr) { on, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY) })
		if on == 0 {
			t.Error("TCP_NODELAY is off")
		}
	}
}
