// The values of the verbs in words.

package rnic

import (
	"fmt"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, row := range []struct {
		value fmt.Stringer
		want  string
	}{
		{WCSuccess, "success"}, {WCFlushErr, "flushed: the QP ended before the work was done"}, {Status(9), "Status(9)"},
		{OpSendSE, "Send with Solicited Event"}, {OpSwap, "Swap"}, {Opcode(77), "Opcode(77)"},
		{CRCAuto, "auto"}, {CRCMode(9), "CRCMode(9)"}, {StateRTS, "RTS"}, {State(9), "State(9)"},
		{STag(0x1f), "0x0000001f"}, {Access(0), "none"}, {LocalWrite | RemoteAtomic, "LocalWrite|RemoteAtomic"}, {RemoteRead | 0x40, "RemoteRead|0x40"},
		{RTR(0), "none"}, {RTRSend | RTRRead, "Read|Send"},
		{WC{ID: 7, Op: OpRecv, Len: 12, Invalidated: 0x1200, Solicited: true}, "Receive 7: success, 12 bytes, invalidated 0x00001200, solicited"},
		{WC{ID: 1, Op: OpRecv, Immediate: true, Value: 255}, "Receive 1: success, immediate data 0xff"},
		{WC{ID: 2, Op: OpFetchAdd, Len: 8, Value: 3}, "FetchAdd 2: success, was 0x3"},
		{WC{ID: 3, Op: OpLocalInvalidate}, "Local Invalidate 3: success"},
		{WC{ID: 4, Op: OpWrite, Len: 5, Status: WCRemErr}, "RDMA Write 4: remote error: the peer refused it"},
	} {
		if got := row.value.String(); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
	for op := OpSend; op <= OpSwap; op++ {
		if strings.HasPrefix(op.String(), "Opcode(") {
			t.Errorf("opcode %d has no name", uint8(op))
		}
	}
	for s := WCSuccess; s <= WCRemErr; s++ {
		if strings.HasPrefix(s.String(), "Status(") {
			t.Errorf("status %d has no name", uint8(s))
		}
	}
	if got := fmt.Sprint(WC{Op: OpSend, Status: WCFlushErr}); !strings.HasPrefix(got, "Send 0: flushed") {
		t.Errorf("printed: %s", got)
	}
}
