// The transmit loop continues when the receive loop has spent its budget.

package iwarp

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A takingLink accepts every write, with or without a reader.
type takingLink struct {
	link  // nil: nothing is read
	calls int
}

func (l *takingLink) writev(pieces [][]byte, _ core.WriteMode) (n int, full bool, err error) {
	for _, p := range pieces {
		n += len(p)
	}
	l.calls++
	return n, false, nil
}

func (*takingLink) inline() bool { return true }
func (*takingLink) mss() int     { return 65_480 }

// TestLoopIsNotWokenForNothing: the transmit loop is woken only if the receive loop leaves work to
// it.
func TestLoopIsNotWokenForNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int // of an RDMA Write
		count int
		woken bool
	}{
		{"less than it sends", 4 << 10, 8, false},
		{"what it sends", 4 << 10, batchBytes / (4 << 10), false},
		{"as much as one batch has", 16 << 10, 12, false},
		{"more than one batch has", 16 << 10, 24, true},
		{"the half of a message", 600 << 10, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newSide(t, rnic.DeviceConfig{}, 32)
			s, l := streamOf(a.qp), new(takingLink)
			// The stream's loops do not run, so the token that wakes the transmit loop stays.
			s.link, s.tx.link = l, l
			s.tx.out.Start(core.Modes{CRC: true})
			s.work.Start(1, 1, false)
			s.work.Cork()
			for range c.count {
				post(t, a.qp, rnic.SendWR{Op: rnic.OpWrite, RemoteSTag: 0x100, SGL: [][]byte{make([]byte, c.bytes)}})
			}
			s.sendCollected()
			if woken := len(s.txWake) > 0; woken != c.woken || s.work.TurnOfLoop() != c.woken {
				t.Errorf("woken %v, its turn %v, want %v", woken, s.work.TurnOfLoop(), c.woken)
			}
			if s.work.Outstanding() != c.woken || l.calls != 1 {
				t.Errorf("outstanding %v after %d system calls", s.work.Outstanding(), l.calls)
			}
		})
	}
}

// TestRefusedResponseIsToldAfterOthers: a response whose memory is gone ends the stream at once.
// This holds although an earlier response has left in the same batch, and nothing else waits to be
// sent.
func TestRefusedResponseIsToldAfterOthers(t *testing.T) {
	byPipe(t, func(k *piped) {
		mem, _ := k.pd.RegMR(make([]byte, 300), rnic.RemoteRead)
		gone, _ := k.pd.RegMR(make([]byte, 300), rnic.RemoteRead)
		k.cq.SetHandler(func() {
			k.cq.Poll(make([]rnic.WC, 64))
			gone.Invalidate()
		})
		b := mpa.AppendFPDU(nil, true, untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 0, 300, mem.STag(), mem.Base())))
		b = mpa.AppendFPDU(b, true, untagged(0x41, 0x41, 0, 1, 2, 0, readReq(9, 0, 300, gone.STag(), gone.Base())))
		k.say(mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 0, nil))) // after it the handler runs, and then the responses leave
		for _, op := range []rdmap.Opcode{rdmap.OpReadResponse, rdmap.OpTerminate} {
			if u := k.hearULPDU(); rdmap.Opcode(u[1]&0x0f) != op {
				t.Fatalf("heard %x, want %v", u, op)
			}
		}
	})
}
