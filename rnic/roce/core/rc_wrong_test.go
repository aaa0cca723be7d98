// RC with invalid, excessive, and repeated answers and requests.

package core

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Unsolicited answers, and answers with wrong lengths and kinds, are dropped or end the QP, and
// never write a byte to the wrong place.
func TestWrongAnswers(t *testing.T) {
	ask := func() (a *side, mem []byte) {
		a, b := reliables(t, 256, 5, nil)
		sink, mem := a.host.region(t, 600, rnic.LocalWrite)
		a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Offset: 10, Length: 300, RemoteSTag: 0x100, RemoteTO: 0})
		a.send()
		_ = b
		return a, mem
	}
	for name, row := range map[string]struct {
		op   packet.Opcode
		psn  uint32
		n    int
		want Drop
		ends bool
	}{
		"ghost":        {packet.RCReadResponseOnly, 4, 300, DropPSN, false},
		"never asked":  {packet.RCReadResponseOnly, 7, 256, DropPSN, false},
		"too short":    {packet.RCReadResponseFirst, 5, 255, DropLength, true},
		"too long":     {packet.RCReadResponseFirst, 5, 257, DropLength, true},
		"ends early":   {packet.RCReadResponseOnly, 5, 256, DropLength, true},
		"wrong kind":   {packet.RCAtomicAck, 5, 0, DropSequence, false},
		"ACK, payload": {packet.RCAck, 5, 8, DropLength, false},
		"reserved":     {packet.RCAck, 5, 0, DropReserved, false},
		"out of order": {packet.RCReadResponseLast, 6, 44, DropPSN, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, mem := ask()
			f := a.say(row.op, row.psn, pattern(row.n, 1), func(h *packet.Header) {
				if row.want == DropReserved {
					h.AETH.Syndrome = 0x40
				}
			})
			if d := a.take(f); d != row.want || (a.state() == ERR) != row.ends {
				t.Errorf("%v, %v", d, a.state())
			}
			if !bytes.Equal(mem, make([]byte, 600)) {
				t.Error("memory was written")
			}
		})
	}
	a, _ := ask()
	sink := a.qp.oldest().MR
	sink.Invalidate()
	if d := a.take(a.say(packet.RCReadResponseFirst, 5, pattern(256, 1))); d != DropAccess || !errors.Is(a.vqp.Err(), ErrSink) {
		t.Errorf("%v, %v", d, a.vqp.Err())
	}
}

// Packets in flight never exceed the window, and acknowledges are requested before it closes.
func TestWindow(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(1, 256*1000)
	a.post(rnic.SendWR{ID: 1, SGL: [][]byte{pattern(256*1000, 1)}})
	fs := a.send()
	if len(fs) != initialWindow {
		t.Errorf("%d packets", len(fs))
	}
	if h, _ := fs[len(fs)-1].header(t); !h.AckReq {
		t.Error("the window closes and no acknowledge was asked for")
	}
	c, _ := reliables(t, 256, 5, nil)
	c.qp.req.window = 66 // no multiple of the acknowledge interval
	c.post(rnic.SendWR{SGL: [][]byte{make([]byte, 256*100)}})
	if gs := c.send(); len(gs) != 66 {
		t.Errorf("%d packets", len(gs))
	} else if h, _ := gs[65].header(t); !h.AckReq {
		t.Error("a window of 66 closes and no acknowledge was asked for")
	}
	a.tick(a.qp.req.deadline) // all lost
	if n := len(a.send()); n != initialWindow/2 {
		t.Errorf("%d packets after a loss", n)
	}
	b.take(fs...)
	exchange(a, b)
	a.want(rnic.OpSend, 1, 256*1000)
	if a.qp.req.window <= initialWindow/2 {
		t.Errorf("the window is %d", a.qp.req.window)
	}
}

// A flood of duplicate and out-of-order requests gets at most as many answers as it has packets,
// and a bounded number is queued.
func TestBoundedAnswers(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	for i := range 4 {
		a.post(rnic.SendWR{ID: uint64(i), Op: rnic.OpRead, MR: sink, Length: 8, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	}
	fs := a.send()
	b.take(fs...)
	for range 100 {
		b.take(fs...)
		b.take(b.say(packet.RCSendOnly, 500, nil))
	}
	if n := len(b.send()); n != 5 { // four answers, and one NAK for the gap
		t.Errorf("%d answers", n)
	}
	for range 100 {
		b.take(fs...)
	}
	if n := len(b.send()); n != 4 {
		t.Errorf("%d answers to what came once more", n)
	}
	if b.state() != RTS {
		t.Error(b.vqp.Err())
	}
}

// A repeated Read that completed long ago does not count as one of the peer's permitted outstanding
// Reads.
func TestStaleReads(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	read := func(id uint64) {
		a.post(rnic.SendWR{ID: id, Op: rnic.OpRead, MR: sink, Length: 8, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	}
	read(0)
	stale := a.send()
	b.take(stale...)
	a.take(b.send()...)
	a.want(rnic.OpRead, 0, 8)
	for id := range uint64(4) { // as many as the IRD
		read(id)
	}
	b.take(stale...)
	b.take(a.send()...)
	exchange(a, b)
	if wcs := a.completions(); len(wcs) != 4 || b.state() != RTS {
		t.Errorf("%v, %v", wcs, b.vqp.Err())
	}
	// At most IRD of the repeated Reads are answered at a time.
	for id := range uint64(12) {
		read(id)
		fs := a.send()
		stale = append(stale, fs...)
		b.take(fs...)
		a.take(b.send()...)
	}
	b.take(stale...)
	if n := len(b.send()); n != 4 {
		t.Errorf("%d answers", n)
	}
}
