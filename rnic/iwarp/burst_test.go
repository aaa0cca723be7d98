// Large transfers let others run.

package iwarp

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// gaveWay counts calls of giveWay, of all streams.
var gaveWay atomic.Int64

// transferred is what the tests below send and receive: with pieces of up to 320 KiB a burst ends after less than 640.
const transferred = 8 << 20

func wantBursts(t *testing.T, before int64) {
	t.Helper()
	if n := gaveWay.Load() - before; n < transferred/(640<<10) || n > transferred/burstBytes {
		t.Errorf("others could run %d times during %d bytes", n, transferred)
	}
}

func TestTransmitLoopGivesWay(t *testing.T) {
	s := scriptOver(t)
	s.open()
	before := gaveWay.Load()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, transferred)}})
	if _, err := io.CopyN(io.Discard, s.c, transferred); err != nil {
		t.Fatal(err)
	}
	s.c.Close() // with its last bytes, headers and CRCs, on their way
	<-s.qp.Done()
	wantBursts(t, before)
}

// A roomySink takes whatever comes.
type roomySink struct{ p [64 << 10]byte }

func (s *roomySink) aim() (head, rest []byte, ok bool) { return nil, s.p[:], true }
func (s *roomySink) release(int, bool)                 {}
func (s *roomySink) missing() int                      { return 1 }
func (s *roomySink) keepsThread() bool                 { return false }

func TestReceivingGivesWay(t *testing.T) {
	c, d := pipeTCP(t)
	l, err := newTCPLink(d)
	if err != nil {
		t.Fatal(err)
	}
	before := gaveWay.Load()
	go c.Write(make([]byte, transferred))
	for left := transferred; left > 0; {
		n, err := l.read(&roomySink{})
		if err != nil {
			t.Fatal(err)
		}
		left -= n
	}
	wantBursts(t, before)
}
