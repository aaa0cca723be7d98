// The requester's exposed memory: what a call lets the peer read and write, and how that ends.

package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// An exposure is the memory of one call that the peer can use: the caller's own (Sink and argument
// items), and buffers of ours for what travels whole. Each region is exposed for one call, with the
// one right that it needs, under a new STag (RFC 8166 §8.1.3 [R8166-201], RFC 8797 §3.2
// [R8797-002]); the MRs are kept from call to call. Who has the Call owns it; there is no lock, for
// the RNIC has its own where bytes are placed.
type exposure struct {
	pd *rnic.PD // set once

	args  []*rnic.MR // of the argument items
	sink  *rnic.MR
	reply *rnic.MR
	long  *rnic.MR

	longBuf  *mem.Buffer   // the complete call, when it travels as Position-zero chunk
	replyBuf *mem.Buffer   // the Reply chunk
	standIns []*mem.Buffer // what the peer has in place of the caller's memory
	exposed  bool          // some of it since the last release: most calls expose nothing, and the MRs are there from others
}

// expose makes b accessible to the peer by an MR that the Call keeps.
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

// invalidate ends the peer's access to all of it: when it returns no byte is placed, or
// read, any more. What the peer has invalidated itself is passed over by the RNIC.
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

// release is invalidate, and gives our buffers back to their pool.
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

// maxStandIn is the largest memory that a call given up on has replaced.
const maxStandIn = 4 << 20

// standIn ends the peer's access to the memory of the caller, but not to the
// STags: a responder that has not heard that the call was given up on, and cannot
// hear it, writes its result to buffers of ours, and reads from them what the
// caller had. A stale STag would cost it, and all other calls, the connection.
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
