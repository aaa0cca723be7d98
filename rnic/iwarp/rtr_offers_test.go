// The peer-to-peer model as initiator, byte by byte: the offer, the choice, the first message.

package iwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// rtrHex has the golden bytes of each RTR, an FPDU with CRC.
var rtrHex = map[RTR]string{RTRSend: rtrSendHex, RTRWrite: rtrWriteHex, RTRRead: rtrReadHex}

// flags returns the enhanced data for r, with depths of 8.
func (r RTR) flags() string {
	ird, ord := 0x8008, 0x0008
	if r&RTRSend != 0 {
		ird |= 0x4000
	}
	if r&RTRWrite != 0 {
		ord |= 0x8000
	}
	if r&RTRRead != 0 {
		ord |= 0x4000
	}
	return fmt.Sprintf("%04x%04x", ird, ord)
}

// offers connects a QP of ours to a hand-made responder, which has read its Request and sends
// reply. The channel gets the result.
func offers(t *testing.T, ctx context.Context, r RTR, reply string) (*script, chan error) {
	t.Helper()
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	ours, theirs := pipeTCP(t)
	s.c = theirs
	theirs.SetDeadline(time.Now().Add(time.Minute))
	ended := make(chan error, 1)
	go func() {
		ended <- s.dev.ConnectOver(ctx, s.qp, ours, rnic.ConnParams{IRD: 8, ORD: 8, Provider: ConnOptions{RTR: r, Settle: -1}})
	}()
	s.wantBytes(must.Hex(t, reqKey+"50020004"+r.flags()))
	s.say(must.Hex(t, repKey+reply))
	return s, ended
}

// TestRTRChosen: each offer gets each Reply. The cheapest RTR that both name is sent. If there is
// none, the peer gets an error and nothing else.
func TestRTRChosen(t *testing.T) {
	conformance.Proves(t, "R5040-277", "R6581-016", "R6581-045", "R6581-047", "R6581-048")
	for offered := RTRWrite; offered <= RTRAny; offered++ {
		for named := RTR(0); named <= RTRAny; named++ {
			s, ended := offers(t, t.Context(), offered, "50020004"+named.flags())
			want := noRTRHex
			for _, kind := range []RTR{RTRSend, RTRRead, RTRWrite} {
				if offered&named&kind != 0 {
					want = rtrHex[kind]
				}
			}
			s.wantBytes(must.Hex(t, want))
			if want == rtrReadHex {
				s.say(must.Hex(t, rtrResponseHex))
			}
			err := <-ended
			if want != noRTRHex {
				if err != nil {
					t.Errorf("offered %03b, named %03b: %v", offered, named, err)
				}
				continue
			}
			s.wantEOF()
			if !errors.Is(err, &term.Error{Code: term.MPARTR}) || s.qp.State() != rnic.StateIdle {
				t.Errorf("offered %03b, named %03b: %v, state %v", offered, named, err, s.qp.State())
			}
		}
	}
}

// TestRTRRefused: Connect fails after a Reply that makes the peer-to-peer model impossible.
func TestRTRRefused(t *testing.T) {
	conformance.Proves(t, "R5040-277", "R6581-032", "R6581-048", "R6581-054")
	var rejected *rnic.RejectError
	tooDeep := fmt.Sprintf("%x", mpa.AppendFPDU(nil, true, terminate(0x20, 6, 0, nil)))
	for _, c := range []struct {
		name, reply, heard string
		offered            RTR
		check              func(error) bool
	}{
		{"client-server", "5002000400080008", noRTRHex, RTRAny, func(err error) bool { return errors.Is(err, errRTR) }},
		{"client-server, with flags that do not count", "500200044008c008", noRTRHex, RTRAny, func(err error) bool { return errors.Is(err, errRTR) }},
		{"a Read where no Reads are taken", "5002000480004008", noRTRHex, RTRAny, func(err error) bool { return errors.Is(err, errRTR) }},
		{"too deep comes first", "5002000480080009", tooDeep, RTRAny,
			func(err error) bool { return errors.Is(err, errIRD) }},
		{"revision 1", "40010000", "", RTRAny, func(err error) bool { return errors.Is(err, errNotEnhanced) }},
		{"revision 1 with what looks like flags", "50010004c008c008", "", RTRAny, func(err error) bool { return errors.Is(err, errNotEnhanced) }},
		{"revision 2, not enhanced", "40020000", "", RTRAny, func(err error) bool { return errors.Is(err, errNotEnhanced) }},
		{"refused by the ULP", "70020004c008c008", "", RTRAny, func(err error) bool { return errors.As(err, &rejected) && rejected.IRD == 8 }},
	} {
		s, ended := offers(t, t.Context(), c.offered, c.reply)
		heard, err := io.ReadAll(s.c)
		if err != nil || !bytes.Equal(heard, must.Hex(t, c.heard)) {
			t.Errorf("%s: heard %x, %v", c.name, heard, err)
		}
		if err := <-ended; !c.check(err) || s.qp.State() != rnic.StateIdle {
			t.Errorf("%s: %v, state %v", c.name, err, s.qp.State())
		}
	}
	s, ended := offers(t, t.Context(), RTRAny, "500200048000c008") // Reads are excluded, a Write is possible
	s.wantBytes(must.Hex(t, rtrWriteHex))
	if err := <-ended; err != nil || s.qp.ORD() != 0 {
		t.Error(err, s.qp.ORD())
	}
	side := newSide(t, rnic.DeviceConfig{}, 1)
	ours, _ := pipeTCP(t)
	if err := side.dev.ConnectOver(t.Context(), side.qp, ours, rnic.ConnParams{Provider: ConnOptions{RTR: RTRAny + 1}}); err != errRTRKind {
		t.Error(err)
	}
}

// TestRTRReadTakesASlot: a Read RTR counts for the ORD. With an ORD of 1 the ULP's first Read
// leaves only after the RTR was answered.
func TestRTRReadTakesASlot(t *testing.T) {
	conformance.Proves(t, "R6581-002", "R6581-053", "R6581-054")
	s, ended := offers(t, t.Context(), RTRRead, "5002000480014008")
	s.wantBytes(must.Hex(t, rtrReadHex))
	mr, _ := s.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: mr, RemoteSTag: 7, Length: 8}) // as a CQ handler might
	s.c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := s.c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Error("the ULP's Read did not wait")
	}
	if len(ended) > 0 {
		t.Error("Connect did not wait")
	}
	s.c.SetReadDeadline(time.Now().Add(time.Minute))
	s.say(must.Hex(t, rtrResponseHex))
	if err := <-ended; err != nil || s.qp.ORD() != 1 {
		t.Fatal(err, s.qp.ORD())
	}
	s.wantSegment(untagged(0x41, 0x41, 0, 1, 2, 0, readReq(mr.STag(), mr.Base(), 8, 7, 0)))
	s.fpdu(tagged(0xc1, 0x42, mr.STag(), mr.Base(), []byte("eight  .")))
	s.want(t, rnic.OpRead, 1, rnic.WCSuccess)
}

// TestRTRIsFirst: even a peer that sends FPDUs right after its Reply, one of them a Read Request,
// gets the RTR first.
func TestRTRIsFirst(t *testing.T) {
	conformance.Proves(t, "R6581-002")
	early := mpa.AppendFPDU(nil, true, untagged(0x41, 0x41, 0, 1, 1, 0, readReq(3, 0, 0, 0, 0)))
	for _, kind := range []RTR{RTRSend, RTRWrite, RTRRead} {
		s, ended := offers(t, t.Context(), kind, fmt.Sprintf("50020004%s%x", kind.flags(), early))
		s.wantBytes(must.Hex(t, rtrHex[kind]))
		s.wantSegment(tagged(0xc1, 0x42, 3, 0, nil))
		if kind == RTRRead {
			s.say(must.Hex(t, rtrResponseHex))
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}

		// Here the receive loop sends, with the RTR and a response to choose from.
		s = &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
		ours, theirs := pipeTCP(t)
		s.c = theirs
		if err := streamOf(s.qp).start(&session{conn: ours, early: early, modes: core.Modes{CRC: true}, ird: 1, ord: 1, rtr: kind}); err != nil {
			t.Fatalf("start: %v", err)
		}
		s.wantBytes(must.Hex(t, rtrHex[kind]))
		s.wantSegment(tagged(0xc1, 0x42, 3, 0, nil))
	}
}

// TestRTRReadUnanswered: if a peer does not answer the Read, answers something else, or leaves,
// Connect fails and the QP ends. There is no completion.
func TestRTRReadUnanswered(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		act  func(s *script)
		want error
	}{
		{"silent", gone, func(s *script) { cancel() }, context.Canceled},
		{"leaves", t.Context(), func(s *script) { s.c.Close() }, rnic.ErrConnLost},
		{"bytes", t.Context(), func(s *script) { s.fpdu(tagged(0xc1, 0x42, 0, 0, []byte("bytes"))) }, &term.Error{Code: term.DDPBounds}},
		{"bytes to come", t.Context(), func(s *script) { s.fpdu(tagged(0x81, 0x42, 0, 0, nil)) }, &term.Error{Code: term.DDPBounds}},
		{"for an STag", t.Context(), func(s *script) { s.fpdu(tagged(0xc1, 0x42, 9, 0, []byte("bytes"))) }, &term.Error{Code: term.DDPInvalidSTag}},
		{"a Terminate", t.Context(), func(s *script) { s.fpdu(terminate(0x20, 5, 0, nil)) }, &term.PeerError{Code: term.MPALocal}},
	} {
		s, ended := offers(t, c.ctx, RTRRead, "50020004"+RTRRead.flags())
		s.wantBytes(must.Hex(t, rtrReadHex))
		c.act(s)
		if err := <-ended; !errors.Is(err, c.want) || !errors.Is(s.qp.Err(), c.want) {
			t.Errorf("%s: %v, %v", c.name, err, s.qp.Err())
		}
		select {
		case <-s.qp.Done():
		default:
			t.Errorf("%s: the QP has not ended", c.name)
		}
		s.qp.Close()
		if n := s.cq.Poll(make([]rnic.WC, 4)); n > 0 {
			t.Errorf("%s: %d completions", c.name, n)
		}
		s.c.Close()
	}
}

// TestRTRSettles: the RTR is held back like any first FPDU, and start-up as a whole has its
// deadline, even if the peer never answers.
func TestRTRSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
		ours, theirs := net.Pipe()
		s.c = theirs
		start := time.Now()
		ended := make(chan error, 1)
		go func() {
			ended <- s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{Provider: ConnOptions{RTR: RTRRead, Settle: 3 * time.Second}})
		}()
		s.hear(24)
		s.say(must.Hex(t, repKey+"50020004"+RTRRead.flags()))
		s.wantBytes(must.Hex(t, rtrReadHex))
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("the RTR came after %v", d)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != connectTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		theirs.Close()
	})
}

// TestRTRThenEnd: if a peer gets its RTR, sends its message and closes in order, Connect succeeds,
// however soon that was.
func TestRTRThenEnd(t *testing.T) {
	s, ended := offers(t, t.Context(), RTRRead, "50020004"+RTRRead.flags())
	recv(t, s.qp, 1, make([]byte, 8))
	s.wantBytes(must.Hex(t, rtrReadHex))
	s.say(append(must.Hex(t, rtrResponseHex), mpa.AppendFPDU(nil, true, untagged(0x41, 0x43, 0, 0, 1, 0, []byte("bye")))...))
	s.c.Close()
	s.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.wantEnd(t, io.EOF)
	opened := make(chan struct{})
	close(opened)
	for range 20 { // Connect may see either event first
		if err := streamOf(s.qp).sayReady(t.Context(), opened); err != nil {
			t.Fatalf("sayReady: %v", err)
		}
	}
}
