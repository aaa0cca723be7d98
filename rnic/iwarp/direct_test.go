// Payload that is read straight into its memory, over TCP; the rules are tested in core.

package iwarp

import (
	"bytes"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// until waits for cond, which the receive loop makes true.
func until(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("never happened")
		}
	}
}

// TestDirectSinkRevoked: no byte is placed after the sink of Reads is revoked while their responses
// arrive.
func TestDirectSinkRevoked(t *testing.T) {
	cfg := rnic.DeviceConfig{CRC: rnic.CRCOff}
	a, b := joined(t, cfg, cfg, 64)
	mem := make([]byte, 1<<20)
	mr, _ := b.pd.RegMR(bytes.Repeat([]byte{7}, len(mem)), rnic.RemoteRead)
	const reads = 30
	for done := reads; done == reads; { // again if all were answered before this goroutine ran
		sink, _ := a.pd.RegMR(mem, rnic.LocalWrite)
		for i := range uint64(reads) {
			post(t, a.qp, rnic.SendWR{ID: i, Op: rnic.OpRead, MR: sink, Length: 1 << 20, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		}
		a.want(t, rnic.OpRead, 0, rnic.WCSuccess)
		sink.Invalidate()
		clear(mem)
		for done = 1; done < reads && a.next(t).Status == rnic.WCSuccess; done++ {
		}
	}
	a.wantEnd(t, term.New(term.DDPInvalidSTag, ""))
	a.qp.Close()
	b.qp.Close()
	if !bytes.Equal(mem, make([]byte, len(mem))) {
		t.Fatal("bytes were placed after Invalidate")
	}
}

// TestBuffersOnlyWithInput: a QP that waits for input, or has ended, holds no buffer. It gets a
// large buffer only after a read has filled the small one.
func TestBuffersOnlyWithInput(t *testing.T) {
	s := newSide(t, rnic.DeviceConfig{}, 4)
	r := &streamOf(s.qp).rx
	r.start(core.Modes{CRC: true}, nil)
	l := &fillingLink{}
	for _, want := range []int{rxBufMin, rxBufMax} {
		if err := r.fill(l); err != nil || r.w != want {
			t.Fatalf("fill: %v, %d bytes, want %d", err, r.w, want)
		}
	}
	if r.wide == nil {
		t.Fatal("no large buffer for a busy QP")
	}
	r.r = r.w - 1
	r.aim()
	if r.release(0, true); r.wide == nil || r.w != 1 {
		t.Fatal("the beginning of an FPDU was thrown away")
	}
	r.r, r.w = 1, 1
	r.aim()
	r.release(0, true)
	if none := r.wide == nil && r.small == nil; !none || r.buf != nil {
		t.Fatalf("an idle QP has a buffer of %d bytes", len(r.buf))
	}
}

// A fillingLink fills each buffer that it gets.
type fillingLink struct{ link }

func (*fillingLink) read(s sink) (int, error) {
	_, p, _ := s.aim()
	s.release(len(p), false)
	return len(p), nil
}
