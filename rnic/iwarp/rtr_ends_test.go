// The peer-to-peer model between two ends of ours, and as responder.

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestRTRBothEnds: each offer is made to a responder with each set of accepted RTRs, in all modes.
// If they have an RTR in common, the responder's ULP can send first.
func TestRTRBothEnds(t *testing.T) {
	conformance.Proves(t, "R5040-277", "R5040-278", "R6581-002", "R6581-041", "R6581-042", "R6581-044", "R6581-046", "R6581-047", "R6581-048",
		"R6581-053")
	for i := range 8 * 8 * 8 {
		offered, takes, mode := RTR(i&7), RTR(i>>3&7), i>>6
		if offered == 0 {
			continue
		}
		cfg := rnic.DeviceConfig{CRC: rnic.CRCMode(mode & 1 * int(rnic.CRCOff)), Markers: mode&2 != 0, Extensions: mode&4 != 0}
		rtrConversation(t, fmt.Sprintf("offered %03b, takes %03b, mode %03b", offered, takes, mode), cfg, offered, takes)
	}
}

func rtrConversation(t *testing.T, name string, cfg rnic.DeviceConfig, offered, takes RTR) {
	a, b := newSide(t, cfg, 8), newSide(t, cfg, 8)
	defer a.qp.Close()
	defer b.qp.Close()
	l, err := b.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	recv(t, b.qp, 1, make([]byte, 4))
	recv(t, a.qp, 2, make([]byte, 4))
	ended := make(chan error, 1)
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil {
			err = r.Accept(b.qp, rnic.ConnParams{Provider: ConnOptions{RTR: takes}})
		}
		if err == nil {
			err = b.qp.PostSend(rnic.SendWR{ID: 3, Op: rnic.OpSend, SGL: [][]byte{[]byte("b")}})
		}
		ended <- err
	}()
	err = a.dev.Connect(t.Context(), a.qp, l.Addr().String(), rnic.ConnParams{Provider: ConnOptions{RTR: offered, Settle: -1}})
	if takes == 0 {
		takes = RTRAny
	}
	kind := offered & takes & -(offered & takes)
	if kind == 0 {
		if !errors.Is(err, &term.Error{Code: term.MPARTR}) {
			t.Fatalf("%s: %v", name, err)
		}
		<-ended // the Terminate may have come before its PostSend
		b.wantEnd(t, &term.PeerError{Code: term.MPARTR})
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if wc := a.want(t, rnic.OpRecv, 2, rnic.WCSuccess); wc.Len != 1 { // a has posted nothing
		t.Fatalf("%s: %+v", name, wc)
	}
	if kind == RTRSend { // before the gate opens, so before b's own work is done
		if wc := b.want(t, rnic.OpRecv, 1, rnic.WCSuccess); wc.Len != 0 {
			t.Fatalf("%s: %+v", name, wc)
		}
	}
	b.want(t, rnic.OpSend, 3, rnic.WCSuccess)
	recv(t, b.qp, 4, make([]byte, 4))
	post(t, a.qp, rnic.SendWR{ID: 5, Op: rnic.OpSend, SGL: [][]byte{[]byte("aa")}})
	a.want(t, rnic.OpSend, 5, rnic.WCSuccess)
	id := uint64(1)
	if kind == RTRSend {
		id = 4
	}
	if wc := b.want(t, rnic.OpRecv, id, rnic.WCSuccess); wc.Len != 2 {
		t.Fatalf("%s: %+v", name, wc)
	}
}

// TestRTRTransfers: after each RTR all operations work, both ways.
func TestRTRTransfers(t *testing.T) {
	conformance.Proves(t, "R6581-047", "R6581-053")
	for _, kind := range []RTR{RTRWrite, RTRRead, RTRSend} {
		for _, marks := range []bool{false, true} {
			a, b := newSide(t, rnic.DeviceConfig{Markers: marks}, 64), newSide(t, rnic.DeviceConfig{Markers: marks}, 64)
			if kind == RTRSend {
				recv(t, b.qp, 77, nil)
			}
			joinWith(t, a, b, rnic.ConnParams{Provider: ConnOptions{RTR: kind, Settle: -1}})
			if kind == RTRSend {
				b.want(t, rnic.OpRecv, 77, rnic.WCSuccess)
			}
			transfers(t, b, a) // the responder first
			transfers(t, a, b)
		}
	}
}

// TestRTRSendNoReceive: if the peer has no receive for an RTR Send, the peer reports the error.
func TestRTRSendNoReceive(t *testing.T) {
	conformance.Proves(t, "R6581-053")
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	joinWith(t, a, b, rnic.ConnParams{Provider: ConnOptions{RTR: RTRSend, Settle: -1}})
	b.wantEnd(t, term.New(term.DDPNoBuffer, ""))
	<-a.qp.Done()
}

// TestRTRNamed: the Reply names the right kind for each offer and each set that the ULP has chosen.
// In the client-server model it names none.
func TestRTRNamed(t *testing.T) {
	conformance.Proves(t, "R6581-041", "R6581-042", "R6581-044", "R6581-046", "R6581-050", "R6581-052")
	for _, c := range []struct {
		req, rep string
		takes    RTR
	}{
		{"c008c008", "80088008", 0},
		{"c008c008", "80088008", RTRAny},
		{"c008c008", "80084008", RTRRead | RTRSend},
		{"c008c008", "c0080008", RTRSend},
		{"c0080008", "80088008", RTRWrite | RTRRead},
		{"c0080008", "80084008", RTRRead},
		{"80088008", "c0080008", RTRSend},
		{"80080008", "80084008", RTRRead},
		{"4008c008", "00080008", RTRSend},
		{"00080008", "00080008", RTRAny},
	} {
		s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
		r := s.requested(reqKey + "50020004" + c.req)
		if err := r.Accept(s.qp, rnic.ConnParams{IRD: 8, Provider: ConnOptions{RTR: c.takes}}); err != nil {
			t.Fatalf("Accept: %v", err)
		}
		s.wantBytes(must.Hex(t, repKey+"50020004"+c.rep))
	}
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	r := s.requested(reqKey + "50020004c008c008")
	if err := r.Accept(s.qp, rnic.ConnParams{Provider: ConnOptions{RTR: RTRAny << 1}}); err != errRTRKind {
		t.Error(err)
	}
	s.wantEOF()
}

// TestRTRAwaited: a responder sends nothing before the RTR, even if its ULP has posted work. The
// first message opens the gate, even one that was not agreed on. A bad message does not, and
// silence does not.
func TestRTRAwaited(t *testing.T) {
	conformance.Proves(t, "R5044-133", "R6581-053")
	write, send, read := tagged(0xc1, 0x40, 1, 0, nil), untagged(0x41, 0x43, 0, 0, 1, 0, nil), untagged(0x41, 0x41, 0, 1, 1, 0, readReq(0, 0, 0, 1, 0))
	badCRC := mpa.AppendFPDU(nil, true, write)
	badCRC[len(badCRC)-1] ^= 1
	for _, c := range []struct {
		name  string
		first []byte
		end   error // nil: first opens the gate
	}{
		{"the Write agreed on", mpa.AppendFPDU(nil, true, write), nil},
		{"a Send", mpa.AppendFPDU(nil, true, send), nil},
		{"a Read", mpa.AppendFPDU(nil, true, read), nil},
		{"wrong CRC", badCRC, &term.Error{Code: term.MPACRC}},
		{"a Write with bytes to no region", mpa.AppendFPDU(nil, true, tagged(0xc1, 0x40, 1, 0, []byte("x"))), &term.Error{Code: term.DDPInvalidSTag}},
		{"a Send of another number", mpa.AppendFPDU(nil, true, untagged(0x41, 0x43, 0, 0, 2, 0, nil)), &term.Error{Code: term.DDPMSNRange}},
		{"no common RTR", must.Hex(t, noRTRHex), &term.PeerError{Code: term.MPARTR}},
		{"half of it", badCRC[:10], rnic.ErrConnLost},
		{"nothing", nil, rnic.ErrConnLost},
	} {
		s, _, rep := accepted(t, rnic.DeviceConfig{}, reqKey+"50020004c008c008")
		if !rep.Enhanced.RTRWrite {
			t.Fatalf("%+v", rep.Enhanced)
		}
		recv(t, s.qp, 1, nil)
		post(t, s.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
		s.c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		if n, err := s.c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
			t.Errorf("%s: spoke before the RTR", c.name)
		}
		s.c.SetReadDeadline(time.Now().Add(time.Minute))
		s.say(c.first)
		if c.end == nil {
			heard := string(s.hearULPDU())
			if heard == string(tagged(0xc1, 0x42, 0, 0, nil)) { // the answer to the Read
				heard = string(s.hearULPDU())
			}
			if heard != string(send) {
				t.Errorf("%s: heard %x", c.name, heard)
			}
			continue
		}
		if errors.Is(c.end, rnic.ErrConnLost) {
			s.c.(interface{ CloseWrite() error }).CloseWrite()
		}
		if b, err := io.ReadAll(s.c); err != nil || len(b) > 0 {
			t.Errorf("%s: heard %x, %v", c.name, b, err)
		}
		s.wantEnd(t, c.end)
	}
}
