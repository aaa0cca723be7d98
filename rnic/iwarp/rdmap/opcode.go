// RDMAP opcodes: the RFCs' table of messages, and a receiver's checks against it.

// Package rdmap implements the messages of Remote Direct Memory Access Protocol (RFC 5040, with
// the extensions of RFC 7306): bytes to values and back.
package rdmap

import (
	"strconv"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Opcode is an RDMAP message's type (RFC 5040 §4.3, RFC 7306 §4).
type Opcode uint8

// The opcodes.
const (
	OpWrite            Opcode = 0
	OpReadRequest      Opcode = 1
	OpReadResponse     Opcode = 2
	OpSend             Opcode = 3
	OpSendInvalidate   Opcode = 4
	OpSendSE           Opcode = 5
	OpSendSEInvalidate Opcode = 6
	OpTerminate        Opcode = 7
	OpImmediate        Opcode = 8
	OpImmediateSE      Opcode = 9
	OpAtomicRequest    Opcode = 10
	OpAtomicResponse   Opcode = 11
)

// kind is one row in the message table.
type kind struct {
	name       string
	tagged     bool
	queue      uint32 // untagged only
	header     int    // bytes of RDMAP header after the DDP header; Terminate: the minimum
	payload    bool   // ULP payload follows
	invalidate bool   // the RsvdULP word of the DDP header is an STag
	solicited  bool   // requests an event at the receiver
}

var kinds = [...]kind{
	OpWrite:            {name: "RDMA Write", tagged: true, payload: true},
	OpReadRequest:      {name: "RDMA Read Request", queue: 1, header: ReadRequestLen},
	OpReadResponse:     {name: "RDMA Read Response", tagged: true, payload: true},
	OpSend:             {name: "Send", payload: true},
	OpSendInvalidate:   {name: "Send with Invalidate", payload: true, invalidate: true},
	OpSendSE:           {name: "Send with Solicited Event", payload: true, solicited: true},
	OpSendSEInvalidate: {name: "Send with Solicited Event and Invalidate", payload: true, invalidate: true, solicited: true},
	OpTerminate:        {name: "Terminate", queue: 2, header: 4},
	OpImmediate:        {name: "Immediate Data", header: ImmediateLen},
	OpImmediateSE:      {name: "Immediate Data with Solicited Event", header: ImmediateLen, solicited: true},
	OpAtomicRequest:    {name: "Atomic Request", queue: 1, header: AtomicRequestLen},
	OpAtomicResponse:   {name: "Atomic Response", queue: 3, header: AtomicResponseLen},
}

var unknown kind // row for an opcode that is not in the table

// known reports whether the RFCs define the opcode.
func (op Opcode) known() bool { return int(op) < len(kinds) }

func (op Opcode) row() *kind {
	if op.known() {
		return &kinds[op]
	}
	return &unknown
}

// String returns the message's name in the RFC.
func (op Opcode) String() string {
	if op.known() {
		return kinds[op].name
	}
	return "RDMAP opcode " + strconv.Itoa(int(op))
}

// Payload reports whether ULP payload may follow the headers.
func (op Opcode) Payload() bool { return op.row().payload }

// Invalidates reports whether the message carries an STag to be invalidated.
func (op Opcode) Invalidates() bool { return op.row().invalidate }

// Solicited reports whether the message requests an event at the receiver.
func (op Opcode) Solicited() bool { return op.row().solicited }

// IsSend reports whether the message is a Send, of any kind.
func (op Opcode) IsSend() bool { return op >= OpSend && op <= OpSendSEInvalidate }

// Errors found by the table alone.
var (
	errVersion = term.New(term.RDMAPVersion, "")
	errOpcode  = term.New(term.RDMAPOpcode, "opcode not defined")
	errModel   = term.New(term.RDMAPOpcode, "opcode does not go with this kind of DDP segment")
	errQueue   = term.New(term.RDMAPOpcode, "opcode does not go with this queue")
	errQN      = term.New(term.DDPInvalidQN, "")
)

// RDMAP control byte (RFC 5040 §4.1): RV 0xc0, reserved 0x30 (sent as zero, ignored), opcode 0x0f.
const (
	version    byte = 1 << 6
	maskRV     byte = 0xc0
	maskOpcode byte = 0x0f
)

// Control returns a message's RDMAP control byte.
func Control(op Opcode) byte { return version | byte(op)&maskOpcode }

// ParseControl parses an RDMAP control byte. Its errors are *term.Error.
func ParseControl(b byte) (Opcode, error) {
	op := Opcode(b & maskOpcode)
	if b&maskRV != version {
		return op, errVersion
	}
	if !op.known() {
		return op, errOpcode
	}
	return op, nil
}

// Check checks whether a known opcode came in the right kind of segment, on the right queue. qn
// matters only for untagged segments. Its errors are *term.Error.
func (op Opcode) Check(tagged bool, qn uint32) error {
	k := op.row()
	switch {
	case tagged != k.tagged:
		return errModel
	case tagged || qn == k.queue:
		return nil
	case qn > 2: // queue 3 exists only for Atomic Responses
		return errQN
	}
	return errQueue
}
