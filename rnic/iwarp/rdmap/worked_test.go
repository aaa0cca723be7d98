// Complete FPDUs, computed by hand, through all three codecs and back.

package rdmap_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

var (
	readRequest = rdmap.ReadRequest{SinkSTag: 0x00cd3401, SinkTO: 0x10000, Size: 6, SrcSTag: 0x00ef5602, SrcTO: 0x20000}
	readHeader  = ddp.Header{Last: true, QN: ddp.QNRead, MSN: 1}
	writeHeader = ddp.Header{Tagged: true, STag: 0x00ab1207, TO: 0x7f0000001000}
	invHeader   = ddp.Header{Last: true, Inv: 0x1a2b3c05, MSN: 2}
	termHeader  = ddp.Header{Last: true, QN: ddp.QNTerminate, MSN: 1}
)

// segment returns h with the control byte of op.
func segment(op rdmap.Opcode, h ddp.Header) ddp.Header {
	h.Ctrl = rdmap.Control(op)
	return h
}

// returned returns the DDP header that a Terminate has of the refused segment.
func returned(op rdmap.Opcode, h ddp.Header) []byte {
	h = segment(op, h)
	return h.Append(nil)
}

func terminate(t term.Terminate) string { return string(t.Append(nil)) }

// Each FPDU has its CRC and no markers.
var worked = []struct {
	name    string
	op      rdmap.Opcode
	h       ddp.Header
	payload string
	fpdu    string
}{
	{"Send hello", rdmap.OpSend, ddp.Header{Last: true, MSN: 1}, "hello",
		"0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c"},
	{"Send in two segments, first", rdmap.OpSend, ddp.Header{MSN: 4}, "0123456789:;",
		"001e 0143 00000000 00000000 00000004 00000000 303132333435363738393a3b 184c9b01"},
	{"Send in two segments, second", rdmap.OpSend, ddp.Header{Last: true, MSN: 4, MO: 12}, "<=>?@",
		"0017 4143 00000000 00000000 00000004 0000000c 3c3d3e3f40 000000 b0869853"},
	{"Send with Invalidate", rdmap.OpSendInvalidate, invHeader, "done",
		"0016 4144 1a2b3c05 00000000 00000002 00000000 646f6e65 74fe729c"},
	{"zero-length Send with SE", rdmap.OpSendSE, ddp.Header{Last: true, MSN: 3}, "",
		"0012 4145 00000000 00000000 00000003 00000000 331b7c71"},
	{"zero-length Send, an RTR", rdmap.OpSend, ddp.Header{Last: true, MSN: 1}, "",
		"0012 4143 00000000 00000000 00000001 00000000 587be8c4"},
	{"RDMA Write, first segment", rdmap.OpWrite, writeHeader, "ABCDEFGH",
		"0016 8140 00ab1207 00007f0000001000 4142434445464748 9356a29a"},
	{"RDMA Write, second segment", rdmap.OpWrite, ddp.Header{Tagged: true, Last: true, STag: 0x00ab1207, TO: 0x7f0000001008}, "IJKLM",
		"0013 c140 00ab1207 00007f0000001008 494a4b4c4d 000000 f7d5a7c0"},
	{"zero-length RDMA Write, an RTR", rdmap.OpWrite, ddp.Header{Tagged: true, Last: true, STag: 1}, "",
		"000e c140 00000001 0000000000000000 ebd34c5f"},
	{"Read Request", rdmap.OpReadRequest, readHeader, string(readRequest.Append(nil)),
		"002e 4141 00000000 00000001 00000001 00000000 00cd3401 0000000000010000 00000006 00ef5602 0000000000020000 cdb01e86"},
	{"Read Response", rdmap.OpReadResponse, ddp.Header{Tagged: true, Last: true, STag: 0x00cd3401, TO: 0x10000}, "abcdef",
		"0014 c142 00cd3401 0000000000010000 616263646566 0000 ab69a16a"},
	{"zero-length Read Response", rdmap.OpReadResponse, ddp.Header{Tagged: true, Last: true, STag: 0x00cd3401, TO: 0x10000}, "",
		"000e c142 00cd3401 0000000000010000 196d55d2"},
	{"Terminate 1/1/00 for the Write", rdmap.OpTerminate, termHeader,
		terminate(term.Terminate{Code: term.DDPInvalidSTag, HasSegLen: true, SegLen: 0x16, DDP: returned(rdmap.OpWrite, writeHeader)}),
		"0026 4147 00000000 00000002 00000001 00000000 1100c000 0016 8140 00ab1207 00007f0000001000 43739b93"},
	{"Terminate 0/1/01 for the Read Request", rdmap.OpTerminate, termHeader,
		terminate(term.Terminate{Code: term.RDMAPBounds, HasSegLen: true, SegLen: 0x2e,
			DDP: returned(rdmap.OpReadRequest, readHeader), RDMA: readRequest.Append(nil)}),
		"0046 4147 00000000 00000002 00000001 00000000 0101e000 002e 4141 00000000 00000001 00000001 00000000 " +
			"00cd3401 0000000000010000 00000006 00ef5602 0000000000020000 b29bbba6"},
	{"Terminate 0/1/09 for the Send with Invalidate", rdmap.OpTerminate, termHeader,
		terminate(term.Terminate{Code: term.RDMAPForeignInvalidate, HasSegLen: true, SegLen: 0x16, DDP: returned(rdmap.OpSendInvalidate, invHeader)}),
		"002a 4147 00000000 00000002 00000001 00000000 0109c000 0016 4144 1a2b3c05 00000000 00000002 00000000 b3e32da1"},
	{"Terminate 2/0/02", rdmap.OpTerminate, termHeader, terminate(term.Terminate{Code: term.MPACRC}),
		"0016 4147 00000000 00000002 00000001 00000000 20020000 7fe42585"},
}

// TestWorked: each FPDU is built and parsed as computed by hand (RFC 5040 §4.1 [R5040-026 R5040-028
// R5040-029 R5040-030 R5040-031 R5040-032 R5040-033 R5040-034 R5040-035], RFC 5040 §4.2
// [R5040-045], RFC 5040 §4.8 [R5040-054], RFC 5041 §3 [R5041-014], RFC 5041 §4.2 [R5041-032], RFC
// 5041 §4.3 [R5041-040], RFC 6581 §9.2 [R6581-053]).
func TestWorked(t *testing.T) {
	conformance.Proves(t, "R5040-024", "R5040-026", "R5040-028", "R5040-029", "R5040-030", "R5040-031", "R5040-032", "R5040-033",
		"R5040-034", "R5040-035", "R5040-045", "R5040-054", "R5040-239", "R5040-240", "R5040-241", "R5040-242", "R5041-014",
		"R5041-032", "R5041-040", "R6581-053")
	for _, w := range worked {
		wire, err := hex.DecodeString(strings.ReplaceAll(w.fpdu, " ", ""))
		if err != nil {
			t.Fatalf("DecodeString: %v", err)
		}
		h := segment(w.op, w.h)
		if got := mpa.AppendFPDU(nil, true, h.Append(nil), []byte(w.payload)); !bytes.Equal(got, wire) {
			t.Errorf("%s: built\n%x, want\n%x", w.name, got, wire)
		}
		ulpdu, n, err := mpa.ParseFPDU(wire, true)
		if err != nil || n != len(wire) {
			t.Errorf("%s: FPDU of %d bytes, %v", w.name, n, err)
			continue
		}
		got, payload, err := ddp.Parse(ulpdu)
		if err != nil || got != h || string(payload) != w.payload {
			t.Errorf("%s: segment %+v, %q, %v", w.name, got, payload, err)
		}
		op, err := rdmap.ParseControl(got.Ctrl)
		if err != nil || op != w.op || op.Check(got.Tagged, got.QN) != nil {
			t.Errorf("%s: %v, %v", w.name, op, err)
		}
	}
}
