// Bad RPC-over-RDMA headers: each truncation, each word replaced, and noise.

package stack

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestTruncatedHeader: each truncation of a call with all kinds of chunks gets its answer. Below 28
// bytes there is none. It is ERR_CHUNK while the lists are short, or while no XID follows them to
// compare. An incomplete RPC header gets none.
func TestTruncatedHeader(t *testing.T) {
	s, works := attacked(t)
	p := peer.Dial(t, s.RDMA)
	for cut := 0; ; cut++ {
		xid := peer.XID()
		head := peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
			h.AddWrite(chunks.Segment{Handle: 5, Length: 512, Offset: 9}, chunks.Segment{Handle: 6, Length: 512})
			h.SetReply(chunks.Segment{Handle: 7, Length: 4096})
		})
		msg := append(head, peer.NFS(xid, nfs3.ProcNull, nil)...)
		if cut == len(msg) {
			break
		}
		p.Message(msg[:cut])
		what := fmt.Sprintf("%d bytes", cut)
		if cut >= 28 && cut < len(head)+8 {
			p.WantErrChunk(what, xid)
		}
		p.Null(what)
	}
	works()
}

// interesting has values at the edges of arithmetic.
var interesting = []uint32{0, 1, 2, 3, 5, 0x80, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 4, 1<<32 - 1}

// TestReplacedWords: in two headers each word after the XID is replaced. A WRITE has a Read chunk
// and a Reply chunk; a READ has a Write chunk. The connection then serves on, or it ends, and no
// other client is harmed.
func TestReplacedWords(t *testing.T) {
	s, works := attacked(t)
	c := &victim{t: t, s: s}
	tried := 0
	for _, build := range []func(xid uint32) []byte{c.write, c.read} {
		c.connect()
		build(0)
		for at := 4; at < c.header; at += 4 {
			for _, v := range interesting {
				if c.p == nil {
					c.connect()
				}
				xid := peer.XID()
				msg := build(xid)
				binary.BigEndian.PutUint32(msg[at:], v)
				c.try(xid, msg)
				tried++
			}
		}
	}
	if want := len(interesting) * (64 + 52) / 5; tried < want {
		t.Errorf("%d calls tried, want %d", tried, want)
	}
	works()
}

// A victim is a peer that is dialed again when its connection has ended.
type victim struct {
	t      *testing.T
	s      *rig.Server
	p      *peer.Peer
	fh     nfs3.FH
	header int    // bytes of the last message's header
	first  uint32 // XID on the connection
}

const dataSTag, sinkSTag = 0x1000, 0x2000

func (c *victim) connect() {
	c.p, c.first = peer.Dial(c.t, c.s.RDMA), peer.XID()
	root := c.p.Mount(rig.Export)
	c.fh = c.p.Create(root, "victim")
	c.p.Memory[dataSTag] = &peer.Region{Base: 1 << 32, B: randomBytes(1, 5000), ReadOnly: true}
	c.p.Memory[sinkSTag] = &peer.Region{Base: 1 << 33, B: make([]byte, 8192)}
	// The header may then name memory that does not exist, which a RNIC would refuse.
	c.p.Strict = false
}

func (c *victim) write(xid uint32) []byte {
	stream, pos := peer.Reduced(xid, nfs3.ProcWrite, &nfs3.WriteArgs{FH: c.fh, Count: 5000, Data: make([]byte, 5000)})
	head := peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
		h.Read = append(h.Read, chunks.ReadSegment{Position: pos, Segment: chunks.Segment{Handle: dataSTag, Length: 5000, Offset: 1 << 32}})
		h.SetReply(chunks.Segment{Handle: sinkSTag, Length: 4096, Offset: 1 << 33})
	})
	c.header = len(head)
	return append(head, stream...)
}

func (c *victim) read(xid uint32) []byte {
	head := peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) {
		h.AddWrite(chunks.Segment{Handle: sinkSTag, Length: 4096, Offset: 1 << 33})
	})
	c.header = len(head)
	return append(head, peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: c.fh, Count: 4096})...)
}

// try sends msg and then NULL. It accepts anything until NULL is answered or the connection ends.
func (c *victim) try(xid uint32, msg []byte) {
	c.t.Helper()
	p := c.p
	p.Message(msg)
	null := peer.XID()
	p.Message(peer.Inline(null, peer.NFS(null, nfs3.ProcNull, nil)))
	for {
		got, err := p.Next()
		if err != nil { // from either end, for example after a Read or Write of missing memory
			p.C.Close()
			c.p = nil
			return
		}
		var h rpcrdma.Header
		if err := h.Parse(got); err != nil {
			c.t.Fatalf("%x is answered by %x: %v", msg[:c.header], got, err)
		}
		if h.XID == null {
			return
		}
		if h.XID < c.first || h.XID > xid { // neither an answer to this call nor a late one to an earlier call
			c.t.Fatalf("%x is answered by %x", msg[:c.header], got)
		}
	}
}

// TestNoiseHeader: noise gets RDMA_ERROR or no answer.
func TestNoiseHeader(t *testing.T) {
	s, works := attacked(t)
	p := peer.Dial(t, s.RDMA)
	for i := range trials() {
		b := randomBytes(uint64(i), i*13%900)
		if i%2 == 0 && len(b) >= 16 { // version and kind are good
			copy(b[4:], peer.Words(1, 9, uint32(i/2)%6))
		}
		p.Message(b)
		if len(b) >= 28 {
			xid, vers, proc := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[12:])
			switch {
			case proc == 4: // RDMA_ERROR for a call that the server has not made
			case vers != 1:
				p.WantErrVers("noise", xid, vers)
			case proc == 3: // RDMA_DONE
			default:
				p.WantErrChunk("noise", xid)
			}
		}
		p.Null("noise")
	}
	works()
}
