// The opcodes of RC, UC and UD: a packet's content, and its permitted successors.

package packet

import "strconv"

// Opcode describes a packet: bits 7 to 5 are the service, bits 4 to 0 the operation and the
// packet's position in its message (IBA 9.2, table 38).
type Opcode uint8

// The opcodes of RC (IBA table 38).
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAck                Opcode = 0x11
	RCAtomicAck          Opcode = 0x12
	RCCmpSwap            Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
)

// The opcodes of UC (IBA table 38 [IBU-197 IBU-208]).
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// The opcodes of UD (IBA table 38 [IBU-209 IBU-210]), and RoCEv2's congestion notification, with
// a payload of 16 reserved bytes (Annex A17, IBA 9.6 [IBU-186]).
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81
)

// Known reports whether the opcode is in the table; others are reserved (IBA table 38 [IBU-211]),
// or belong to an unsupported service.
func (op Opcode) Known() bool { return kinds[op].operation != 0 }

// String returns the packet's name in the table.
func (op Opcode) String() string {
	if !op.Known() {
		return "opcode 0x" + strconv.FormatUint(uint64(op), 16)
	}
	return kinds[op].name
}

// Service returns the opcode's transport service, also for reserved opcodes, so that a packet for
// another service's queue pair is detected before its opcode (IBA 9.6 [IBU-176]).
func (op Opcode) Service() Service { return Service(op >> 5) }

// Operation returns the message's operation; 0 for a reserved opcode.
func (op Opcode) Operation() Operation { return kinds[op].operation }

// Carries reports whether the packet has all extended headers in e.
func (op Opcode) Carries(e Ext) bool { return kinds[op].ext&e == e }

// HeaderLen returns the size of BTH and extended headers.
func (op Opcode) HeaderLen() int { return BTHLen + int(kinds[op].extLen) }

// Payload reports whether payload can follow the headers.
func (op Opcode) Payload() bool { return kinds[op].operation.payload() }

// Starts reports whether the packet is the first of its message: First or Only.
func (op Opcode) Starts() bool { return kinds[op].position&starts != 0 }

// Ends reports whether the packet is the last of its message: Last or Only.
func (op Opcode) Ends() bool { return kinds[op].position&ends != 0 }

// CanFollow reports whether the packet may follow one with opcode prev in the same direction on
// the same queue pair: a message continues until its end, then another begins (IBA 9.8.2.2.2
// [IBU-087]; RC the same, 9.7). Without a previous packet use Starts. Requests and responses are
// separate sequences. An Acknowledge may interrupt Read responses, as a NAK that aborts them.
func (op Opcode) CanFollow(prev Opcode) bool {
	k, p := &kinds[op], &kinds[prev]
	switch {
	case k.position == 0 || p.position == 0 || op.Service() != prev.Service():
		return false // CNPs and reserved opcodes are outside every sequence
	case k.operation.Response() != p.operation.Response():
		return false
	case k.operation == OpAck:
		return true
	case prev.Ends():
		return op.Starts()
	}
	return !op.Starts() && k.operation == p.operation
}
