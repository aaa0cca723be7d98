// RC requests that the responder refuses, and memory that is revoked before it is read.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each kind of invalid request gets its NAK; then both ends have ended, with the cause.
func TestRefusals(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	wmr, _ := b.host.region(t, 600, rnic.RemoteWrite)
	shared, _ := b.host.region(t, 600, 0)
	// Another QP on the PD: an unbound region belongs to no single QP.
	b.host.newSide(t, rnic.UC, 1, 1)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	_ = a
	for name, row := range map[string]struct {
		wr   rnic.SendWR
		code packet.NAKCode
		stag rnic.STag
	}{
		"Write without right":        {rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{{1}}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}, packet.NAKRemoteAccess, mr.STag()},
		"Write past the end":         {rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{{1}}, RemoteSTag: wmr.STag(), RemoteTO: wmr.Base() + 600}, packet.NAKRemoteAccess, wmr.STag()},
		"Read without right":         {rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 9, RemoteSTag: wmr.STag(), RemoteTO: wmr.Base()}, packet.NAKRemoteAccess, wmr.STag()},
		"unknown key":                {rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 9, RemoteSTag: mr.STag() ^ 1, RemoteTO: mr.Base()}, packet.NAKRemoteAccess, mr.STag() ^ 1},
		"atomic without right":       {rnic.SendWR{Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}, packet.NAKRemoteAccess, mr.STag()},
		"invalidate what is not its": {rnic.SendWR{Op: rnic.OpSendInvalidate, Invalidate: shared.STag()}, packet.NAKRemoteAccess, shared.STag()},
		"longer than the receive":    {rnic.SendWR{SGL: [][]byte{make([]byte, 300)}}, packet.NAKInvalidRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			// Two more QPs on the same hosts: regions belong to the PD.
			x, y := a.host.newSide(t, rnic.RC, 8, 64), b.host.newSide(t, rnic.RC, 8, 64)
			for _, s := range [][2]*side{{x, y}, {y, x}} {
				s[0].reliable(Attrs{Access: rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic, Peer: s[1].host.addr, PathMTU: 256, DestQPN: s[1].qp.num,
					Timeout: 14, RetryCount: 7, RNRRetry: 7, RNRTimer: 12, MaxReads: 4, MaxDestReads: 4})
			}
			y.recv(1, 299)
			row.wr.ID = 1
			x.post(row.wr)
			x.post(rnic.SendWR{ID: 2})
			exchange(x, y)
			wcs := x.completions()
			must.Equal(t, "len(wcs)", len(wcs), 2)
			must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCRemErr)
			must.Equal(t, "wcs[1].Status", wcs[1].Status, rnic.WCFlushErr)
			var refusal *Refusal
			var fault *Fault
			var peer rnic.PeerError
			if !errors.As(x.vqp.Err(), &refusal) {
				t.Fatalf("x.vqp.Err(): %v, want a %T", x.vqp.Err(), refusal)
			}
			must.Equal(t, "refusal.Code", refusal.Code, row.code)
			if !errors.As(y.vqp.Err(), &fault) {
				t.Fatalf("y.vqp.Err(): %v, want a %T", y.vqp.Err(), fault)
			}
			must.Equal(t, "fault.Code", fault.Code, row.code)
			stag, ok := uint32(0), false
			if errors.As(x.vqp.Err(), &peer) {
				stag, ok = peer.RefusedSTag()
			}
			if ok != (row.code == packet.NAKRemoteAccess) || ok && stag != uint32(row.stag) {
				t.Errorf("refused STag %x, %v", stag, ok)
			}
			if wcs := y.completions(); len(wcs) != 1 || wcs[0].Status != rnic.WCFlushErr {
				t.Errorf("%v", wcs)
			}
		})
	}
}

// Each kind of invalid request gets a NAK and ends the QP: without the QP's right, more Reads than
// negotiated, packets out of sequence.
func TestInvalidRequests(t *testing.T) {
	for name, say := range map[string]func(s *side, mr *rnic.MR) []frame{
		"LAST first": func(s *side, _ *rnic.MR) []frame { return []frame{s.say(packet.RCSendLast, 100, []byte("x"))} },
		"reserved":   func(s *side, _ *rnic.MR) []frame { return []frame{s.say(0x1f, 100, nil)} },
		"Read in a Send": func(s *side, mr *rnic.MR) []frame {
			return []frame{s.say(packet.RCSendFirst, 100, make([]byte, 256)), s.say(packet.RCReadRequest, 101, nil, to(mr, 0, 8))}
		},
		"short FIRST": func(s *side, _ *rnic.MR) []frame { return []frame{s.say(packet.RCSendFirst, 100, make([]byte, 255))} },
		"Read with payload": func(s *side, mr *rnic.MR) []frame {
			return []frame{s.say(packet.RCReadRequest, 100, make([]byte, 8), to(mr, 0, 8))}
		},
		"more than IRD": func(s *side, mr *rnic.MR) []frame {
			return []frame{s.say(packet.RCReadRequest, 100, nil, to(mr, 0, 8)), s.say(packet.RCReadRequest, 101, nil, to(mr, 0, 8)), s.say(packet.RCReadRequest, 102, nil, to(mr, 0, 8))}
		},
		"no right to write": func(s *side, mr *rnic.MR) []frame {
			return []frame{s.say(packet.RCWriteOnly, 100, []byte("x"), to(mr, 0, 1))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(addrB).newSide(t, rnic.RC, 8, 64)
			s.reliable(Attrs{Access: rnic.RemoteRead, Peer: addrA, PathMTU: 256, DestQPN: 0x77, RQPSN: 100, MaxDestReads: 2})
			s.recv(1, 600)
			mr, _ := s.host.region(t, 100, rnic.RemoteRead|rnic.RemoteWrite)
			s.take(say(s, mr)...)
			var fault *Fault
			fs := s.send()
			h, _ := fs[len(fs)-1].header(t)
			must.Equal(t, "h.Opcode", h.Opcode, packet.RCAck)
			must.Equal(t, "h.AETH.Syndrome", h.AETH.Syndrome, packet.NAK(packet.NAKInvalidRequest))
			if !errors.As(s.vqp.Err(), &fault) {
				t.Fatalf("s.vqp.Err(): %v, want a %T", s.vqp.Err(), fault)
			}
			must.Equal(t, "s.state()", s.state(), ERR)
			if d := s.take(s.say(packet.RCSendOnly, 101, nil)); d != DropState {
				t.Errorf("take: %v, want %v", d, DropState)
			}
		})
	}
}

// Memory invalidated between request and answer is not read: the peer gets a NAK.
func TestReadOfRevokedMemory(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	b.take(a.send()...)
	n, _, _ := b.qp.Next(0, make([]byte, MaxPacket))
	mr.Invalidate()
	if n == 0 {
		t.Fatal("no answer")
	}
	fs := b.says("Acknowledge 6 NAK, remote access error 1; ")
	a.take(fs...)
	if a.state() != RTS { // earlier data is missing, and requested again first
		t.Fatal(a.vqp.Err())
	}
	for range 100 {
		at, ok := a.qp.Deadline()
		if !ok {
			break
		}
		a.tick(at)
		b.take(a.send()...)
	}
	if a.state() != ERR || b.state() != ERR {
		t.Errorf("%v, %v", a.state(), b.state())
	}
}

// A late packet may repeat a completed Read after the peer has released the memory: both QPs
// survive.
func TestLateReadOfRevokedMemory(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	asked := a.send()
	b.take(asked...)
	a.take(b.send()...)
	a.want(rnic.OpRead, 3, 600)
	b.take(asked...)
	b.recv(4, 0)
	a.post(rnic.SendWR{ID: 5, Op: rnic.OpSendInvalidate, Invalidate: mr.STag()})
	b.take(a.send()...)
	b.want(rnic.OpRecv, 4, 0)
	// The NAK does not replace the ACK.
	a.take(b.says("Acknowledge 5 NAK, remote access error 2; Acknowledge 8 ACK 2; ")...)
	a.want(rnic.OpSendInvalidate, 5, 0)
}
