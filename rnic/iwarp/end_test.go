// Every way in which a QP ends.

package iwarp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// wantEnd waits for the end of the QP and its reason.
func (s *side) wantEnd(t *testing.T, target error) {
	t.Helper()
	select {
	case <-s.qp.Done():
	case <-time.After(time.Minute):
		t.Fatal("the QP does not end")
	}
	if err := s.qp.Err(); !errors.Is(err, target) && err != target {
		t.Fatalf("Err is %v, want %v", err, target)
	}
}

func TestPeerCloses(t *testing.T) {
	conformance.Proves(t, "R5040-013", "R5040-177", "R5040-179", "R5040-187", "R5041-010", "R5041-016", "R5041-082", "R5041-086",
		"R5044-014", "R5044-150", "R5044-151")
	t.Run("between FPDUs", func(t *testing.T) {
		s := scriptInitiator(t, rnic.ConnParams{})
		s.open()
		s.c.Close()
		s.wantEnd(t, io.EOF)
	})
	t.Run("inside an FPDU", func(t *testing.T) { // R5044 §8 code 1
		s := scriptInitiator(t, rnic.ConnParams{})
		s.open()
		s.say([]byte{0, 18, 0x41})
		s.c.Close()
		s.wantEnd(t, rnic.ErrConnLost)
	})
	t.Run("inside a message", func(t *testing.T) {
		s := scriptInitiator(t, rnic.ConnParams{})
		recv(t, s.qp, 1, make([]byte, 8))
		s.fpdu(untagged(0x01, 0x43, 0, 0, 1, 0, []byte("ab")))
		s.c.Close()
		s.wantEnd(t, rnic.ErrConnLost)
		s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
	})
	t.Run("with a Read outstanding", func(t *testing.T) {
		s := scriptInitiator(t, rnic.ConnParams{})
		s.open()
		mr, _ := s.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
		post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: mr, Length: 8}, rnic.SendWR{ID: 2, Op: rnic.OpSend, Unsignaled: true})
		s.hearULPDU()
		s.hearULPDU()
		s.c.Close()
		s.wantEnd(t, rnic.ErrConnLost)
		// Work is flushed oldest first. A Send that TCP took completely has not failed; it was
		// unsignaled, so it has no completion.
		s.want(t, rnic.OpRead, 1, rnic.WCFlushErr)
		if n := s.cq.Poll(make([]rnic.WC, 1)); n != 0 {
			t.Fatal("more completions")
		}
	})
}

// TestDisconnect: accepted work drains, then FIN leaves, then both ends have ended (RFC 5041 §6.2.1
// [R5041-080 R5041-081]).
func TestDisconnect(t *testing.T) {
	conformance.Proves(t, "R5040-125", "R5040-177", "R5040-178", "R5040-243", "R5041-007", "R5041-071", "R5041-072", "R5041-080",
		"R5041-081", "R5041-084", "R8166-007")
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 64)
	for i := range uint64(40) {
		recv(t, b.qp, i, make([]byte, 100_000))
		post(t, a.qp, rnic.SendWR{ID: i, Op: rnic.OpSend, SGL: [][]byte{make([]byte, 100_000)}})
	}
	if err := a.qp.Disconnect(t.Context()); err != nil {
		t.Fatalf("Disconnect: %v", err)
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpSend}); err != rnic.ErrState {
		t.Fatal(err)
	}
	for i := range uint64(40) {
		a.want(t, rnic.OpSend, i, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, i, rnic.WCSuccess)
	}
	a.wantEnd(t, nil)
	b.wantEnd(t, io.EOF)
}

// TestDeafPeer: Close, Disconnect and a Terminate do not wait forever for a peer that does not
// read.
func TestDeafPeer(t *testing.T) {
	conformance.Proves(t, "R5040-142", "R5040-161", "R5041-073")
	for _, how := range []string{"Close", "Disconnect", "Terminate"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := scriptInitiator(t, rnic.ConnParams{})
			s.open()
			buf := make([]byte, 16<<20)
			for i := range uint64(4) {
				post(t, s.qp, rnic.SendWR{ID: i, Op: rnic.OpSend, SGL: [][]byte{buf}})
			}
			switch how {
			case "Disconnect":
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if err := s.qp.Disconnect(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
			case "Terminate":
				s.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
				<-s.qp.Done()
			}
			s.qp.Close()
			last := rnic.WCSuccess
			for i := range uint64(4) {
				var wc [1]rnic.WC
				if s.cq.Poll(wc[:]) != 1 {
					t.Fatalf("no completion of %d", i)
				}
				if wc[0].ID != i || wc[0].Status < last {
					t.Fatalf("completion %+v, want ID %d and status %d or later", wc[0], i, last)
				}
				last = wc[0].Status
			}
			if last != rnic.WCFlushErr {
				t.Fatal("the last Send cannot have been taken")
			}
		})
	}
}

// TestTerminateBehindHalfSent: a Terminate follows at the next FPDU boundary, even if TCP has taken
// only part of the FPDU before it (notes on RFC 5040 §6.2.1 [R5040-180 R5040-183]).
func TestTerminateBehindHalfSent(t *testing.T) {
	conformance.Proves(t, "R5040-180", "R5040-183", "R5040-189", "R5044-171")
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	streamOf(s.qp).socket().(*net.TCPConn).SetWriteBuffer(5000) // so that TCP does not take whole FPDUs
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 16<<20)}})
	s.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
	<-s.qp.Done()
	total := 0
	for {
		u := s.hearULPDU()
		if u[1] == 0x47 {
			break
		}
		total += len(u)
	}
	s.wantEOF()
	if total >= 16<<20 {
		t.Fatal("the Terminate came behind all of the Send")
	}
}

// TestCloseIdle: a QP that was never connected flushes its receives.
func TestCloseIdle(t *testing.T) {
	s := newSide(t, rnic.DeviceConfig{}, 4)
	recv(t, s.qp, 1, nil)
	s.qp.Close()
	s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
	s.wantEnd(t, rnic.ErrClosed)
	if err := s.qp.PostRecv(rnic.RecvWR{}); err != rnic.ErrState {
		t.Fatal(err)
	}
	if err := s.qp.PostSend(rnic.SendWR{}); err != rnic.ErrState {
		t.Fatal(err)
	}
}

// TestCQOverrun: a CQ without room makes the QP fail, and no completion is lost (RFC 5040 §8.1.1
// [R5040-214]).
func TestCQOverrun(t *testing.T) {
	conformance.Proves(t, "R5040-188", "R5040-214", "R5040-221", "R5040-255")
	a, b := newSide(t, rnic.DeviceConfig{}, 16), newSideCQ(t, rnic.DeviceConfig{}, 16, 2)
	join(t, a, b)
	for i := range uint64(6) {
		recv(t, b.qp, i, nil)
	}
	post(t, a.qp, rnic.SendWR{Op: rnic.OpSend}, rnic.SendWR{Op: rnic.OpSend}, rnic.SendWR{Op: rnic.OpSend})
	b.wantEnd(t, rnic.ErrCQOverrun)
	a.wantEnd(t, &term.PeerError{Code: term.RDMAPLocal})
	for i := range uint64(6) {
		st := rnic.WCSuccess
		if i > 2 {
			st = rnic.WCFlushErr
		}
		b.want(t, rnic.OpRecv, i, st)
	}
}

// TestGoodEndWhileSending: if a peer answers and closes before our writev of the Send has returned,
// the end is orderly.
func TestGoodEndWhileSending(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	until(t, func() bool { return !streamOf(s.qp).work.Gated() })
	tx := &streamOf(s.qp).tx
	tx.mu.Lock()
	l := &lateLink{link: tx.link, sent: make(chan struct{})}
	tx.link = l
	tx.mu.Unlock()
	go s.qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpSend})
	s.hearULPDU()
	s.c.Close()
	until(t, func() bool { // the receive loop has seen the end, and waits for writev
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*transmitter).barrier"))
	})
	close(l.sent)
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
	s.wantEnd(t, io.EOF)
}

// A lateLink does not return from writev before sent is closed.
type lateLink struct {
	link
	sent chan struct{}
}

func (l *lateLink) writev(pieces [][]byte, how core.WriteMode) (int, bool, error) {
	n, full, err := l.link.writev(pieces, how)
	<-l.sent
	return n, full, err
}
