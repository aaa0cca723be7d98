// The service that both sides offer: one procedure whose arguments and results can have every form.

package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An ending is the way in which the handler ends a call.
type ending uint8

const (
	endReply ending = iota
	endReject
	endDrop    // the caller has a time limit
	endTooLong // more than the call has room for
	endHold    // held until all are released
	endSpoil   // with a wrong header, where possible; the caller has a time limit
)

// A plan has all random choices for one call. It is found by XID.
type plan struct {
	xid      uint32
	start    time.Duration // wait before the call
	args     int           // bytes in the stream
	items    []int         // bytes of each argument item
	results  int           // bytes of results in the reply's stream
	item     int           // bytes in the result item; -1: there is none
	sink     bool          // the caller has memory for it
	late     time.Duration // the handler's delay; 0: it answers where it is called
	end      ending
	limit    time.Duration // after which the caller gives up; 0: never
	byExpiry bool          // by Call.Expired, else by the context
}

const (
	statusOK     = 0
	statusNoRoom = 1 // of the budget
	maxSize      = 1 << 20
)

// pattern has bytes with a period that is no power of two.
var pattern = func() (b [4093 + 256]byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>3)
	}
	return b
}()

// fill fills b with the test pattern for one part in a call; xid and part determine it.
func fill(b []byte, xid uint32, part int) {
	for seed := (xid*31 + uint32(part)*7) % 256; len(b) > 0; {
		b = b[copy(b, pattern[seed:seed+4093]):]
	}
}

func content(n int, xid uint32, part int) []byte {
	b := make([]byte, n)
	fill(b, xid, part)
	return b
}

// Parts of a call and its reply.
const (
	partArgs = iota
	partResults
	partItem
	partItems // the first item; further items follow
)

// A service serves one side.
type service struct {
	plans  map[uint32]*plan // set once
	fail   func(format string, args ...any)
	served sync.WaitGroup
	tight  bool // the budget may be spent

	mu   sync.Mutex
	seen map[uint32]bool
	held []*rpcrdma.Request
}

// ServeRPC serves a call where it is or later.
func (s *service) ServeRPC(r *rpcrdma.Request) (leads bool) {
	xid := binary.BigEndian.Uint32(r.Msg.Stream)
	p := s.plans[xid]
	s.mu.Lock()
	again := s.seen[xid]
	s.seen[xid] = true
	s.mu.Unlock()
	if p == nil || again {
		s.fail("call %x is served, seen before: %v", xid, again)
		r.Drop()
		return true
	}
	if p.late == 0 {
		s.serve(r, p)
		return true
	}
	s.served.Go(func() {
		time.Sleep(p.late)
		s.serve(r, p)
	})
	return true
}

func (s *service) serve(r *rpcrdma.Request, p *plan) {
	if err := p.checkCall(r.Msg); err != nil {
		s.fail("call %x as it is served: %v", p.xid, err)
	}
	switch p.end {
	case endReject:
		_ = r.RejectChunks()
		return
	case endDrop:
		r.Drop()
		return
	case endHold:
		s.mu.Lock()
		s.held = append(s.held, r)
		s.mu.Unlock()
		return
	}
	s.reply(r, p)
}

// reply sends the plan's answer.
func (s *service) reply(r *rpcrdma.Request, p *plan) {
	var e xdr.Encoder
	e.Reset(r.Scratch())
	e.Uint32(p.xid)
	e.Uint32(1)
	e.Uint32(statusOK)
	e.Opaque(content(p.results, p.xid, partResults))
	if p.item >= 0 {
		n := p.item
		if p.end == endTooLong {
			n += 8 << 10
		}
		b := r.Buffer(n)
		if b == nil {
			if !s.tight {
				s.fail("call %x: no room for %d bytes", p.xid, n)
			}
			e.Truncate(8)
			e.Uint32(statusNoRoom)
			_ = r.Reply(chunks.Message{Stream: e.Bytes()})
			return
		}
		fill(b, p.xid, partItem)
		e.Item(b)
	}
	err := r.Reply(chunks.Message{Stream: e.Bytes(), Items: e.Items()})
	if (err == rpcrdma.ErrTooLarge) != (p.end == endTooLong) && r.Conn().Err() == nil {
		s.fail("call %x: Reply says %v", p.xid, err)
	}
}

// release answers the held calls, and returns their number.
func (s *service) release() int {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, r := range held {
		s.reply(r, s.plans[binary.BigEndian.Uint32(r.Msg.Stream)])
	}
	return len(held)
}

// checkCall checks that the call has arrived unchanged.
func (p *plan) checkCall(m chunks.Message) error {
	var d xdr.Decoder
	d.Reset(m.Stream, m.Items)
	d.Uint32()
	d.Uint32()
	if got := d.Opaque(maxSize); !bytes.Equal(got, content(p.args, p.xid, partArgs)) {
		return fmt.Errorf("arguments: %d bytes, want %d", len(got), p.args)
	}
	for i, n := range p.items {
		if got := d.Item(maxSize); !bytes.Equal(got, content(n, p.xid, partItems+i)) {
			return fmt.Errorf("item %d: %d bytes, want %d", i, len(got), n)
		}
	}
	if d.Err() != nil || d.Remaining() > 0 || d.ItemsLeft() > 0 {
		return fmt.Errorf("%v, %d bytes and %d items too many", d.Err(), d.Remaining(), d.ItemsLeft())
	}
	return nil
}

// checkReply checks that the reply has arrived unchanged; noRoom reports the answer for a spent
// budget.
func (p *plan) checkReply(m chunks.Message) (noRoom bool, err error) {
	var d xdr.Decoder
	d.Reset(m.Stream, m.Items)
	xid, dir, status := d.Uint32(), d.Uint32(), d.Uint32()
	if xid != p.xid || dir != 1 {
		return false, fmt.Errorf("it is a reply to %x", xid)
	}
	if status == statusOK {
		if got := d.Opaque(maxSize); !bytes.Equal(got, content(p.results, p.xid, partResults)) {
			return false, fmt.Errorf("results: %d bytes, want %d", len(got), p.results)
		}
		if p.item >= 0 {
			if got := d.Item(maxSize); !bytes.Equal(got, content(p.item, p.xid, partItem)) {
				return false, fmt.Errorf("result item: %d bytes, want %d", len(got), p.item)
			}
		}
	}
	if d.Err() != nil || d.Remaining() > 0 || d.ItemsLeft() > 0 {
		return false, fmt.Errorf("%v, %d bytes and %d items too many", d.Err(), d.Remaining(), d.ItemsLeft())
	}
	return status == statusNoRoom, nil
}

// someSize returns a size: often 0 or small, often near a border, sometimes large.
func someSize(rng *rand.Rand, borders []int) int {
	switch rng.IntN(8) {
	case 0:
		return 0
	case 1, 2:
		return 1 + rng.IntN(64)
	case 3, 4, 5:
		return max(0, borders[rng.IntN(len(borders))]-rng.IntN(160)+rng.IntN(8))
	case 6:
		return logUniform(rng, 16<<10)
	}
	return logUniform(rng, 300<<10)
}
