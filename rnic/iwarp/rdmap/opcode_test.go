// The opcode table against the RFCs', and the control byte.

package rdmap

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

var table = []struct {
	op                             Opcode
	ctrl                           byte
	name                           string
	tagged                         bool
	queue                          uint32
	header                         int
	payload, invalidate, solicited bool
}{
	{OpWrite, 0x40, "RDMA Write", true, 0, 0, true, false, false},
	{OpReadRequest, 0x41, "RDMA Read Request", false, 1, 28, false, false, false},
	{OpReadResponse, 0x42, "RDMA Read Response", true, 0, 0, true, false, false},
	{OpSend, 0x43, "Send", false, 0, 0, true, false, false},
	{OpSendInvalidate, 0x44, "Send with Invalidate", false, 0, 0, true, true, false},
	{OpSendSE, 0x45, "Send with Solicited Event", false, 0, 0, true, false, true},
	{OpSendSEInvalidate, 0x46, "Send with Solicited Event and Invalidate", false, 0, 0, true, true, true},
	{OpTerminate, 0x47, "Terminate", false, 2, 4, false, false, false},
	{OpImmediate, 0x48, "Immediate Data", false, 0, 8, false, false, false},
	{OpImmediateSE, 0x49, "Immediate Data with Solicited Event", false, 0, 8, false, false, true},
	{OpAtomicRequest, 0x4a, "Atomic Request", false, 1, 52, false, false, false},
	{OpAtomicResponse, 0x4b, "Atomic Response", false, 3, 12, false, false, false},
}

// TestTable: each opcode has the RFC's name, control byte, queue and header length (RFC 5040 §4.1
// [R5040-024 R5040-025 R5040-027 R5040-028 R5040-029 R5040-030 R5040-031 R5040-032 R5040-033
// R5040-034 R5040-035 R5040-037 R5040-038 R5040-040], RFC 5040 §4.2 [R5040-044 R5040-045]).
func TestTable(t *testing.T) {
	conformance.Proves(t, "R5040-024", "R5040-025", "R5040-027", "R5040-028", "R5040-029", "R5040-030", "R5040-031", "R5040-032",
		"R5040-033", "R5040-034", "R5040-035", "R5040-037", "R5040-038", "R5040-040", "R5040-044", "R5040-045", "R5040-046",
		"R5040-088", "R5040-097", "R5040-112", "R5040-120", "R5040-121", "R5040-137")
	for i, w := range table {
		op := w.op
		if int(op) != i || !op.known() || op.String() != w.name || Control(op) != w.ctrl {
			t.Errorf("opcode %d: %v, control %#x, want %+v", i, op, Control(op), w)
		}
		if row := op.row(); row.tagged != w.tagged || row.queue != w.queue || row.header != w.header {
			t.Errorf("%v: %+v, want %+v", op, *row, w)
		}
		if op.Payload() != w.payload || op.Invalidates() != w.invalidate || op.Solicited() != w.solicited {
			t.Errorf("%v: payload %v, invalidates %v, solicited %v, want %+v", op, op.Payload(), op.Invalidates(), op.Solicited(), w)
		}
		if op.IsSend() != (i >= 3 && i <= 6) {
			t.Errorf("%v: IsSend %v", op, op.IsSend())
		}
	}
	op := Opcode(13)
	if got := op.String(); got != "RDMAP opcode 13" {
		t.Errorf("opcode 13 is %q", got)
	}
	if op.known() || *op.row() != (kind{}) {
		t.Errorf("opcode 13 is known %v, as %+v", op.known(), *op.row())
	}
}

// In every byte the version is checked first, then the opcode; reserved bits are ignored (RFC 5040
// §4.1 [R5040-036 R5040-041], RFC 5040 §4.8 [R5040-071 R5040-072]).
func TestParseControl(t *testing.T) {
	conformance.Proves(t, "R5040-036", "R5040-039", "R5040-041", "R5040-071", "R5040-072", "R5040-193", "R5040-194", "R5040-272",
		"R5044-175")
	for o := range 256 {
		op, err := ParseControl(byte(o))
		var want error
		switch {
		case o>>6 != 1:
			want = errVersion
		case o&15 > 11:
			want = errOpcode
		}
		if !errors.Is(err, want) || int(op) != o&15 {
			t.Errorf("%#02x: %v, %v; want %v", o, op, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	conformance.Proves(t, "R5040-004", "R5040-005", "R5040-006", "R5040-072", "R5040-193")
	for _, w := range table {
		for qn := range uint32(6) {
			for _, tagged := range []bool{false, true} {
				var want error
				switch {
				case tagged != w.tagged:
					want = errModel
				case tagged || qn == w.queue:
				case qn > 2:
					want = errQN
				default:
					want = errQueue
				}
				if err := w.op.Check(tagged, qn); !errors.Is(err, want) {
					t.Errorf("%v, tagged %v, QN %d: %v, want %v", w.op, tagged, qn, err, want)
				}
			}
		}
	}
}

func TestCodes(t *testing.T) {
	conformance.Proves(t, "R5040-071", "R5040-072", "R5040-073")
	for err, want := range map[error]term.Code{
		errVersion: {Layer: 0, EType: 2, Code: 5}, errOpcode: {Layer: 0, EType: 2, Code: 6},
		errModel: {Layer: 0, EType: 2, Code: 6}, errQueue: {Layer: 0, EType: 2, Code: 6},
		errQN: {Layer: 1, EType: 2, Code: 1}, errReadLong: {Layer: 1, EType: 2, Code: 5},
		errReadShort: {Layer: 0, EType: 2, Code: 7},
	} {
		if code, _ := term.CodeOf(err); code != want {
			t.Errorf("%v: code %v, want %v", err, code, want)
		}
	}
}
