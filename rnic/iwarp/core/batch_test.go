// The bounds of a batch, and the memory that it holds on to.

package core

import (
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestBatchOfManyPieces: a batch has no more ranges than one system call takes, however many small
// messages wait.
func TestBatchOfManyPieces(t *testing.T) {
	const n = 2 * MaxPieces
	s := newSide(t, rnic.DeviceConfig{}, n)
	s.end.start(Modes{}, 1, 1, false)
	w, o := &s.end.work, &s.end.out
	w.Collect()
	for range n {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, inlineMax+1)}})
	}
	if !w.Resume() {
		t.Fatal("nothing to send")
	}
	o.SetMSS(s.end.mss)
	most := 0
	for {
		if err := o.Fill(); err != nil {
			t.Fatal(err)
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

// TestSentBytesArePinnedByNobody: a region of which all that was asked for has been sent is not held any
// more, so that giving it back does not have to look at what waits to be sent.
func TestSentBytesArePinnedByNobody(t *testing.T) {
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

// TestIdleBatchHasNoLargeScratch: memory for much to send is there while there is much to send.
func TestIdleBatchHasNoLargeScratch(t *testing.T) {
	var b batch
	b.init(nil)
	b.reset()
	for b.full() == false {
		b.own(fpduScratch)
		b.endFPDU()
	}
	b.advance(b.left)
	b.reset()
	if cap(b.scratch) != batchScratch {
		t.Errorf("%d bytes of scratch after a batch that was cut short", cap(b.scratch))
	}
	b.shrink() // there was nothing to send
	if cap(b.scratch) != smallScratch {
		t.Errorf("%d bytes of scratch while there is nothing to send", cap(b.scratch))
	}
	b.reset()
	b.own(fpduScratch)
	b.advance(b.left)
	b.reset()
	if cap(b.scratch) != smallScratch {
		t.Errorf("%d bytes of scratch after a small batch", cap(b.scratch))
	}
}
