// Items that are read when they leave, and may be shorter by then.

package rpcrdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A shrinkingRead has bytes, and counts its Done calls.
type shrinkingRead struct {
	b    []byte
	err  error  // returned at the end of b
	then []byte // contents after a short read, unless nil
	done atomic.Int32
}

func (s *shrinkingRead) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, s.b[min(off, int64(len(s.b))):])
	if n < len(p) {
		if s.then != nil {
			s.b = s.then
		}
		return n, s.err
	}
	return n, nil
}

func (s *shrinkingRead) Done() { s.done.Add(1) }

// wantDone waits for n Done calls of s, and fails on more.
func (s *shrinkingRead) wantDone(t *testing.T, n int32) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.done.Load() < n && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	if got := s.done.Load(); got != n {
		t.Errorf("it was done with %d times, want %d", got, n)
	}
}

// cutProcRead shortens procRead's reply, for DeferItem; the result's count is negative if the data
// ends there.
func cutProcRead(stream []byte, n int, end bool) {
	w := stream[len(stream)-8:]
	binary.BigEndian.PutUint32(w[4:], uint32(n))
	if end {
		n = -n - 1
	}
	binary.BigEndian.PutUint32(w, uint32(n))
}

// deferredServer returns a server that answers procRead with a deferred item of the requested size
// from src.
func deferredServer(t *testing.T, src *shrinkingRead) *echoServer {
	return &echoServer{hold: func(r *Request, xid uint32) bool {
		var d xdr.Decoder
		d.Reset(r.Msg.Stream, r.Msg.Items)
		d.Uint32()
		d.Uint32()
		if d.Uint32() != procRead {
			return false
		}
		n := int(d.Uint32())
		if !r.TakesDeferredItem() {
			t.Error("an item cannot be read when it leaves")
			return false
		}
		var e xdr.Encoder
		e.Reset(r.Scratch())
		e.Uint32(xid)
		e.Uint32(1)
		e.Uint32(0)
		e.Uint32(uint32(n))
		e.Item(r.Buffer(n))
		r.DeferItem(src, 0, n, cutProcRead)
		_ = r.Reply(chunks.Message{Stream: e.Bytes(), Items: e.Items()})
		return true
	}}
}

// TestDeferredItems: the reply declares the bytes available when they leave, over all segments, and
// the rest of the requester's memory gets zeros.
func TestDeferredItems(t *testing.T) {
	const n, half = 300_000, 150_000
	whole := make([]byte, n)
	fill(whole, 5)
	for _, c := range []struct {
		name string
		have int
		err  error
		then []byte
	}{
		{"all", n, nil, nil},
		{"half, and the end", half, io.EOF, nil},
		{"less than a segment", 70_001, io.EOF, nil},
		{"just one segment", 100_000, io.EOF, nil},
		{"nothing", 0, io.EOF, nil},
		{"an error", half, errors.New("bad disk"), nil},
		{"less than a segment, and then all again", 70_001, io.EOF, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := &shrinkingRead{b: whole[:c.have], err: c.err, then: c.then}
			p, conn := rawRequester(t, serverConfig(deferredServer(t, src)), r1)
			p.null("first") // from then on the FPDU size is known
			room := bytes.Repeat([]byte{0xaa}, n+100_000)
			mr := p.expose(room, rnic.RemoteWrite)
			lens, at := [3]int{100_000, 100_000, 200_000}, 0
			var offered, told []any
			left := c.have
			for _, l := range lens {
				got := min(l, left)
				left -= got
				offered, told = append(offered, part(mr, at, l)), append(told, part(mr, at, got))
				at += l
			}
			count := c.have
			if c.err == io.EOF {
				count = -c.have - 1
			}
			p.send(words(append(append([]any{7, 1, 1, 0, 0, 1, 3}, offered...), 0, 0, 7, 0, procRead, n)...))
			p.want("the reply", words(append(append([]any{7, 1, grant, 0, 0, 1, 3}, told...), 0, 0, 7, 1, 0, count, c.have)...))
			if !bytes.Equal(room[:c.have], whole[:c.have]) {
				t.Error("bytes are wrong")
			}
			if bytes.ContainsFunc(room[c.have:n], func(r rune) bool { return r != 0 }) || room[n] != 0xaa {
				t.Error("what follows them are no zeros, or too many")
			}
			src.wantDone(t, 1) // before any other message, which may take its place
			p.null("at the end")
			src.wantDone(t, 1)
			checkReleased(t, conn)
		})
	}
}

// TestDeferredItemsGoByWriteChunks: without a Write chunk the handler learns that no item can be
// deferred. A deferred item with another length is an error of the program. Both times src is
// released.
func TestDeferredItemsGoByWriteChunks(t *testing.T) {
	src := &shrinkingRead{b: make([]byte, 5000)}
	takes, reply := make(chan bool, 1), make(chan error, 1)
	// late is the declared length, n the item's, before the number of stream bytes before it.
	type item struct{ late, n, before int }
	items := make(chan item, 1)
	srv := &echoServer{hold: func(r *Request, xid uint32) bool {
		if xid != 7 {
			return false
		}
		it := <-items
		takes <- r.TakesDeferredItem()
		r.DeferItem(src, 0, it.late, cutProcRead)
		var e xdr.Encoder
		e.Reset(r.Scratch())
		e.Uint32(xid)
		e.Uint32(1)
		e.Raw(make([]byte, it.before))
		e.Item(r.Buffer(it.n))
		reply <- r.Reply(chunks.Message{Stream: e.Bytes(), Items: e.Items()})
		return true
	}}
	p, _ := rawRequester(t, serverConfig(srv), r1)
	p.null("first")
	mr := p.expose(make([]byte, 16384), rnic.RemoteWrite)
	for i, c := range []struct {
		lists []byte
		item
		takes bool
	}{
		{words(0, 0, 0), item{300, 300, 0}, false},                                                        // nothing
		{words(0, 0, 1, 1, part(mr, 0, 8192)), item{5000, 5000, 0}, false},                                // a Reply chunk alone
		{words(0, 1, 0, 0, 1, 1, part(mr, 0, 8192)), item{5000, 5000, 0}, false},                          // a Write chunk without segments: the item goes into the Reply chunk
		{words(0, 1, 1, part(mr, 0, 8192), 0, 1, 1, part(mr, 8192, 8192)), item{5000, 5000, 5000}, false}, // the stream goes there
		{words(0, 1, 1, part(mr, 0, 8192), 0, 0), item{5000, 4000, 0}, true},
	} {
		items <- c.item
		p.send(words(7, 1, 1, 0, c.lists, 7, 0, procRead, 5000))
		p.want("ERR_CHUNK", words(7, 1, grant, 4, 2))
		if got := <-takes; got != c.takes {
			t.Errorf("%d: an item can be read later: %v", i, got)
		}
		if err := <-reply; !errors.Is(err, ErrMessage) {
			t.Errorf("%d: Reply returned %v", i, err)
		}
		src.wantDone(t, int32(i+1))
	}
	p.null("at the end")
}

// TestDeferredItemOfFailedCall: the reply of a failed call has no item, src is released, and the
// chunk comes back unused.
func TestDeferredItemOfFailedCall(t *testing.T) {
	before, src := new(shrinkingRead), &shrinkingRead{b: make([]byte, 5000)}
	srv := &echoServer{hold: func(r *Request, xid uint32) bool {
		if xid != 7 {
			return false
		}
		r.DeferItem(before, 0, 100, cutProcRead) // the next DeferItem replaces it
		r.DeferItem(src, 0, 5000, cutProcRead)
		if err := r.Reply(chunks.Message{Stream: words(xid, 1, 5)}); err != nil {
			t.Errorf("Reply: %v", err)
		}
		return true
	}}
	p, _ := rawRequester(t, serverConfig(srv), r1)
	p.null("first")
	mr := p.expose(make([]byte, 8192), rnic.RemoteWrite)
	p.send(words(7, 1, 1, 0, 0, 1, 1, part(mr, 0, 8192), 0, 0, 7, 0, procRead, 5000))
	p.want("an error", words(7, 1, grant, 0, 0, 1, 1, part(mr, 0, 0), 0, 0, 7, 1, 5))
	before.wantDone(t, 1)
	src.wantDone(t, 1)
	p.null("at the end")
}
