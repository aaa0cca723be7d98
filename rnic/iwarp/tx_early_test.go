// Completions that are reported before their batch has left.

package iwarp

import (
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestCompletionToldBeforeSocketHasRoom: a Send that TCP has taken completes at once, although
// later work fills the socket and the peer reads nothing.
func TestCompletionToldBeforeSocketHasRoom(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.c.(*net.TCPConn).SetReadBuffer(4096)
	s.open()
	told := make(chan struct{})
	s.cq.SetHandler(func() {
		var wcs [16]rnic.WC
		for n := s.cq.Poll(wcs[:]); n > 0; n = s.cq.Poll(wcs[:]) {
			for _, wc := range wcs[:n] {
				if wc.ID == 7 {
					close(told)
				}
			}
		}
	})
	until(t, func() bool { return !streamOf(s.qp).work.Gated() })
	streamOf(s.qp).link.conn().(*net.TCPConn).SetWriteBuffer(64 << 10)
	if err := s.qp.PostSend(rnic.SendWR{ID: 7, Op: rnic.OpSend, SGL: [][]byte{[]byte("small")}},
		rnic.SendWR{ID: 8, Op: rnic.OpWrite, SGL: [][]byte{make([]byte, 64<<20)}, RemoteSTag: 1}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("the handler was not told of a Send that TCP has taken")
	}
}
