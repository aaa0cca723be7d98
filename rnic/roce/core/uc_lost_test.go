// The UC responder: incomplete Writes, and reserved opcodes.

package core

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// A Write with a lost packet may have written a part; only complete ones are reported.
func TestPartOfALostWrite(t *testing.T) {
	conformance.Proves(t, "IBU-122")
	s := responder(t, rnic.RemoteWrite)
	s.recv(1, 10)
	mr, mem := s.host.region(t, 1000, rnic.RemoteWrite)
	s.take(s.say(packet.UCWriteFirst, 100, pattern(256, 1), to(mr, 0, 768)))
	s.dropped(s.say(packet.UCWriteLastImm, 102, pattern(256, 3)), DropPSN)
	if !bytes.Equal(mem[:256], pattern(256, 1)) || !bytes.Equal(mem[256:], make([]byte, 744)) {
		t.Error("other than the first packet was written")
	}
}

// Reserved UC opcodes are dropped, within and between messages.
func TestReservedOpcodesOfUC(t *testing.T) {
	conformance.Proves(t, "IBU-090", "IBU-091", "IBU-164", "IBU-211")
	for op := packet.Opcode(0x2c); op <= 0x3f; op++ {
		s := responder(t, rnic.RemoteWrite)
		s.recv(1, 600)
		s.dropped(s.say(op, 100, make([]byte, 16)), DropReserved)
		s.take(s.say(packet.UCSendFirst, 101, pattern(256, 1)))
		s.dropped(s.say(op, 102, nil), DropReserved)
		s.dropped(s.say(packet.UCSendLast, 103, []byte("x")), DropSequence)
		s.take(s.say(packet.UCSendOnly, 104, []byte("y")))
		s.want(rnic.OpRecv, 1, 1)
	}
}
