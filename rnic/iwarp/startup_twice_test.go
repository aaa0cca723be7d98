// A second connection started for a QP: it fails, and changes nothing.

package iwarp

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// TestSecondStartChangesNothing: a second start-up for a QP fails, and the first one's stream keeps
// its modes.
func TestSecondStartChangesNothing(t *testing.T) {
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	first, theirs := pipeTCP(t)
	s.c = theirs
	if err := streamOf(s.qp).start(&session{conn: first, modes: core.Modes{CRC: true}, ird: 1, ord: 1}); err != nil {
		t.Fatalf("the first start: %v", err)
	}
	second, _ := pipeTCP(t)
	err := streamOf(s.qp).start(&session{conn: second, modes: core.Modes{SendMarkers: true}, ird: 1, ord: 1})
	if !errors.Is(err, rnic.ErrState) {
		t.Errorf("the second start: %v, want %v", err, rnic.ErrState)
	}
	if err := s.qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{[]byte("data")}}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 1, 0, []byte("data")))
}
