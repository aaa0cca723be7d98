// The responder, outbound: a result item read when it is sent.

package rpcrdma

import (
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A deferredItem is the first result item of a reply, read when its RDMA Write leaves. The Send
// that describes it comes later, and its bytes are used only once TCP has all bytes of the Write:
// until then the Send can still declare fewer bytes. The Request's owner owns it; from the reply
// on, the RNIC's transmitter does, until the Send completes.
type deferredItem struct {
	src   mem.DeferredRead // nil: no deferred item
	off   int64            // offset of the next byte
	n     int              // bytes declared in the reply
	nread int              // bytes already read
	cut   mem.Cut
	head  []byte // the reply's stream up to the item
	ended bool   // src has no bytes after nread; the rest is sent as zeros
}

// TakesDeferredItem reports whether the first result item can be read when it leaves, which is then
// cheaper.
func (r *Request) TakesDeferredItem() bool {
	// A Write chunk without segments asks for no item there (RFC 8166 §4.3.2.3 [R8166-133]). With a
	// Reply chunk the stream could leave before the item has been read.
	if h := &r.hdr; len(h.Write) == 0 || len(h.Write[0]) == 0 || h.HasReply {
		return false
	}
	return r.rs.c.qp.TakesSources()
}

// DeferItem makes n bytes of src, from off on, the first result item, in place of an unfilled
// Buffer with that length. The bytes are read when they are sent. If src then has fewer, the rest
// of the requester's memory gets zeros, and cut changes the reply's stream: the item may become
// shorter, but keeps its position. The Request owns src until its reply has left.
func (r *Request) DeferItem(src mem.DeferredRead, off int64, n int, cut mem.Cut) {
	r.dropDeferred()
	r.deferred = deferredItem{src: src, off: off, n: n, cut: cut}
}

func (r *Request) dropDeferred() {
	if r.deferred.src != nil {
		r.deferred.src.Done()
		r.deferred = deferredItem{}
	}
}

// checkDeferred reports whether a deferred item, if any, goes by a Write chunk with the length
// declared in the reply. The stream must also leave by the later Send, not by a Write that could
// precede the item. A reply without items belongs to a call that has failed since: the deferred
// item is released.
func (r *Request) checkDeferred(m chunks.Message, plan chunks.ReplyPlan) bool {
	l := &r.deferred
	switch {
	case l.src == nil:
		return true
	case len(m.Items) == 0:
		r.dropDeferred()
		return true
	case len(m.Items[0].Data) != l.n || !plan.Reduced.Has(0) || plan.Form == chunks.FormLong:
		return false
	}
	l.head = m.Stream[:m.Items[0].Off]
	return true
}

// A deferredSource is a Request in its part as rnic.Source: it supplies its deferredItem's bytes.
type deferredSource Request

var _ rnic.Source = (*deferredSource)(nil)

// ReadFull reads the next len(p) bytes, with zeros for missing ones.
func (s *deferredSource) ReadFull(p []byte) error {
	l := &s.deferred
	n := 0
	if !l.ended {
		var err error
		if n, err = l.src.ReadAt(p, l.off); n < len(p) {
			(*Request)(s).shortenDeferred(l.nread+n, errors.Is(err, io.EOF))
		}
	}
	l.off, l.nread = l.off+int64(n), l.nread+n
	clear(p[n:])
	return nil
}

// shortenDeferred shortens the reply's item to n bytes. The header keeps its length, because a
// chunk keeps its segments.
func (r *Request) shortenDeferred(n int, end bool) {
	l := &r.deferred
	l.ended = true
	left := uint32(n)
	for i := range r.hdr.Write[0] {
		s := &r.hdr.Write[0][i]
		s.Length = min(s.Length, left)
		left -= s.Length
	}
	r.out = r.hdr.Append(r.out[:0])
	l.cut(l.head, n, end)
}
