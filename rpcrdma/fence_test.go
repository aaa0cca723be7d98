// A call's exposed memory: its right, its STags, and its lifetime.

package rpcrdma

import (
	"bytes"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// The memory exposed by calls: each kind of chunk, with the call that offers it.
var exposures = []struct {
	name string
	fill func(k *Call, e *xdr.Encoder)
	seg  func(h *Header) chunks.Segment
	read bool // the peer may read it; else it may write
}{
	{"Write chunk", func(k *Call, e *xdr.Encoder) { k.Sink, k.MaxReply = make([]byte, 5000), 20 },
		func(h *Header) chunks.Segment { return h.Write[0][0] }, false},
	{"Reply chunk", func(k *Call, e *xdr.Encoder) { k.MaxReply = 5000 },
		func(h *Header) chunks.Segment { return h.Reply[0] }, false},
	{"Read chunk", func(k *Call, e *xdr.Encoder) { e.Item(make([]byte, 5000)); k.MaxReply = 20 },
		func(h *Header) chunks.Segment { return h.Read[0].Segment }, true},
	{"Position-zero chunk", func(k *Call, e *xdr.Encoder) { e.Opaque(make([]byte, 5000)); k.MaxReply = 20 },
		func(h *Header) chunks.Segment { return h.Read[0].Segment }, true},
}

// exposed starts a call, and returns it with its offered chunk.
func exposed(t testing.TB, p *rawPeer, c *Conn, i int) (*pendingDo, Header, chunks.Segment) {
	t.Helper()
	k := c.NewCall()
	e := xdr.NewEncoder(k.Scratch())
	e.Raw(words(7, 0, procWrite))
	exposures[i].fill(k, e)
	setMsg(k, e)
	d := start(t.Context(), c, k)
	var h Header
	if err := h.Parse(p.wantCall(7)); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return d, h, exposures[i].seg(&h)
}

// touch makes the peer read or write a byte of s.
func (p *rawPeer) touch(s chunks.Segment, read bool) {
	p.t.Helper()
	wr := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{{0xee}}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}
	if read {
		wr.Op, wr.SGL, wr.MR, wr.Length = rnic.OpRead, nil, p.expose(make([]byte, 1), rnic.LocalWrite), 1
	}
	if err := p.qp.PostSend(wr); err != nil {
		p.t.Fatalf("PostSend: %v", err)
	}
}

// answerUnused sends a reply to XID 7 that echoes its call's lists, all unused.
func (p *rawPeer) answerUnused(h Header) {
	h.Read = nil
	for _, c := range h.Write {
		c.Unuse()
	}
	h.Reply.Unuse()
	h.Proc, h.Credits = ProcMsg, 4
	msg := append(h.Append(nil), words(7, 1, 0)...)
	// The reply follows the Reads (fence), because it ends their access to the memory.
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{msg}, Fence: true}); err != nil {
		p.t.Fatalf("PostSend: %v", err)
	}
}

// After its reply the peer can neither read nor write a call's offered memory.
func TestFencedAfterReply(t *testing.T) { overProviders(t, testFencedAfterReply) }

func testFencedAfterReply(t *bed) {
	conformance.Proves(t, "R8166-066", "R8166-141", "R8166-142", "R8166-202", "R8797-002")
	for i, x := range exposures {
		p, c := rawResponder(t, Config{Credits: 4}, r1)
		d, h, s := exposed(t, p, c, i)
		p.touch(s, x.read) // allowed here
		p.answerUnused(h)
		if err := <-d.done; err != nil {
			t.Fatalf("%s: Do: %v", x.name, err)
		}
		sink := d.k.Sink
		clear(sink)
		p.touch(s, x.read)
		select {
		case <-c.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s: the memory can still be reached behind the reply", x.name)
		}
		if !bytes.Equal(sink, make([]byte, len(sink))) {
			t.Errorf("%s: a byte landed behind the reply", x.name)
		}
		d.k.Release()
	}
}

// Each chunk has only the right it needs: using the other right ends the connection.
func TestOnlyTheNeededRight(t *testing.T) { overProviders(t, testOnlyTheNeededRight) }

func testOnlyTheNeededRight(t *bed) {
	conformance.Proves(t, "R8166-201")
	for i, x := range exposures {
		p, c := rawResponder(t, Config{Credits: 4}, r1)
		d, _, s := exposed(t, p, c, i)
		p.touch(s, !x.read)
		<-c.Done()
		if err := <-d.done; err == nil {
			t.Errorf("%s: the call has a reply", x.name)
		}
		d.k.Release()
	}
}

// No handle is used twice, and handles are not consecutive.
func TestHandlesAreFresh(t *testing.T) { overProviders(t, testHandlesAreFresh) }

func testHandlesAreFresh(t *bed) {
	conformance.Proves(t, "R8166-200", "R8797-002")
	p, c := rawResponder(t, Config{Credits: 4}, r0)
	handles := map[uint32]bool{}
	steps := map[uint32]int{}
	last := uint32(0)
	const calls = 200
	for range calls {
		d, h, s := exposed(t, p, c, 0)
		if handles[s.Handle] {
			t.Fatalf("handle %x a second time", s.Handle)
		}
		handles[s.Handle] = true
		steps[s.Handle-last]++
		last = s.Handle
		p.answerUnused(h)
		if err := <-d.done; err != nil {
			t.Fatalf("Do: %v", err)
		}
		d.k.Release()
	}
	for step, n := range steps {
		if n > calls/4 {
			t.Errorf("%d of %d handles are %d behind the one before", n, calls, step)
		}
	}
}

// Bytes written into a chunk that the reply returns as unused are in no result.
func TestUnusedChunkIsIgnored(t *testing.T) { overProviders(t, testUnusedChunkIsIgnored) }

func testUnusedChunkIsIgnored(t *bed) {
	conformance.Proves(t, "R8166-131")
	p, c := rawResponder(t, Config{Credits: 4}, r1)
	d, h, s := exposed(t, p, c, 0)
	p.touch(s, false)
	p.answerUnused(h)
	if err := <-d.done; err != nil || len(d.k.Reply.Items) != 0 {
		t.Errorf("%d items, %v", len(d.k.Reply.Items), err)
	}
	d.k.Release()
}
