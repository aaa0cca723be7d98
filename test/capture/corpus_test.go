// Fuzz seeds from real traffic: one message of each shape.

package capture

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

var update = flag.Bool("update", false, "write the seeds instead of comparing them")

// maxSeed is the maximum length of a seed, in bytes. Longer messages make poor seeds.
const maxSeed = 2048

// A seed's first byte selects the kind of message in the fuzz targets of mpa and xdr.
const (
	seedRequest, seedReply, seedFPDU = 0, 1, 2

	seedCallHeader, seedReplyHeader, seedAuthSys = 0, 1, 3
)

// A corpus has seeds by file path below the module's root.
type corpus map[string]string

// add adds a seed unless it is too long, or the target already has a seed with this name.
func (c corpus) add(target, name string, b []byte) {
	path := filepath.Join(filepath.Dir(target), "testdata", "fuzz", filepath.Base(target), "capture-"+name)
	if _, have := c[path]; have || len(b) > maxSeed {
		return
	}
	c[path] = fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", b)
}

// TestCorpora compares the seeds in the tree with those from the captures.
func TestCorpora(t *testing.T) {
	c := corpus{}
	for _, conv := range conversations(t) {
		c.startup(t, &conv)
		c.segments(t, &conv)
		c.messages(t, &conv)
	}
	if len(c) < 100 {
		t.Errorf("only %d seeds", len(c))
	}
	for path, want := range c {
		path = filepath.Join("..", "..", path)
		if *update {
			must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o777))
			must.Succeed(t, os.WriteFile(path, []byte(want), 0o666))
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the captures give (%v): go test ./test/capture -run Corpora -update", path, err)
		}
	}
}

func (c corpus) startup(t *testing.T, conv *Conversation) {
	request, reply, _, err := conv.Startup()
	if err != nil {
		t.Fatalf("Startup: %v", err)
	}
	c.add("rnic/iwarp/mpa/FuzzParse", "request", mpa.AppendFrame([]byte{seedRequest}, &request))
	c.add("rnic/iwarp/mpa/FuzzParse", "reply", mpa.AppendFrame([]byte{seedReply}, &reply))
	c.add("rpcrdma/FuzzParse", "private-data", reply.PrivateData)
}

func (c corpus) segments(t *testing.T, conv *Conversation) {
	for _, fromInitiator := range []bool{true, false} {
		fpdus, err := conv.FPDUs(fromInitiator)
		if err != nil {
			t.Fatalf("FPDUs: %v", err)
		}
		for _, s := range fpdus {
			ulpdu := append(s.Header.Append(nil), s.Payload...)
			name := fileName(fmt.Sprintf("%v-last-%v", s.Op, s.Header.Last))
			c.add("rnic/iwarp/ddp/FuzzParse", name, ulpdu)
			c.add("rnic/iwarp/mpa/FuzzParse", name, mpa.AppendFPDU([]byte{seedFPDU}, false, ulpdu))
			if s.Op == rdmap.OpReadRequest {
				c.add("rnic/iwarp/rdmap/FuzzParse", name, ulpdu[ddp.UntaggedLen:])
			}
		}
	}
}

// fileName returns s with hyphens in place of blanks and slashes.
func fileName(s string) string {
	b := []byte(s)
	for i, o := range b {
		if o == ' ' || o == '/' {
			b[i] = '-'
		}
	}
	return string(b)
}

func (c corpus) messages(t *testing.T, conv *Conversation) {
	rpcs, err := conv.RPCs()
	if err != nil {
		t.Fatalf("RPCs: %v", err)
	}
	calls := map[uint32]*oncrpc.CallHeader{}
	for _, r := range rpcs {
		if r.FromInitiator {
			call := new(oncrpc.CallHeader)
			args, _ := peekCall(t, r, call)
			calls[r.Header.XID] = call
			c.message(t, &r, call, new(oncrpc.CallHeader), args)
			c.add("xdr/FuzzProtocols", "credential", append([]byte{seedAuthSys}, call.Cred.Body...))
			continue
		}
		call := calls[r.Header.XID]
		_, res := types(call)
		c.message(t, &r, call, new(oncrpc.ReplyHeader), res)
	}
}

// message adds one RPC-over-RDMA message's seeds for the targets in each layer.
func (c corpus) message(t *testing.T, r *RPC, call *oncrpc.CallHeader, head, body codec) {
	dir, header, odd := "call", byte(seedCallHeader), byte(0)
	if !r.FromInitiator {
		dir, header, odd = "reply", seedReplyHeader, 1
	}
	name := fileName(fmt.Sprintf("%s-%s", name(call), dir))
	shape := fmt.Sprintf("%s-%d-%d-%d-%v", dir, r.Header.Proc, len(r.Header.Read), len(r.Header.Write), r.Header.HasReply)
	c.add("rpcrdma/FuzzParse", shape, r.Send)
	c.add("chunks/FuzzLists", shape, r.Send[chunks.FixedSize:])

	var d xdr.Decoder
	d.Reset(r.Msg.Stream, r.Msg.Items)
	head.DecodeXDR(&d)
	c.add("xdr/FuzzProtocols", dir, append([]byte{header}, r.Msg.Stream[:d.Offset()]...))
	body.DecodeXDR(&d)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	record := append([]byte{64, 0, 0x80, 0, byte(len(r.Msg.Stream) >> 8), byte(len(r.Msg.Stream))}, r.Msg.Stream...)
	c.add("transport/FuzzRecords", name, record)
	if call.Prog != nfs3.Program || call.Proc == nfs3.ProcNull {
		return
	}
	var e xdr.Encoder
	body.EncodeXDR(&e)
	whole := flat(chunks.Message{Stream: e.Bytes(), Items: e.Items()})
	c.add("xdr/nfs3/FuzzMessages", name, append([]byte{byte(call.Proc-1)<<1 | odd}, whole...))
}
