// The names of the verbs' values.

package rnic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

func TestWords(t *testing.T) {
	for _, row := range []struct {
		value fmt.Stringer
		want  string
	}{
		{rnic.WCSuccess, "success"}, {rnic.WCFlushErr, "flushed: the QP ended before the work was done"}, {rnic.Status(9), "Status(9)"},
		{rnic.OpSendSE, "Send with Solicited Event"}, {rnic.OpSwap, "Swap"}, {rnic.Opcode(77), "Opcode(77)"},
		{rnic.CRCAuto, "auto"}, {rnic.CRCMode(9), "CRCMode(9)"}, {rnic.StateRTS, "RTS"}, {rnic.State(9), "State(9)"},
		{rnic.STag(0x1f), "0x0000001f"}, {rnic.Access(0), "none"}, {rnic.LocalWrite | rnic.RemoteAtomic, "LocalWrite|RemoteAtomic"}, {rnic.RemoteRead | 0x40, "RemoteRead|0x40"},
		{rnic.MemBounds, "outside of the region"}, {rnic.MemFault(99), "MemFault(99)"}, {rnic.UD, "unreliable datagram"},
		{rnic.WC{ID: 7, Op: rnic.OpRecv, Len: 12, Invalidated: 0x1200, Solicited: true}, "Receive 7: success, 12 bytes, invalidated 0x00001200, solicited"},
		{rnic.WC{ID: 1, Op: rnic.OpRecv, Immediate: true, Value: 255}, "Receive 1: success, immediate data 0xff"},
		{rnic.WC{ID: 1, Op: rnic.OpRecvWrite, Immediate: true, Value: 255, Len: 9}, "Receive of an RDMA Write 1: success, 9 bytes, immediate data 0xff"},
		{rnic.WC{ID: 2, Op: rnic.OpFetchAdd, Len: 8, Value: 3}, "FetchAdd 2: success, was 0x3"},
		{rnic.WC{ID: 3, Op: rnic.OpLocalInvalidate}, "Local Invalidate 3: success"},
		{rnic.WC{ID: 4, Op: rnic.OpWrite, Len: 5, Status: rnic.WCRemErr}, "RDMA Write 4: remote error: the peer refused it"},
	} {
		if got := row.value.String(); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
	for op := rnic.OpSend; op <= rnic.OpRecvWrite; op++ {
		if strings.HasPrefix(op.String(), "Opcode(") {
			t.Errorf("opcode %d has no name", uint8(op))
		}
	}
	for s := rnic.WCSuccess; s <= rnic.WCRemErr; s++ {
		if strings.HasPrefix(s.String(), "Status(") {
			t.Errorf("status %d has no name", uint8(s))
		}
	}
	if got := fmt.Sprint(rnic.WC{Op: rnic.OpSend, Status: rnic.WCFlushErr}); !strings.HasPrefix(got, "Send 0: flushed") {
		t.Errorf("printed: %s", got)
	}
}
