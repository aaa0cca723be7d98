// The requester's exposed memory: the peer's access to a call's memory, and its end.

package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// An exposure is the memory of one call accessible to the peer: the caller's own (Sink and argument
// items), and buffers of ours for messages that travel whole. Each region is exposed for one call,
// with the single right it needs, under a new STag (RFC 8166 §8.1.3 [R8166-201], RFC 8797 §3.2
// [R8797-002]); the MRs are kept from call to call. The owner of the Call owns it. It has no lock,
// since the RNIC locks where it places bytes.
type exposure struct {
	pd *rnic.PD // set once

	args  []*rnic.MR // of the argument items
	sink  *rnic.MR
	reply *rnic.MR
	long  *rnic.MR

	longBuf  *mem.Buffer   // the complete call, sent as a Position-zero chunk
	replyBuf *mem.Buffer   // the Reply chunk
	standIns []*mem.Buffer // replace the caller's memory for the peer
	// exposed: memory was exposed since the last release. Most calls expose none, while the MRs of
	// earlier calls remain.
	exposed bool
}

// expose makes b accessible to the peer through the MR *mr, which the Call keeps.
func (m *exposure) expose(mr **rnic.MR, b []byte, access rnic.Access) (seg chunks.Segment, err error) {
	if uint64(len(b)) > 1<<32-1 {
		return seg, ErrTooLarge
	}
	if *mr == nil {
		if *mr, err = m.pd.AllocMR(); err != nil {
			return seg, err
		}
	}
	if err := (*mr).Rereg(b, access); err != nil {
		return seg, err
	}
	m.exposed = true
	return chunks.Segment{Handle: uint32((*mr).STag()), Length: uint32(len(b)), Offset: (*mr).Base()}, nil
}

// invalidate ends all the peer's access: when it returns no byte is placed or read any more. The
// RNIC skips STags already invalidated by the peer.
func (m *exposure) invalidate() {
	if !m.exposed {
		return
	}
	for _, mr := range m.args {
		invalidate(mr)
	}
	invalidate(m.sink)
	invalidate(m.reply)
	invalidate(m.long)
}

// release invalidates, and returns our buffers to their pool.
func (m *exposure) release() {
	m.invalidate()
	m.exposed = false
	if m.longBuf != nil {
		m.longBuf.Put()
		m.longBuf = nil
	}
	if m.replyBuf != nil {
		m.replyBuf.Put()
		m.replyBuf = nil
	}
	for i, f := range m.standIns {
		f.Put()
		m.standIns[i] = nil
	}
	m.standIns = m.standIns[:0]
}

// deregister gives the STags back: the connection has ended.
func (m *exposure) deregister() {
	for _, mr := range append(m.args, m.sink, m.reply, m.long) {
		if mr != nil {
			mr.Dereg()
		}
	}
	m.args, m.sink, m.reply, m.long = nil, nil, nil, nil
}

// maxStandIn is the largest memory, in bytes, replaced for an abandoned call.
const maxStandIn = 4 << 20

// standIn ends the peer's access to the caller's memory, but keeps the STags valid. The responder
// cannot learn that the call was given up: it writes its result to our buffers, and reads copies of
// the caller's items from them. A stale STag would end the connection, and all other calls with it.
func (m *exposure) standIn(k *Call) {
	for i := range min(len(m.args), len(k.Msg.Items)) {
		m.divert(m.args[i], k.Msg.Items[i].Data, true)
	}
	m.divert(m.sink, k.Sink, false)
}

// divert gives the peer a buffer in place of b, with the content of b if the peer can read it.
func (m *exposure) divert(mr *rnic.MR, b []byte, keep bool) {
	if mr == nil || !mr.Valid() || len(b) > maxStandIn {
		invalidate(mr)
		return
	}
	f := mem.Get(len(b))
	if keep {
		copy(f.B, b)
	}
	m.standIns = append(m.standIns, f)
	mr.Divert(f.B[:len(b)])
}

func invalidate(mr *rnic.MR) {
	if mr != nil {
		mr.Invalidate()
	}
}
