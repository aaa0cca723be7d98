// The header codec compared with bytes written by hand, and their truncations.

package rpcrdma

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func rseg(pos, handle, length uint32, off uint64) chunks.ReadSegment {
	return chunks.ReadSegment{Position: pos, Segment: seg(handle, length, off)}
}

func seg(handle, length uint32, off uint64) chunks.Segment {
	return chunks.Segment{Handle: handle, Length: length, Offset: off}
}

type goldenHeader struct {
	name string
	wire string
	want Header
}

// The headers of one session of NFSv3 (RFC 8166 §4.1.2 [R8166-100 R8166-101 R8166-102 R8166-103],
// RFC 8166 §4.2 [R8166-104], RFC 8166 §4.3 [R8166-116], RFC 8166 §4.3.2 [R8166-121], RFC 8166 §4.7
// [R8166-176 R8166-177 R8166-178]).
var goldenHeaders = []goldenHeader{
	{"NULL call", `1a2b3c01 00000001 00000020 00000000  00000000 00000000 00000000`,
		Header{XID: 0x1a2b3c01, Version: 1, Credits: 32}},
	{"READ call with Write chunk", `1a2b3c02 00000001 00000020 00000000  00000000
		00000001 00000001 5100aa07 00002000 00007000 00010000 00000000 00000000`,
		Header{XID: 0x1a2b3c02, Version: 1, Credits: 32, Lists: chunks.Lists{
			Write: []chunks.Chunk{{seg(0x5100aa07, 0x2000, 0x700000010000)}}}}},
	{"READ reply", `1a2b3c02 00000001 00000080 00000000  00000000
		00000001 00000001 5100aa07 00001389 00007000 00010000 00000000 00000000`,
		Header{XID: 0x1a2b3c02, Version: 1, Credits: 128, Lists: chunks.Lists{
			Write: []chunks.Chunk{{seg(0x5100aa07, 5001, 0x700000010000)}}}}},
	{"WRITE call with Read chunk", `1a2b3c03 00000001 00000020 00000000
		00000001 00000050 5100ab09 00001001 00007000 00020010 00000000 00000000 00000000`,
		Header{XID: 0x1a2b3c03, Version: 1, Credits: 32, Lists: chunks.Lists{
			Read: []chunks.ReadSegment{rseg(80, 0x5100ab09, 4097, 0x700000020010)}}}},
	{"long call", `1a2b3c04 00000001 00000020 00000001
		00000001 00000000 5100ac0b 000005dc 00007000 00030000
		00000001 00000000 5100ac0c 000009c4 00007000 00040000 00000000 00000000 00000000`,
		Header{XID: 0x1a2b3c04, Version: 1, Credits: 32, Proc: ProcNoMsg, Lists: chunks.Lists{
			Read: []chunks.ReadSegment{rseg(0, 0x5100ac0b, 1500, 0x700000030000), rseg(0, 0x5100ac0c, 2500, 0x700000040000)}}}},
	{"READDIRPLUS call with Reply chunk", `1a2b3c05 00000001 00000020 00000000 00000000 00000000
		00000001 00000002 5100ad01 00001000 00007000 00050000 5100ad02 00007148 00007000 00060000`,
		Header{XID: 0x1a2b3c05, Version: 1, Credits: 32, Lists: chunks.Lists{HasReply: true,
			Reply: chunks.Chunk{seg(0x5100ad01, 4096, 0x700000050000), seg(0x5100ad02, 29000, 0x700000060000)}}}},
	{"long reply", `1a2b3c05 00000001 00000080 00000001 00000000 00000000
		00000001 00000002 5100ad01 00001000 00007000 00050000 5100ad02 00000840 00007000 00060000`,
		Header{XID: 0x1a2b3c05, Version: 1, Credits: 128, Proc: ProcNoMsg, Lists: chunks.Lists{HasReply: true,
			Reply: chunks.Chunk{seg(0x5100ad01, 4096, 0x700000050000), seg(0x5100ad02, 2112, 0x700000060000)}}}},
	{"ERR_VERS", `1a2b3c06 00000002 00000080 00000004 00000001 00000001 00000001`,
		Header{XID: 0x1a2b3c06, Version: 2, Credits: 128, Proc: ProcError, Err: CodeVers, Low: 1, High: 1}},
	{"ERR_CHUNK", `1a2b3c07 00000001 00000080 00000004 00000002`,
		Header{XID: 0x1a2b3c07, Version: 1, Credits: 128, Proc: ProcError, Err: CodeChunk}},
}

func TestHeaderGolden(t *testing.T) {
	conformance.Proves(t, "R8166-035", "R8166-045", "R8166-058", "R8166-096", "R8166-100", "R8166-101", "R8166-102", "R8166-104",
		"R8166-112", "R8166-116", "R8166-121", "R8166-176", "R8166-177", "R8166-178", "R8166-195", "R8166-196")
	var h Header
	for _, g := range goldenHeaders {
		wire := must.Hex(t, g.wire)
		if err := h.Parse(append(bytes.Clone(wire), "behind"...)); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if h.Len != len(wire) || h.Size() != len(wire) {
			t.Errorf("%s: length %d, size %d, want %d", g.name, h.Len, h.Size(), len(wire))
		}
		if got := h.Append(nil); !bytes.Equal(got, wire) {
			t.Errorf("%s: again as %x", g.name, got)
		}
		if got := g.want.Append(nil); !bytes.Equal(got, wire) {
			t.Errorf("%s: appended %x", g.name, got)
		}
		same := h.XID == g.want.XID && h.Version == g.want.Version && h.Credits == g.want.Credits &&
			h.Proc == g.want.Proc && h.Err == g.want.Err && h.Low == g.want.Low && h.High == g.want.High &&
			len(h.Read) == len(g.want.Read) && len(h.Write) == len(g.want.Write) && h.HasReply == g.want.HasReply
		if !same || len(h.Read) > 0 && !reflect.DeepEqual(h.Read, g.want.Read) {
			t.Errorf("%s: parsed %+v, want %+v", g.name, h, g.want)
		}
	}
}

// Every truncation is refused, and leaves no list behind (RFC 8166 §4.5.2 [R8166-157]).
func TestHeaderTruncated(t *testing.T) {
	conformance.Proves(t, "R8166-157")
	var h Header
	for _, g := range goldenHeaders {
		wire := must.Hex(t, g.wire)
		for n := range wire {
			if err := h.Parse(wire[:n:n]); err == nil {
				t.Errorf("%s: %d of %d bytes taken", g.name, n, len(wire))
			}
			if len(h.Read)+len(h.Write) > 0 || h.HasReply {
				t.Errorf("%s: lists of %d bytes", g.name, n)
			}
		}
	}
}

func TestHeaderRefused(t *testing.T) {
	conformance.Proves(t, "R8166-107", "R8166-117", "R8166-157", "R8166-158")
	for _, c := range []struct {
		name, wire string
		want       error
	}{
		{"version 2", `00000001 00000002 00000001 00000000 00000000 00000000 00000000`, errHeaderVersion},
		{"version 0", `00000001 00000000 00000001 00000000 00000000 00000000 00000000`, errHeaderVersion},
		{"MSGP", `00000001 00000001 00000001 00000002 00000000 00000000 00000000 00000000 00000000`, errHeaderProc},
		{"proc 5", `00000001 00000001 00000001 00000005 00000000 00000000 00000000`, errHeaderProc},
		{"proc -1", `00000001 00000001 00000001 ffffffff 00000000 00000000 00000000`, errHeaderProc},
		{"list word 2", `00000001 00000001 00000001 00000000 00000002 00000000 00000000`, chunks.ErrListWord},
		{"Position 81", `00000001 00000001 00000001 00000000 00000001 00000051 00000001 00000001 00000000 00000000 00000000 00000000 00000000`, chunks.ErrPosition},
		{"count of 2^32-1", `00000001 00000001 00000001 00000000 00000000 00000001 ffffffff 00000000 00000000`, chunks.ErrShort},
		{"rdma_err 9", `00000001 00000001 00000001 00000004 00000009 00000000 00000000`, errHeaderError},
		{"ERR_CHUNK of version 2", `00000001 00000002 00000001 00000004 00000002`, errHeaderError},
	} {
		var h Header
		if err := h.Parse(must.Hex(t, c.wire)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if h.XID != 1 {
			t.Errorf("%s: no XID", c.name)
		}
	}
}

func TestProcAndCodeNames(t *testing.T) {
	conformance.Proves(t, "R8166-098", "R8166-099")
	got := []string{ProcMsg.String(), ProcNoMsg.String(), procMsgP.String(), procDone.String(), ProcError.String(),
		Proc(1 << 31).String(), CodeVers.String(), CodeChunk.String(), ErrCode(0).String()}
	want := []string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR",
		"rdma_proc(2147483648)", "ERR_VERS", "ERR_CHUNK", "rdma_err(0)"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
