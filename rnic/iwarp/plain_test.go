// QPs on connections whose writes block.

package iwarp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestPlainRevoked: memory is released at once, although the peer takes no byte of the response
// made from it, and inbound work continues (RFC 5040 §8.1.1 [R5040-209]).
func TestPlainRevoked(t *testing.T) {
	s := scriptOver(t)
	mr, _ := s.pd.RegMR(make([]byte, 1<<20), rnic.RemoteRead)
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 0, 1<<20, mr.STag(), mr.Base())))
	first := s.hear(100)
	done := make(chan struct{})
	go func() { mr.Invalidate(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("Invalidate waits for the peer")
	}
	if first[3] != 0x42 {
		t.Errorf("%x", first)
	}
}

// TestPlainTerminate: a Terminate follows all bytes taken before it, at an FPDU boundary.
func TestPlainTerminate(t *testing.T) {
	s := scriptOver(t)
	s.open()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, 1<<20)}})
	s.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
	<-s.qp.Done()
	for {
		u := s.hearULPDU()
		if u[1] == 0x47 {
			break
		}
	}
	s.c.Close()
	s.wantEnd(t, term.New(term.DDPMSNRange, ""))
}

// A closingPipe can end one direction, as TLS can.
type closingPipe struct {
	net.Conn
	linger *int // the argument of SetLinger
}

func (closingPipe) CloseWrite() error { return nil }

func (p closingPipe) SetLinger(sec int) error {
	*p.linger = sec
	return nil
}

// TestPlainDisconnect: the context of Disconnect bounds the wait for a peer that reads nothing,
// although the connection has taken all posted bytes. None of these is sent after that.
func TestPlainDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSide(t, rnic.DeviceConfig{}, 4)
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() {
			theirs.Read(make([]byte, mpa.FrameMax))
			theirs.Write(must.Hex(t, repKey+"5002000400100010"))
		}()
		linger := -1
		if err := s.dev.ConnectOver(t.Context(), s.qp, closingPipe{ours, &linger}, rnic.ConnParams{}); err != nil {
			t.Fatalf("ConnectOver: %v", err)
		}
		post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, 100)}})
		s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.qp.Disconnect(ctx); err != context.DeadlineExceeded || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if linger != 0 {
			t.Error("what the peer has not taken is sent after the end")
		}
	})
}
