// The responder's record of calls that ended a connection by their chunks, so that a replay does
// not end the next connection.

package rpcrdma

import (
	"errors"
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// FatalCalls records calls that ended their connection because the requester refused one of their
// RDMA Reads or Writes. A requester that reconnects replays them with the same XID, and would lose
// that connection too. So the first replay is answered ERR_CHUNK (RFC 8166 §4.5.3 [R8166-166]). One
// FatalCalls serves the connections of one service. It holds a bounded number of calls and forgets
// them after two minutes.
type FatalCalls struct {
	seed maphash.Seed // set once
	n    atomic.Int32 // len(at), read without the lock

	mu    sync.Mutex
	at    map[fatalCall]time.Time // time of the refusal; guarded by mu, as is all below
	order []fatalCall             // oldest first; may name calls no longer in at
}

// A fatalCall identifies a call by the client's address (the port changes), its XID and its
// message. Clients that share an address (NAT, or users of one machine) may use the same XID at the
// same time. None of them can get another's call refused by guessing its XID.
type fatalCall struct {
	client netip.Addr
	xid    uint32
	sum    uint64 // checksum of the message without its chunks: a replay has new STags
}

// NewFatalCalls returns an empty FatalCalls.
func NewFatalCalls() *FatalCalls {
	return &FatalCalls{seed: maphash.MakeSeed(), at: make(map[fatalCall]time.Time)}
}

// record stores a call, and drops the oldest when there are too many.
func (f *FatalCalls) record(key fatalCall, now time.Time) {
	client := key.client
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(key)
	mine, first := 0, fatalCall{}
	for i := len(f.order) - 1; i >= 0; i-- {
		if f.order[i].client == client {
			mine, first = mine+1, f.order[i]
		}
	}
	switch {
	case mine >= fatalPerClient:
		f.drop(first)
	case len(f.order) >= fatalMax:
		f.drop(f.order[0])
	}
	f.at[key] = now
	f.order = append(f.order, key)
	f.n.Store(int32(len(f.at)))
}

// take reports whether a call is recorded, and removes it: an answered client has no reason to
// replay it again.
func (f *FatalCalls) take(key fatalCall, now time.Time) bool {
	if f == nil || f.n.Load() == 0 || !key.client.IsValid() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[key]
	if ok {
		f.drop(key)
	}
	return ok && now.Sub(at) < fatalLife
}

// drop removes a call. The caller holds mu.
func (f *FatalCalls) drop(key fatalCall) {
	if _, ok := f.at[key]; !ok {
		return
	}
	delete(f.at, key)
	f.n.Store(int32(len(f.at)))
	for i := range f.order {
		if f.order[i] == key {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

// A recentWrite is an STag written by a reply.
type recentWrite struct {
	call fatalCall
	stag uint32
}

// recentWrites holds the newest written STags, because the peer can refuse bytes long after TCP has
// taken them.
type recentWrites struct {
	ring [32]recentWrite
	next int
}

func (s *recentWrites) add(call fatalCall, stag uint32) {
	s.ring[s.next%len(s.ring)] = recentWrite{call, stag}
	s.next++
}

// addressOf returns the client's address without the port.
func addressOf(a net.Addr) netip.Addr {
	switch t := a.(type) {
	case *net.TCPAddr:
		return t.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// refusedSTag returns the peer's STag refused by its Terminate. Without an STag the refused call is
// unknown, and no call is recorded.
func refusedSTag(err error) (stag uint32, ok bool) {
	var e rnic.PeerError
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.RefusedSTag()
}

// recordWrites records the STags written by a reply, when the reply has completed.
func (rs *responder) recordWrites(r *Request, ok bool) {
	if rs.c.cfg.Fatal == nil || !rs.client.IsValid() || len(r.hdr.Write) == 0 && len(r.hdr.Reply) == 0 {
		return
	}
	if !ok {
		rs.recordFatal(r)
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, chunk := range r.hdr.Write {
		for _, s := range chunk {
			rs.written.add(r.ident, s.Handle)
		}
	}
	for _, s := range r.hdr.Reply {
		rs.written.add(r.ident, s.Handle)
	}
}

// recordFatal records the call of r, whose work was flushed, if the peer refused one of its chunks.
func (rs *responder) recordFatal(r *Request) {
	if rs.c.cfg.Fatal == nil || !rs.client.IsValid() {
		return
	}
	stag, ok := refusedSTag(rs.c.qp.Err())
	if !ok {
		return
	}
	h := &r.hdr
	found := false
	for i := range h.Read {
		found = found || h.Read[i].Handle == stag
	}
	for _, chunk := range h.Write {
		for i := range chunk {
			found = found || chunk[i].Handle == stag
		}
	}
	for i := range h.Reply {
		found = found || h.Reply[i].Handle == stag
	}
	if found {
		rs.c.cfg.Fatal.record(r.ident, time.Now())
	}
}

// recordFatalWritten records the answered call with the refused chunk: TCP had taken its Writes
// before the connection ended.
func (rs *responder) recordFatalWritten() {
	stag, ok := refusedSTag(rs.c.qp.Err())
	if !ok || rs.c.cfg.Fatal == nil || !rs.client.IsValid() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := &rs.written
	for i := 1; i <= min(s.next, len(s.ring)); i++ {
		if e := s.ring[(s.next-i)%len(s.ring)]; e.stag == stag {
			rs.c.cfg.Fatal.record(e.call, time.Now())
			return
		}
	}
}

// fatalReplay reports whether this call has ended a connection before.
func (r *Request) fatalReplay() bool {
	rs, h := r.rs, &r.hdr
	if rs.c.cfg.Fatal == nil || len(h.Read) == 0 && len(h.Write) == 0 && !h.HasReply {
		return false // a call without chunks is harmless
	}
	r.ident = fatalCall{rs.client, h.XID, r.sum()}
	return rs.c.cfg.Fatal.take(r.ident, time.Now())
}

// sum returns the checksum of the message. For a long call, still in the client's memory, it
// returns only the length.
func (r *Request) sum() uint64 {
	if r.hdr.Proc == ProcNoMsg {
		return r.pullLen()
	}
	return maphash.Bytes(r.rs.c.cfg.Fatal.seed, r.inline())
}
