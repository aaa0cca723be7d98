// The responder, outbound: a result item read when it is sent.

package rpcrdma

import (
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A lateItem is the first result item of a reply, read when its RDMA Write leaves. The Send that
// describes it comes later, and its bytes are used only once TCP has all bytes of the Write: until
// then the Send can still declare fewer bytes. The Request's owner owns it; from the reply on, the
// RNIC's transmitter does, until the Send completes.
type lateItem struct {
	src  mem.Later // nil: no late item
	off  int64     // offset of the next byte
	n    int       // bytes declared in the reply
	got  int       // bytes already read
	cut  mem.Cut
	head []byte // the reply's stream up to the item
	over bool   // src has no more than got; the remaining bytes sent are zeros
}

// TakesLater reports whether the first result item can be read when it leaves, which is then
// cheaper.
func (r *Request) TakesLater() bool {
	// A Write chunk without segments asks for no item there (RFC 8166 §4.3.2.3 [R8166-133]). With a
	// Reply chunk the stream could leave before the item has been read.
	if h := &r.hdr; len(h.Write) == 0 || len(h.Write[0]) == 0 || h.HasReply {
		return false
	}
	return r.rs.c.qp.TakesSources()
}

// Later makes n bytes of src, from off on, the first result item, in place of an unfilled Buffer
// with that length. They are read when they are sent. If src has fewer by then, the rest of the
// requester's memory gets zeros, and cut changes the reply's stream: the item may become shorter,
// but keeps its position. The Request owns src until its reply has left.
func (r *Request) Later(src mem.Later, off int64, n int, cut mem.Cut) {
	r.giveUpLater()
	r.late = lateItem{src: src, off: off, n: n, cut: cut}
}

func (r *Request) giveUpLater() {
	if r.late.src != nil {
		r.late.src.Done()
		r.late = lateItem{}
	}
}

// settleLater reports whether a late item, if any, goes by a Write chunk with the length declared
// in the reply, while the stream leaves by the later Send, not by a Write that could precede it. A
// reply without items belongs to a call that has failed since: the late item is released.
func (r *Request) settleLater(m chunks.Message, plan chunks.ReplyPlan) bool {
	l := &r.late
	switch {
	case l.src == nil:
		return true
	case len(m.Items) == 0:
		r.giveUpLater()
		return true
	case len(m.Items[0].Data) != l.n || !plan.Reduced.Has(0) || plan.Form == chunks.FormLong:
		return false
	}
	l.head = m.Stream[:m.Items[0].Off]
	return true
}

// A lateSource is a Request as Source for the RDMA Writes of its lateItem.
type lateSource Request

var _ rnic.Source = (*lateSource)(nil)

// ReadFull reads the next len(p) bytes, with zeros for missing ones.
func (s *lateSource) ReadFull(p []byte) error {
	l := &s.late
	n := 0
	if !l.over {
		var err error
		if n, err = l.src.ReadAt(p, l.off); n < len(p) {
			(*Request)(s).cutLater(l.got+n, errors.Is(err, io.EOF))
		}
	}
	l.off, l.got = l.off+int64(n), l.got+n
	clear(p[n:])
	return nil
}

// cutLater shortens the reply's item to n bytes. The header keeps its length, because a chunk keeps
// its segments.
func (r *Request) cutLater(n int, end bool) {
	l := &r.late
	l.over = true
	left := uint32(n)
	for i := range r.hdr.Write[0] {
		s := &r.hdr.Write[0][i]
		s.Length = min(s.Length, left)
		left -= s.Length
	}
	r.out = r.hdr.Append(r.out[:0])
	l.cut(l.head, n, end)
}
