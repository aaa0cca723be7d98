// The opcode table: names, positions in a message, extended headers.

package packet

import "strconv"

// Service is a transport service: bits 7 to 5 of the opcode.
type Service uint8

// The services with opcodes in the table; ServiceCNP is only for congestion notifications.
const (
	RC         Service = 0
	UC         Service = 1
	UD         Service = 3
	ServiceCNP Service = 4
)

// String returns the service's abbreviation.
func (s Service) String() string {
	switch s {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case ServiceCNP:
		return "CNP"
	}
	return "service " + strconv.Itoa(int(s))
}

// Operation is the operation of a packet's message.
type Operation uint8

// The operations. OpSend and OpWrite include the variants with immediate data or Invalidate: only
// the message's last packet shows those.
const (
	OpSend Operation = iota + 1
	OpWrite
	OpReadRequest
	OpReadResponse
	OpAck
	OpAtomicAck
	OpCmpSwap
	OpFetchAdd
	OpCNP
)

// Response reports whether the responder sends the operation.
func (o Operation) Response() bool { return o == OpReadResponse || o == OpAck || o == OpAtomicAck }

func (o Operation) payload() bool {
	return o == OpSend || o == OpWrite || o == OpReadResponse || o == OpCNP
}

// Ext is a set of extended headers.
type Ext uint8

// The extended headers, in wire order (IBA 9.3).
const (
	ExtDETH Ext = 1 << iota
	ExtRETH
	ExtAtomicETH
	ExtAETH
	ExtAtomicAckETH
	ExtImmDt
	ExtIETH
)

// len returns the total size of the headers in e.
func (e Ext) len() (n int) {
	for i, size := range [...]int{DETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen, IETHLen} {
		if e&(1<<i) != 0 {
			n += size
		}
	}
	return n
}

// position is a packet's position in its message.
type position uint8

const (
	starts position = 1 << iota
	ends
	inside // always set: a position is never 0

	first  = inside | starts
	middle = inside
	last   = inside | ends
	only   = inside | starts | ends
)

// kind is one table row.
type kind struct {
	name      string
	operation Operation
	position  position
	ext       Ext
	extLen    uint8 // of ext
}

// kinds has a row for each byte value, so that lookups need no bounds check.
var kinds = func() (t [256]kind) {
	message := func(s Service, o Operation, name string, base Opcode, write Ext) {
		for i, k := range [...]kind{
			{" First", o, first, write, 0},
			{" Middle", o, middle, 0, 0},
			{" Last", o, last, 0, 0},
			{" Last with Immediate", o, last, ExtImmDt, 0},
			{" Only", o, only, write, 0},
			{" Only with Immediate", o, only, write | ExtImmDt, 0},
		} {
			k.name = s.String() + name + k.name
			t[base+Opcode(i)] = k
		}
	}
	message(RC, OpSend, " SEND", RCSendFirst, 0)
	message(RC, OpWrite, " RDMA WRITE", RCWriteFirst, ExtRETH)
	message(UC, OpSend, " SEND", UCSendFirst, 0)
	message(UC, OpWrite, " RDMA WRITE", UCWriteFirst, ExtRETH)
	t[RCReadRequest] = kind{"RC RDMA READ Request", OpReadRequest, only, ExtRETH, 0}
	t[RCReadResponseFirst] = kind{"RC RDMA READ response First", OpReadResponse, first, ExtAETH, 0}
	t[RCReadResponseMiddle] = kind{"RC RDMA READ response Middle", OpReadResponse, middle, 0, 0}
	t[RCReadResponseLast] = kind{"RC RDMA READ response Last", OpReadResponse, last, ExtAETH, 0}
	t[RCReadResponseOnly] = kind{"RC RDMA READ response Only", OpReadResponse, only, ExtAETH, 0}
	t[RCAck] = kind{"RC Acknowledge", OpAck, only, ExtAETH, 0}
	t[RCAtomicAck] = kind{"RC ATOMIC Acknowledge", OpAtomicAck, only, ExtAETH | ExtAtomicAckETH, 0}
	t[RCCmpSwap] = kind{"RC CmpSwap", OpCmpSwap, only, ExtAtomicETH, 0}
	t[RCFetchAdd] = kind{"RC FetchAdd", OpFetchAdd, only, ExtAtomicETH, 0}
	t[RCSendLastInv] = kind{"RC SEND Last with Invalidate", OpSend, last, ExtIETH, 0}
	t[RCSendOnlyInv] = kind{"RC SEND Only with Invalidate", OpSend, only, ExtIETH, 0}
	t[UDSendOnly] = kind{"UD SEND Only", OpSend, only, ExtDETH, 0}
	t[UDSendOnlyImm] = kind{"UD SEND Only with Immediate", OpSend, only, ExtDETH | ExtImmDt, 0}
	t[CNP] = kind{"CNP", OpCNP, 0, 0, 0}
	for i := range t {
		t[i].extLen = uint8(t[i].ext.len())
	}
	return t
}()
