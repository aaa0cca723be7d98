// Large transfers yield.

package iwarp

import (
	"io"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

// transferred is what the tests below send and receive: with pieces of up to 320 KiB a burst ends
// after less than 640.
const transferred = 8 << 20

func wantBursts(t *testing.T, b *wait.Burst) {
	t.Helper()
	const least, most = transferred / (640 << 10), transferred / wait.BurstBytes
	if n := b.Yields(); n < least || n > most {
		t.Errorf("%d yields during %d bytes, want %d to %d", n, transferred, least, most)
	}
}

func TestTransmitLoopYields(t *testing.T) {
	s := scriptOver(t)
	s.open()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{make([]byte, transferred)}})
	if _, err := io.CopyN(io.Discard, s.c, transferred); err != nil {
		t.Fatalf("CopyN: %v", err)
	}
	s.c.Close() // with its last bytes, headers and CRCs, on their way
	<-s.qp.Done()
	wantBursts(t, &streamOf(s.qp).tx.burst)
}

// A roomySink takes whatever comes.
type roomySink struct{ p [64 << 10]byte }

func (s *roomySink) aim() (head, rest []byte, ok bool) { return nil, s.p[:], true }
func (s *roomySink) release(int, bool)                 {}
func (s *roomySink) blocksThread() bool                { return false }

// pipeLink returns one end of a loopback connection, and the link over the other one.
func pipeLink(t testing.TB) (*net.TCPConn, *tcpLink) {
	t.Helper()
	c, d := pipeTCP(t)
	l, err := newTCPLink(d)
	if err != nil {
		t.Fatalf("newTCPLink: %v", err)
	}
	return c, l
}

func TestReceivingYields(t *testing.T) {
	c, l := pipeLink(t)
	go c.Write(make([]byte, transferred))
	for left := transferred; left > 0; {
		n, err := l.read(&roomySink{})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		left -= n
	}
	wantBursts(t, &l.burst)
}

// Each batch of a stream of large transfers, and of no other, yields where there has been
// a small call since one did.
func TestBatchesYieldToCalls(t *testing.T) {
	const batches = 20
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, batches)
	for i := range uint64(batches) {
		recv(t, b.qp, i, make([]byte, 8))
	}
	tx := &streamOf(a.qp).tx
	other := rxwait.NewBlocker()
	id := uint64(0)
	batch := func(large int32) (yields uint64) {
		t.Helper()
		id++
		before := tx.burst.Yields()
		tx.tcp.wait.large.Store(large)
		post(t, a.qp, rnic.SendWR{ID: id, Op: rnic.OpSend, SGL: [][]byte{{1}}})
		a.want(t, rnic.OpSend, id, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, id-1, rnic.WCSuccess)
		return tx.burst.Yields() - before
	}
	for range 3 {
		other.Input()
		if n := batch(0); n != 0 {
			t.Errorf("a batch of a small stream has yielded %d times", n)
		}
		if n := batch(largeInputs); n == 0 {
			t.Error("a batch of large transfers has not yielded after a small call")
		}
	}
	tx.yieldToCalls()
	before := tx.burst.Yields()
	if tx.yieldToCalls(); tx.burst.Yields() != before {
		t.Error("yields twice for one call")
	}
}
