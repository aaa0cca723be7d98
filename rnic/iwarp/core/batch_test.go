// The bounds of a batch, and its memory.

package core

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestBatchOfManyPieces: a batch has no more ranges than one system call takes, for any number of
// small messages.
func TestBatchOfManyPieces(t *testing.T) {
	const n = 2 * MaxPieces
	s := newSide(t, rnic.DeviceConfig{}, n)
	s.end.start(Modes{}, 1, 1, false)
	w, o := &s.end.work, &s.end.out
	w.Cork()
	for range n {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, inlineMax+1)}})
	}
	if !w.Uncork() {
		t.Fatal("nothing to send")
	}
	o.SetMSS(s.end.mss)
	most := 0
	for {
		if err := o.Fill(); err != nil {
			t.Fatalf("Fill: %v", err)
		}
		pieces, _ := o.Pending()
		if len(pieces) == 0 {
			break
		}
		most = max(most, len(pieces))
		bytes := 0
		for _, p := range pieces {
			bytes += len(p)
		}
		o.Sent(bytes)
	}
	if most > MaxPieces || most < MaxPieces-3 {
		t.Errorf("%d ranges, at most %d are allowed", most, MaxPieces)
	}
}

// TestSentBytesAreNotPinned: once all requested bytes of a region have been sent, it is not pinned
// any more. Its release then has no pending bytes to check.
func TestSentBytesAreNotPinned(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, inlineMax+1), rnic.RemoteRead)
	pins := func() int64 {
		return reflect.ValueOf(mr).Elem().FieldByName("pins").FieldByName("v").Int()
	}
	s.end.room = 0
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 9, inlineMax+1, mr.STag(), mr.Base())))
	if pins() != 1 {
		t.Errorf("%d pins while the response waits", pins())
	}
	s.end.grant(1 << 20)
	if pins() != 0 {
		t.Errorf("%d pins after it was sent", pins())
	}
}

// TestLargeScratchIsForTheRestOfABatch: bytes beyond the small memory go to a large one, in order,
// which is returned when the batch has left.
func TestLargeScratchIsForTheRestOfABatch(t *testing.T) {
	var b batch
	b.init(nil)
	for range 2 {
		b.reset()
		if cap(b.scratch) != smallScratch {
			t.Errorf("%d bytes of scratch in an empty batch", cap(b.scratch))
		}
		n := 0
		for ; !b.full(); n++ {
			p := b.addScratch(fpduScratch)
			p[0], p[len(p)-1] = byte(n), byte(n>>8)
			b.endFPDU()
		}
		if cap(b.scratch) != batchScratch || n < batchScratch/fpduScratch {
			t.Errorf("%d FPDUs, %d bytes of scratch in a full batch", n, cap(b.scratch))
		}
		if len(b.pieces) != 2 {
			t.Errorf("%d ranges of two memories", len(b.pieces))
		}
		all := bytes.Join(b.pieces, nil)
		for i := range n {
			if p := all[i*fpduScratch:][:fpduScratch]; p[0] != byte(i) || p[len(p)-1] != byte(i>>8) {
				t.Fatalf("FPDU %d of %d is not where it belongs", i, n)
			}
		}
		b.advance(b.left)
		if cap(b.scratch) != smallScratch {
			t.Errorf("%d bytes of scratch after a batch has left", cap(b.scratch))
		}
	}
}

// TestPostedTogetherLeavesTogether: requests posted at once leave in one batch, beyond the room of
// the small memory.
func TestPostedTogetherLeavesTogether(t *testing.T) {
	for _, op := range []rnic.Opcode{rnic.OpRead, rnic.OpSend} {
		const n = 64
		s := newSide(t, rnic.DeviceConfig{}, n)
		s.end.start(Modes{CRC: true}, 1, n, false)
		mr, _ := s.pd.RegMR(make([]byte, 4096), rnic.LocalWrite)
		w, o := &s.end.work, &s.end.out
		wr, length := rnic.SendWR{Op: op, MR: mr, Length: 4096}, 52
		if op == rnic.OpSend {
			wr, length = rnic.SendWR{Op: op, SGL: [][]byte{make([]byte, 128)}}, 152
		}
		o.SetMSS(s.end.mss)
		for range 3 { // later batches are like the first
			w.Cork()
			for range n / 4 {
				post(t, s.qp, wr)
			}
			if !w.Uncork() {
				t.Fatal("nothing to send")
			}
			if err := o.Fill(); err != nil {
				t.Fatalf("Fill: %v", err)
			}
			pieces, _ := o.Pending()
			if all := len(bytes.Join(pieces, nil)); all != n/4*length {
				t.Errorf("%v: %d bytes in a batch, want %d FPDUs of %d", op, all, n/4, length)
			}
			o.Sent(n / 4 * length)
			if !o.b.empty() || !w.Rest() {
				t.Fatalf("%v: there is something left", op)
			}
		}
	}
}
