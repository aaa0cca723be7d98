// The responder's memory of calls whose chunks cost a connection, so that their replay does not
// cost the next one.

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

// Bounds of FatalCalls.
const (
	fatalMax       = 1024            // of all clients
	fatalPerClient = 64              // of one address
	fatalLife      = 2 * time.Minute // a requester that replays does so at once
)

// FatalCalls are calls that a responder could not serve because the requester
// refused an RDMA Read or Write of theirs, which ends a connection. A requester that
// connects again replays them, with the same XID, and would lose that connection
// too. So the first replay is answered ERR_CHUNK (RFC 8166 §4.5.3 [R8166-166]).
// It is for the connections of one service. The number of calls is bounded, and they
// are forgotten after two minutes.
type FatalCalls struct {
	seed maphash.Seed // set once
	n    atomic.Int32 // len(at), to look at without the lock

	mu    sync.Mutex
	at    map[fatalCall]time.Time // when it happened; guarded by mu, as is all that follows
	order []fatalCall             // oldest first; may name some that are not in at any more
}

// A fatalCall is known by its client's address, for the port is another each time, its XID
// and its message: clients that share an address (NAT, or users of one machine) may use one
// XID at a time, and none of them may have another's call refused by guessing it.
type fatalCall struct {
	client netip.Addr
	xid    uint32
	sum    uint64 // of the message without its chunks, whose STags are new in a replay
}

// NewFatalCalls returns an empty FatalCalls.
func NewFatalCalls() *FatalCalls {
	return &FatalCalls{seed: maphash.MakeSeed(), at: make(map[fatalCall]time.Time)}
}

// note remembers a call, and forgets the oldest when there are too many.
func (f *FatalCalls) note(key fatalCall, now time.Time) {
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

// take reports whether a call is remembered, and forgets it: who has been answered has
// no reason to replay it again.
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

// drop forgets a call. The caller holds mu.
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

// A recentWrite is an STag that a reply was written to.
type recentWrite struct {
	call fatalCall
	stag uint32
}

// recentWrites are the newest of them: TCP takes bytes long before the peer can refuse them.
type recentWrites struct {
	ring [32]recentWrite
	next int
}

func (s *recentWrites) add(call fatalCall, stag uint32) {
	s.ring[s.next%len(s.ring)] = recentWrite{call, stag}
	s.next++
}

// addressOf is the client's address without the port.
func addressOf(a net.Addr) netip.Addr {
	switch t := a.(type) {
	case *net.TCPAddr:
		return t.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// refusedSTag is the STag of the peer's that a Terminate refused to us.
// Without it nobody can tell which of many calls was refused, and none is noted.
func refusedSTag(err error) (stag uint32, ok bool) {
	var e rnic.PeerError
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.RefusedSTag()
}

// wrote notes, on the completion of a reply, where its Writes went.
func (rs *responder) wrote(r *Request, ok bool) {
	if rs.c.cfg.Fatal == nil || !rs.client.IsValid() || len(r.hdr.Write) == 0 && len(r.hdr.Reply) == 0 {
		return
	}
	if !ok {
		rs.noteFatal(r)
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

// noteFatal remembers the call of r, whose work was flushed, if one of its chunks is what the
// peer has refused.
func (rs *responder) noteFatal(r *Request) {
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
		rs.c.cfg.Fatal.note(r.ident, time.Now())
	}
}

// noteFatalWritten remembers the call whose answered chunk the peer has refused: its Writes
// had been taken by TCP when the connection ended.
func (rs *responder) noteFatalWritten() {
	stag, ok := refusedSTag(rs.c.qp.Err())
	if !ok || rs.c.cfg.Fatal == nil || !rs.client.IsValid() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := &rs.written
	for i := 1; i <= min(s.next, len(s.ring)); i++ {
		if e := s.ring[(s.next-i)%len(s.ring)]; e.stag == stag {
			rs.c.cfg.Fatal.note(e.call, time.Now())
			return
		}
	}
}

// fatalReplay reports whether the call is one that has cost a connection before.
func (r *Request) fatalReplay() bool {
	rs, h := r.rs, &r.hdr
	if rs.c.cfg.Fatal == nil || len(h.Read) == 0 && len(h.Write) == 0 && !h.HasReply {
		return false // it can do no harm
	}
	r.ident = fatalCall{rs.client, h.XID, r.sum()}
	return rs.c.cfg.Fatal.take(r.ident, time.Now())
}

// sum is the checksum of the message. Of a long call, whose message is still in the client's
// memory, only its length is known.
func (r *Request) sum() uint64 {
	if r.hdr.Proc == ProcNoMsg {
		return r.pullLen()
	}
	return maphash.Bytes(r.rs.c.cfg.Fatal.seed, r.inline())
}
