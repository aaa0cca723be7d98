// QPs on connections whose writes block.

package rnic

import (
	"testing"
	"time"
)

// TestPlainRevoked: memory is given back at once, though the peer takes no octet of
// the response that was made of it; and inbound work goes on (R5040-209).
func TestPlainRevoked(t *testing.T) {
	s := scriptOver(t)
	mr, _ := s.pd.RegMR(make([]byte, 1<<20), RemoteRead)
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 0, 1<<20, mr.STag(), mr.Base())))
	first := s.hear(100)
	done := make(chan struct{})
	go func() { mr.Invalidate(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("Invalidate waits for the peer")
	}
	if first[3] != 0x42 {
		t.Errorf("%x", first)
	}
}

// TestPlainTerminate: a Terminate goes behind all that was taken before, at an FPDU boundary.
func TestPlainTerminate(t *testing.T) {
	s := scriptOver(t)
	s.open()
	post(t, s.qp, SendWR{ID: 1, Op: OpSend, SGL: [][]byte{make([]byte, 1<<20)}})
	s.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
	<-s.qp.Done()
	for {
		u := s.hearULPDU()
		if u[1] == 0x47 {
			break
		}
	}
	s.c.Close()
	s.wantEnd(t, errMSN)
}
