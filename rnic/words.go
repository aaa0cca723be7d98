// Names of the verbs' values, for logs, errors and tests; unknown values keep their number.

package rnic

import (
	"fmt"
	"strconv"
	"strings"
)

var statusNames = [...]string{WCSuccess: "success", WCFlushErr: "flushed: the QP ended before the work was done",
	WCLocErr: "local error: the work request is wrong", WCRemErr: "remote error: the peer refused it"}

// String returns a status's meaning.
func (s Status) String() string { return named(statusNames[:], uint8(s), "Status") }

var opcodeNames = [...]string{OpSend: "Send", OpSendInvalidate: "Send with Invalidate", OpSendSE: "Send with Solicited Event",
	OpSendSEInvalidate: "Send with Solicited Event and Invalidate", OpWrite: "RDMA Write", OpRead: "RDMA Read",
	OpReadInvalidate: "RDMA Read with Local Invalidate", OpLocalInvalidate: "Local Invalidate", OpRecv: "Receive",
	OpImmediate: "Immediate Data", OpImmediateSE: "Immediate Data with Solicited Event",
	OpFetchAdd: "FetchAdd", OpCmpSwap: "CmpSwap", OpSwap: "Swap",
	OpSendImmediate: "Send with Immediate", OpSendSEImmediate: "Send with Solicited Event and Immediate",
	OpWriteImmediate: "RDMA Write with Immediate", OpWriteSEImmediate: "RDMA Write with Solicited Event and Immediate",
	OpRecvWrite: "Receive of an RDMA Write"}

// String returns the RFC's name for the operation.
func (op Opcode) String() string { return named(opcodeNames[:], uint8(op), "Opcode") }

var crcNames = [...]string{CRCOn: "on", CRCAuto: "auto", CRCOff: "off", CRCStrict: "strict"}

// String returns the mode's name in commands: on, auto, off or strict.
func (m CRCMode) String() string { return named(crcNames[:], uint8(m), "CRCMode") }

var faultNames = [...]string{MemOK: "allowed", MemSTag: "invalid STag", MemAssoc: "STag of another protection domain or QP",
	MemAccess: "access right not granted", MemWrap: "offset wraps", MemBounds: "outside of the region", MemAlign: "not aligned"}

// String returns a fault's meaning.
func (f MemFault) String() string { return named(faultNames[:], uint8(f), "MemFault") }

var serviceNames = [...]string{RC: "reliable connection", UC: "unreliable connection", UD: "unreliable datagram"}

// String returns the InfiniBand name of the service.
func (s Service) String() string { return named(serviceNames[:], uint8(s), "Service") }

// named returns a value's name, or its type and number if it has none.
func named(names []string, v uint8, kind string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(int(v)) + ")"
}

// String returns the STag in hexadecimal, index and key together.
func (s STag) String() string { return fmt.Sprintf("0x%08x", uint32(s)) }

// String returns the rights, joined by "|", or "none".
func (a Access) String() string {
	return flags(uint8(a), "none", "LocalWrite", "RemoteRead", "RemoteWrite", "RemoteAtomic")
}

// flags returns the names of v's bits, from bit 0 up; bits without a name as a number.
func flags(v uint8, none string, names ...string) string {
	if v == 0 {
		return none
	}
	var has []string
	for i, name := range names {
		if v&(1<<i) != 0 {
			has = append(has, name)
			v &^= 1 << i
		}
	}
	if v != 0 {
		has = append(has, fmt.Sprintf("%#x", v))
	}
	return strings.Join(has, "|")
}

// String describes the completion: operation, ID, status, and the received data.
func (wc WC) String() string {
	s := fmt.Sprintf("%v %d: %v", wc.Op, wc.ID, wc.Status)
	if wc.Status != WCSuccess {
		return s
	}
	switch {
	case wc.Immediate && wc.Len > 0:
		s += fmt.Sprintf(", %d bytes, immediate data %#x", wc.Len, wc.Value)
	case wc.Immediate:
		s += fmt.Sprintf(", immediate data %#x", wc.Value)
	case wc.Op.IsAtomic():
		s += fmt.Sprintf(", was %#x", wc.Value)
	case wc.Op != OpLocalInvalidate:
		s += fmt.Sprintf(", %d bytes", wc.Len)
	}
	if wc.Invalidated != 0 {
		s += ", invalidated " + wc.Invalidated.String()
	}
	if wc.Solicited {
		s += ", solicited"
	}
	return s
}
