// The responder, outbound: a result item that is read when it leaves.

package rpcrdma

import (
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A lateItem is the first result item of a reply, whose bytes are read when their RDMA Write
// leaves. The Send that tells of them comes after it, and nobody has looked at the Send's bytes
// before the Write's are all with TCP: so it can be told then that there were fewer. Owned as the
// Request is; from the reply on by the RNIC's transmitter, until the Send has completed.
type lateItem struct {
	src  mem.Later // nil: there is none
	off  int64     // of the next byte
	n    int       // bytes that the reply tells of
	got  int       // of which have been read
	cut  mem.Cut
	head []byte // the reply's stream up to the item's place
	over bool   // there are no more than got: what is sent after them is nothing
}

// TakesLater reports whether the first result item can be read when it leaves, and is cheaper that
// way.
func (r *Request) TakesLater() bool {
	// A Write chunk without segments is for an item that is wanted elsewhere (RFC 8166 §4.3.2.3
	// [R8166-133]), and by a Reply chunk the stream could leave before the item has been read.
	if h := &r.hdr; len(h.Write) == 0 || len(h.Write[0]) == 0 || h.HasReply {
		return false
	}
	return r.rs.c.qp.TakesSources()
}

// Later has the n bytes of src from off on be the first result item, whose place is a Buffer of
// that length that is not filled. They are read when they are sent. If there are fewer by then, the
// rest of the requester's memory gets zeros, and cut changes the reply's stream, in which the item
// may be of any length, but is not of another place. The Request has src until its reply has left.
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

// settleLater reports whether the late item, if there is one, leaves by a Write chunk and is as
// long as the reply tells, and the stream leaves by the Send, which comes after it, not by a Write
// that could leave before. A reply without items is that of a call that has failed since: the late
// item is given up.
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

// A lateSource is a Request as the Source of the RDMA Writes of its lateItem.
type lateSource Request

var _ rnic.Source = (*lateSource)(nil)

// ReadFull reads the next len(p) bytes, or zeros where there are fewer.
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

// cutLater makes the reply one of n bytes. Its header has the length that it had: a chunk keeps its
// segments.
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
