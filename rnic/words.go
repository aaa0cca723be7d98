// The values of the verbs in words, for logs, errors and tests; unknown values keep their number.

package rnic

import (
	"fmt"
	"strconv"
	"strings"
)

var statusNames = [...]string{WCSuccess: "success", WCFlushErr: "flushed: the QP ended before the work was done",
	WCLocErr: "local error: the work request is wrong", WCRemErr: "remote error: the peer refused it"}

// String is what a status means.
func (s Status) String() string { return named(statusNames[:], uint8(s), "Status") }

var opcodeNames = [...]string{OpSend: "Send", OpSendInvalidate: "Send with Invalidate", OpSendSE: "Send with Solicited Event",
	OpSendSEInvalidate: "Send with Solicited Event and Invalidate", OpWrite: "RDMA Write", OpRead: "RDMA Read",
	OpReadInvalidate: "RDMA Read with Local Invalidate", OpLocalInvalidate: "Local Invalidate", OpRecv: "Receive",
	OpImmediate: "Immediate Data", OpImmediateSE: "Immediate Data with Solicited Event",
	OpFetchAdd: "FetchAdd", OpCmpSwap: "CmpSwap", OpSwap: "Swap",
	OpSendImmediate: "Send with Immediate", OpSendSEImmediate: "Send with Solicited Event and Immediate",
	OpWriteImmediate: "RDMA Write with Immediate", OpWriteSEImmediate: "RDMA Write with Solicited Event and Immediate",
	OpRecvWrite: "Receive of an RDMA Write"}

// String is the RFC's name of the operation.
func (op Opcode) String() string { return named(opcodeNames[:], uint8(op), "Opcode") }

var crcNames = [...]string{CRCOn: "on", CRCAuto: "auto", CRCOff: "off", CRCStrict: "strict"}

// String is the mode as commands name it: on, auto, off or strict.
func (m CRCMode) String() string { return named(crcNames[:], uint8(m), "CRCMode") }

var faultNames = [...]string{MemOK: "allowed", MemSTag: "invalid STag", MemAssoc: "STag of another protection domain or QP",
	MemAccess: "access right not granted", MemWrap: "offset wraps", MemBounds: "outside of the region", MemAlign: "not aligned"}

// String is what a fault means.
func (f MemFault) String() string { return named(faultNames[:], uint8(f), "MemFault") }

var serviceNames = [...]string{RC: "reliable connection", UC: "unreliable connection", UD: "unreliable datagram"}

// String is the service as the InfiniBand architecture names it.
func (s Service) String() string { return named(serviceNames[:], uint8(s), "Service") }

// named is the name of a value, or its type and number where it has none.
func named(names []string, v uint8, kind string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(int(v)) + ")"
}

// String is the STag in hexadecimal, index and key together.
func (s STag) String() string { return fmt.Sprintf("0x%08x", uint32(s)) }

// String is the rights, joined by "|"; none for no right.
func (a Access) String() string {
	return flags(uint8(a), "none", "LocalWrite", "RemoteRead", "RemoteWrite", "RemoteAtomic")
}

// flags is the names of the bits that v has, from bit 0 up; bits without a name as a number.
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

// String is the completion in words: operation, ID, how it ended, and what came.
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
