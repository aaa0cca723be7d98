// The requester against a responder scripted byte by byte.

package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A pendingDo is a Do on another goroutine.
type pendingDo struct {
	k    *Call
	done chan error
}

func start(ctx context.Context, c *Conn, k *Call) *pendingDo {
	d := &pendingDo{k: k, done: make(chan error, 1)}
	go func() { d.done <- c.Do(ctx, k) }()
	return d
}

// nullCall returns a NULL call with an XID chosen by the test.
func nullCall(c *Conn, xid uint32) *Call {
	k := c.NewCall()
	k.Msg = chunks.Message{Stream: words(xid, 0, procNull)}
	k.MaxReply = 12
	return k
}

// nullReply returns the reply to a NULL call, with the given credits.
func nullReply(xid uint32, credits int) []byte { return words(xid, 1, credits, 0, 0, 0, 0, xid, 1, 0) }

// wantCall requires a call with this XID as next message.
func (p *rawPeer) wantCall(xid uint32) []byte {
	p.t.Helper()
	msg, err := p.next()
	if err != nil {
		p.t.Fatalf("next: %v", err)
	}
	if got := binary.BigEndian.Uint32(msg); got != xid {
		p.t.Fatalf("call %d, want %d", got, xid)
	}
	return msg
}

// A requester's messages have the RFC's bytes (RFC 8166 §3.4.5 [R8166-059], RFC 8166 §3.4.5.2
// [R8166-067], RFC 8166 §3.5.3 [R8166-088], RFC 8166 §4.2.2 [R8166-107], RFC 8166 §4.3.1
// [R8166-118], RFC 8166 §4.3.2 [R8166-122]).
func TestRequesterForms(t *testing.T) { overProviders(t, testRequesterForms) }

func testRequesterForms(t *bed) {
	conformance.Proves(t, "R8166-014", "R8166-015", "R8166-017", "R8166-034", "R8166-051", "R8166-057", "R8166-059", "R8166-060",
		"R8166-067", "R8166-068", "R8166-069", "R8166-072", "R8166-084", "R8166-087", "R8166-088", "R8166-089", "R8166-090",
		"R8166-095", "R8166-107", "R8166-108", "R8166-109", "R8166-118", "R8166-120", "R8166-122", "R8166-125", "R8166-132",
		"R8166-136", "R8166-137", "R8166-147", "R8166-154", "R8267-001")
	p, c := rawResponder(t, Config{Credits: 32}, r1)
	item := readItem(3, 5001)
	for _, tc := range []struct {
		name string
		fill func(k *Call, e *xdr.Encoder)
		want func(h *Header, body []byte) bool
	}{
		{"inline", func(k *Call, e *xdr.Encoder) { e.Item(item[:1001]); e.Uint32(9); k.MaxReply = 100 },
			func(h *Header, body []byte) bool {
				return h.Proc == ProcMsg && h.Size() == 28 && bytes.Equal(body, words(7, 0, procWrite, 1001, item[:1001], []byte{0, 0, 0}, 9))
			}},
		{"Read chunk", func(k *Call, e *xdr.Encoder) { e.Item(item); e.Uint32(9); k.MaxReply = 100 },
			func(h *Header, body []byte) bool {
				return len(h.Read) == 1 && h.Read[0].Position == 16 && h.Read[0].Length == 5001 && h.Size() == 52 &&
					bytes.Equal(body, words(7, 0, procWrite, 5001, 9))
			}},
		{"two Read chunks", func(k *Call, e *xdr.Encoder) { e.Item(item); e.Item(item[:9]); k.MaxReply = 100 },
			func(h *Header, body []byte) bool {
				return len(h.Read) == 2 && h.Read[1].Position == 16+5004+4 && h.Read[1].Length == 9 && len(body) == 20
			}},
		{"long call", func(k *Call, e *xdr.Encoder) { e.Opaque(item); k.MaxReply = 100 },
			func(h *Header, body []byte) bool {
				return h.Proc == ProcNoMsg && len(h.Read) == 1 && h.Read[0].Position == 0 && h.Read[0].Length == 12+4+5004 && len(body) == 0
			}},
		{"small sink", func(k *Call, e *xdr.Encoder) { k.Sink, k.MaxReply = make([]byte, 1000), 100 },
			func(h *Header, body []byte) bool { return h.Size() == 28 }},
		{"sink at the threshold", func(k *Call, e *xdr.Encoder) { k.Sink, k.MaxReply = make([]byte, 4000), 68 },
			func(h *Header, body []byte) bool { return h.Size() == 28 }},
		{"sink over the threshold", func(k *Call, e *xdr.Encoder) { k.Sink, k.MaxReply = make([]byte, 4001), 68 }, // RFC 8166 §3.3.2 [R8166-034]
			func(h *Header, body []byte) bool {
				return len(h.Write) == 1 && !h.HasReply && len(h.Write[0]) == 1 && h.Write[0][0].Length == 4001
			}},
		{"large stream", func(k *Call, e *xdr.Encoder) { k.MaxReply = 4069 }, // RFC 8166 §3.5.3 [R8166-090], RFC 8166 §4.3.3 [R8166-136]
			func(h *Header, body []byte) bool {
				return len(h.Write) == 0 && h.HasReply && len(h.Reply) == 1 && h.Reply[0].Length == 4069
			}},
		{"sink and large stream", func(k *Call, e *xdr.Encoder) { k.Sink, k.MaxReply = make([]byte, 5), 4069 },
			func(h *Header, body []byte) bool {
				return len(h.Write) == 0 && h.HasReply && h.Reply[0].Length == 4069+8
			}},
	} {
		k := c.NewCall()
		e := xdr.NewEncoder(k.Scratch())
		e.Raw(words(7, 0, procWrite))
		tc.fill(k, e)
		setMsg(k, e)
		d := start(t.Context(), c, k)
		msg := p.wantCall(7)
		var h Header
		if err := h.Parse(msg); err != nil {
			t.Errorf("%s: header: %v", tc.name, err)
		}
		if h.Version != 1 || h.Credits != 32 {
			t.Errorf("%s: version %d, credits %d, want 1, 32", tc.name, h.Version, h.Credits)
		}
		if !tc.want(&h, msg[h.Len:]) {
			t.Errorf("%s: %+v %x", tc.name, h, msg)
		}
		p.send(words(7, 1, 1, 4, 2))
		if err := <-d.done; !errors.Is(err, ErrChunk) { // RFC 8166 §4.5 [R8166-147 R8166-154]
			t.Errorf("%s: %v", tc.name, err)
		}
		k.Release()
	}
	checkReleased(t, c)
}

// Messages that answer no call are dropped silently, and the call still waits for its reply (RFC
// 8166 §4.5 [R8166-149], RFC 8166 §4.2.4 [R8166-113]).
func TestRequesterDrops(t *testing.T) { overProviders(t, testRequesterDrops) }

func testRequesterDrops(t *bed) {
	conformance.Proves(t, "R8166-075", "R8166-103", "R8166-105", "R8166-113", "R8166-149", "R8166-155", "R8166-173", "R8166-175")
	p, c := rawResponder(t, Config{Credits: 32}, r1)
	k := c.NewCall()
	k.Msg = chunks.Message{Stream: words(7, 0, procRead, 5000)}
	k.Sink, k.MaxReply = make([]byte, 5000), 20
	d := start(t.Context(), c, k)
	var h Header
	if err := h.Parse(p.wantCall(7)); err != nil || len(h.Write) != 1 {
		t.Fatalf("header: %v, with %d Write chunks, want 1", err, len(h.Write))
	}
	s := h.Write[0][0]
	echo := func(handle, n uint32, off uint64) []uint32 {
		return []uint32{handle, n, uint32(off >> 32), uint32(off)}
	}
	good := echo(s.Handle, 0, s.Offset)
	for _, msg := range [][]byte{
		{}, {0, 0, 0, 7}, words(7, 1, 100, 0), words(7, 1, 100, 0, 0, 0),
		words(7, 2, 100, 0, 0, 1, 1, good, 0, 0, 7, 1, 0, 0, 0),          // version
		words(7, 1, 100, 2, 0, 0, 0, 1, 1, good, 0, 0, 7, 1, 0, 0, 0),    // MSGP (RFC 8166 §4.6.1 [R8166-173])
		words(7, 1, 100, 3, 0, 0, 0), words(7, 1, 100, 5, 0, 0, 0, 7, 1), // DONE, unknown
		words(7, 1, 100, 0, 1, 16, s.Handle, 9, 0, 0, 0, 1, 1, good, 0, 0, 7, 1, 0, 0, 0), // Read list (RFC 8166 §4.3.1 [R8166-119])
		words(7, 1, 100, 0, 0, 1, 1, good, 0, 2, 7, 1, 0, 0, 0),                           // list word
		words(7, 1, 100, 0, 0, 0, 0, 7, 1, 0, 0, 0),                                       // no echo (RFC 8166 §3.4.6 [R8166-075])
		words(7, 1, 100, 0, 0, 1, 2, good, good, 0, 0, 7, 1, 0, 0, 0),                     // another count
		words(7, 1, 100, 0, 0, 1, 1, echo(s.Handle+1, 0, s.Offset), 0, 0, 7, 1, 0, 0, 0),  // another handle
		words(7, 1, 100, 0, 0, 1, 1, echo(s.Handle, 0, s.Offset+1), 0, 0, 7, 1, 0, 0, 0),  // another offset
		words(7, 1, 100, 0, 0, 1, 1, echo(s.Handle, 5001, s.Offset), 0, 0, 7, 1, 0, 0, 0), // more than offered
		words(7, 1, 100, 0, 0, 1, 1, good, 0, 1, 1, good, 7, 1, 0, 0, 0),                  // a Reply chunk from nowhere
		words(7, 1, 100, 1, 0, 1, 1, good, 0, 0),                                          // NOMSG without a Reply chunk
		words(7, 1, 100, 0, 0, 1, 1, good, 0, 0, 8, 1, 0, 0, 0),                           // header and message differ
		words(7, 1, 100, 0, 0, 1, 1, good, 0, 0, 7, 0, 0, 0, 0),                           // a call (RFC 8167 §6 [R8167-020])
		words(8, 1, 100, 0, 0, 0, 0, 8, 1, 0), words(8, 1, 100, 4, 2),                     // unknown XID
		words(7, 1, 100, 4), words(7, 1, 100, 4, 9), words(7, 1, 100, 4, 1, 1), // RDMA_ERROR (RFC 8166 §4.5 [R8166-155])
	} {
		p.send(msg)
	}
	// None of these messages has opened the window (RFC 8166 §3.3.3 [R8166-040]).
	second := start(t.Context(), c, nullCall(c, 9))
	data := readItem(7, 4999)
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	p.send(words(7, 1, 2, 0, 0, 1, 1, echo(s.Handle, 4999, s.Offset), 0, 0, 7, 1, 0, 4999, 4999))
	if err := <-d.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	if len(k.Reply.Items) != 1 || !bytes.Equal(k.Reply.Items[0].Data, data) {
		t.Errorf("the bytes are not in the reply's %d items", len(k.Reply.Items))
	}
	if !k.SinkOffered() {
		t.Error("the sink was not offered")
	}
	k.Release()
	p.wantCall(9)
	p.send(nullReply(9, 1))
	if err := <-second.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	second.k.Release()
	checkReleased(t, c)
}

// Some answers end a call, each with its own error, and the next call works.
func TestRequesterErrors(t *testing.T) { overProviders(t, testRequesterErrors) }

func testRequesterErrors(t *bed) {
	conformance.Proves(t, "R8166-154", "R8166-196", "R8267-015")
	p, c := rawResponder(t, Config{Credits: grant}, r1)
	for _, tc := range []struct {
		name string
		want error
		msg  func(s chunks.Segment) []byte
	}{
		{"ERR_CHUNK", ErrChunk, func(chunks.Segment) []byte { return words(7, 1, 1, 4, 2) }},
		{"ERR_VERS", ErrVersion, func(chunks.Segment) []byte { return words(7, 1, 1, 4, 1, 2, 2) }},
		{"ERR_VERS in version 2", ErrVersion, func(chunks.Segment) []byte { return words(7, 2, 1, 4, 1, 2, 2) }},
		{"inline with used Reply chunk", ErrBadReply, func(s chunks.Segment) []byte {
			return words(7, 1, 1, 0, 0, 0, 1, 1, s.Handle, 12, uint32(s.Offset>>32), uint32(s.Offset), 7, 1, 0)
		}},
		{"empty long reply", ErrBadReply, func(s chunks.Segment) []byte {
			return words(7, 1, 1, 1, 0, 0, 1, 1, s.Handle, 0, uint32(s.Offset>>32), uint32(s.Offset))
		}},
		{"long reply of another XID", ErrBadReply, func(s chunks.Segment) []byte {
			return words(7, 1, 1, 1, 0, 0, 1, 1, s.Handle, 64, uint32(s.Offset>>32), uint32(s.Offset))
		}},
	} {
		k := nullCall(c, 7)
		k.MaxReply = 5000
		d := start(t.Context(), c, k)
		var h Header
		if err := h.Parse(p.wantCall(7)); err != nil || len(h.Reply) != 1 {
			t.Fatalf("header: %v, with %d segments of the Reply chunk, want 1", err, len(h.Reply))
		}
		s := h.Reply[0]
		if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{words(8, 1, 0)}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}); err != nil {
			t.Fatalf("PostSend: %v", err)
		}
		p.send(tc.msg(s))
		if err := <-d.done; !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		k.Release()
	}
	checkReleased(t, c)
	if err := c.Do(t.Context(), &Call{rq: &c.requester}); err != ErrMessage {
		t.Errorf("Do: %v, want %v", err, ErrMessage)
	}
}

// One call leaves before the first reply, then as many as granted but at most as requested, in
// order of arrival (RFC 8166 §3.3.1 [R8166-019 R8166-021 R8166-023 R8166-024 R8166-025 R8166-026]).
func TestRequesterCredits(t *testing.T) { overProviders(t, testRequesterCredits) }

func testRequesterCredits(t *bed) {
	conformance.Proves(t, "R8166-019", "R8166-021", "R8166-023", "R8166-024", "R8166-025", "R8166-026", "R8166-039", "R8166-205")
	p, c := rawResponder(t, Config{Credits: 4}, r1)
	var dos []*pendingDo
	for i := range uint32(12) {
		k := nullCall(c, i)
		dos = append(dos, start(t.Context(), c, k))
		must.Become(t, "the calls in line", func() bool { return c.queued() == int(i) && c.outstanding() > 0 }) // so that the order is known
	}
	answered := uint32(0)
	answer := func(credits int) {
		t.Helper()
		p.send(nullReply(answered, credits))
		if err := <-dos[answered].done; err != nil {
			t.Fatalf("Do: %v", err)
		}
		dos[answered].k.Release()
		answered++
	}
	sent := uint32(0)
	wantSent := func(upTo uint32) {
		t.Helper()
		// Calls started at the same time may leave in any order.
		seen := map[uint32]bool{}
		for i := sent; i < upTo; i++ {
			msg, err := p.next()
			if err != nil {
				t.Fatalf("next: %v", err)
			}
			seen[binary.BigEndian.Uint32(msg)] = true
		}
		for ; sent < upTo; sent++ {
			if !seen[sent] {
				t.Fatalf("call %d was not sent in its turn", sent)
			}
		}
		if q := c.queued(); q != 12-int(upTo) {
			t.Fatalf("%d calls wait, want %d", q, 12-int(upTo))
		}
	}
	wantSent(1)
	answer(1<<32 - 1)
	wantSent(5) // four in flight, as requested
	answer(2)
	answer(2)
	wantSent(5) // two in flight
	answer(2)
	wantSent(6)
	answer(0)
	wantSent(6)
	answer(0)
	wantSent(7) // a grant of 0 counts as 1
	answer(3)
	wantSent(10) // three in flight
	answer(4)
	wantSent(12)
	for answered < 12 {
		answer(4)
	}
	checkReleased(t, c)
}

// A call given up while it waits for a credit leaves the queue; a sent one keeps its credit until
// the late reply (RFC 8166 §4.4.1 [R8166-143]).
func TestRequesterCancel(t *testing.T) { overProviders(t, testRequesterCancel) }

func testRequesterCancel(t *bed) {
	p, c := rawResponder(t, Config{Credits: 1}, r1)
	ctx, cancel := context.WithCancel(t.Context())
	k := c.NewCall()
	k.Msg = chunks.Message{Stream: words(7, 0, procRead, 5000)}
	k.MaxReply = 5020
	first := start(ctx, c, k)
	var h Header
	if err := h.Parse(p.wantCall(7)); err != nil || !h.HasReply {
		t.Fatalf("header: %v, with a Reply chunk: %v", err, h.HasReply)
	}
	ctx2, cancel2 := context.WithCancel(t.Context())
	second := start(ctx2, c, nullCall(c, 8))
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 })
	cancel2()
	if err := <-second.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Do: %v, want %v", err, context.Canceled)
	}
	second.k.Release()
	cancel()
	if err := <-first.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Do: %v, want %v", err, context.Canceled)
	}
	k.Release()
	third := start(t.Context(), c, nullCall(c, 9))
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 }) // the credit is not free
	// The late reply may still use the Reply chunk, which is a pool buffer.
	s := h.Reply[0]
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{words(7, 1, 0)}, RemoteSTag: rnic.STag(s.Handle), RemoteTO: s.Offset}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	p.send(words(7, 1, 1, 1, 0, 0, 1, 1, s.Handle, 12, uint32(s.Offset>>32), uint32(s.Offset)))
	p.wantCall(9)
	p.send(nullReply(9, 1))
	if err := <-third.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	third.k.Release()
	checkReleased(t, c)
	if got := c.NewCall(); got != third.k {
		t.Error("the call is not for use again")
	} else if got := c.NewCall(); got != k && got != second.k {
		t.Error("the call that was given up on was not released")
	}
}

// The end of the connection ends every call, sent or waiting, with its cause.
func TestRequesterConnectionLoss(t *testing.T) { overProviders(t, testRequesterConnectionLoss) }

func testRequesterConnectionLoss(t *bed) {
	p, c := rawResponder(t, Config{Credits: 4}, r1)
	var dos []*pendingDo
	for i := range uint32(8) {
		dos = append(dos, start(t.Context(), c, nullCall(c, i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	dos = append(dos, start(ctx, c, nullCall(c, 8)))
	if _, err := p.next(); err != nil {
		t.Fatalf("next: %v", err)
	}
	cancel()
	p.qp.Close()
	for i, d := range dos {
		err := <-d.done
		if !errors.Is(err, ErrClosed) && (i < 8 || !errors.Is(err, context.Canceled)) {
			t.Errorf("call %d: %v, want %v", i, err, ErrClosed)
		}
		d.k.Release()
	}
	<-c.Done()
	var closed *ClosedError
	if !errors.As(c.Err(), &closed) || closed.Cause == nil && !errors.Is(c.Err(), io.EOF) {
		t.Errorf("Err: %#v, want a *ClosedError with a cause or io.EOF", c.Err())
	}
	if err := c.Do(t.Context(), nullCall(c, 99)); !errors.Is(err, ErrClosed) {
		t.Errorf("Do: %v, want %v", err, ErrClosed)
	}
	checkReleased(t, c)
}

func TestCloseIsIdempotent(t *testing.T) { overProviders(t, testCloseIsIdempotent) }

func testCloseIsIdempotent(t *bed) {
	c, s := pair(t, Config{}, Config{Handler: &echoServer{}})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { c.Close() })
		wg.Go(func() { s.Close() })
	}
	wg.Wait()
	if !errors.Is(c.Err(), ErrClosed) || !errors.Is(s.Err(), ErrClosed) {
		t.Errorf("Err: %v and %v, want %v", c.Err(), s.Err(), ErrClosed)
	}
}
