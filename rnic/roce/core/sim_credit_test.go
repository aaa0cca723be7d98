// RC with end-to-end flow control over a network that loses, duplicates, delays, reorders and
// damages datagrams.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// credits is a side's use of end-to-end flow control.
type credits struct{ obeys, gives bool }

// With end-to-end flow control, too, all requests are executed once and in order: nothing waits
// forever, and messages wait for posted receives.
func TestSimulatedRCCredits(t *testing.T) {
	simSeeds(t, func(t *testing.T, seed uint64) {
		all := credits{true, true}
		simulateRCWith(t, seed, [][2]credits{{all, all}, {all, all}, {all, {}}, {{}, all}, {{obeys: true}, {obeys: true}}}[seed%5])
	})
}

// credited checks that the messages sent that need a receive exceed the peer's posted receives by
// at most one.
func (w *world) credited(s *side, high uint32, b []byte) {
	h, _, err := packet.Parse(append(b[:len(b):len(b)], make([]byte, packet.ICRCLen)...))
	if err != nil {
		w.t.Fatalf("Parse: %v", err)
	}
	receives := w.receives[s]
	op := h.Opcode.Operation()
	if receives == nil || h.PSN != high || !(op == packet.OpSend && h.Opcode.Starts() || op == packet.OpWrite && h.Opcode.Carries(packet.ExtImmDt)) {
		return
	}
	if w.needed[s]++; w.needed[s] > receives()+1 {
		w.t.Fatalf("%v: message %d that needs a receive, and the peer has posted %d", s.qp, w.needed[s], receives())
	}
}
