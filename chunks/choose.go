// The choice between inline, chunks and long messages (RFC 8166 §3.5, §4.3; RFC 8267 §3).

package chunks

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Form is how a message travels.
type Form uint8

// The forms of messages.
const (
	FormInline  Form = iota // RDMA_MSG, every item inline
	FormReduced             // RDMA_MSG, items in chunks
	FormLong                // RDMA_NOMSG: a call in a Position-zero chunk, a reply in the Reply chunk
	FormNone                // a reply that fits nowhere: RDMA_ERROR, ERR_CHUNK
)

func (f Form) String() string {
	names := [...]string{"inline", "reduced", "long", "none"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("Form(%d)", uint8(f))
}

// An Offer is the memory that a call offers for its reply.
type Offer uint8

// What a call can offer. There is no Write and Reply chunk together: Linux
// sizes its use of the Reply chunk as if nothing went by the Write chunk.
const (
	OfferNothing Offer = iota
	OfferWrite         // one Write chunk of exactly the sink
	OfferReply         // a Reply chunk for the whole reply
)

func (o Offer) String() string {
	names := [...]string{"nothing", "Write chunk", "Reply chunk"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Offer(%d)", uint8(o))
}

// CallSizes is what the choice of a requester depends on, in bytes and segments.
type CallSizes struct {
	Stream       int // the call without its items
	Items        int // its items, each rounded up; 0 when there are none
	ItemSegments int // segments that name the items
	LongSegments int // segments that name the complete call

	MaxReply      int // most of the reply, RPC header included, the item of the sink apart
	Sink          int // most of the item that the sink can take; 0 when there is no sink
	SinkSegments  int // segments that name the sink
	ReplySegments int // segments that name room for the whole reply

	CallThreshold, ReplyThreshold int // inline thresholds of the connection (RFC 8166 §3.3.2)
}

// A CallPlan is how to send a call and what to offer with it.
type CallPlan struct {
	Form  Form // never FormNone
	Offer Offer
	// header is the bytes of the header with all its lists.
	header int
	// ReplyRoom is the bytes that the offered Write or Reply chunk must have.
	ReplyRoom int
}

// errHeader says that not even the header of a long call fits the threshold.
var errHeader = errors.New("chunks: too many segments for the inline threshold")

// PlanCall chooses for a requester. The offer comes first, since its segments
// make the header of the call larger.
func PlanCall(s CallSizes) (CallPlan, error) {
	p := planOffer(&s)
	withReads := p.header + readSegmentSize*s.ItemSegments
	switch {
	case p.header+s.Stream+s.Items <= s.CallThreshold:
		p.Form = FormInline
	case s.Items > 0 && withReads+s.Stream <= s.CallThreshold:
		p.Form, p.header = FormReduced, withReads
	default:
		p.Form = FormLong
		p.header += readSegmentSize * s.LongSegments
	}
	if p.header > s.CallThreshold {
		return CallPlan{}, errHeader
	}
	return p, nil
}

// planOffer chooses what to offer for the reply. A reply that surely fits
// inline needs nothing, a small READ too: nothing has to be registered then. A
// Write chunk serves when the rest of the reply fits inline (RFC 8166 §4.3.3 [R8166-136]);
// anything else needs a Reply chunk for all of it, pads included (RFC 8166 §3.5.3 [R8166-095]).
func planOffer(s *CallSizes) CallPlan {
	whole := s.MaxReply + xdr.RoundUp(s.Sink)
	write := writeChunkSize(s.SinkSegments)
	switch {
	case MinHeaderSize+whole <= s.ReplyThreshold:
		return CallPlan{header: MinHeaderSize}
	case s.Sink > 0 && MinHeaderSize+write+s.MaxReply <= s.ReplyThreshold:
		return CallPlan{Offer: OfferWrite, header: MinHeaderSize + write, ReplyRoom: s.Sink}
	default:
		h := MinHeaderSize + replyChunkSize(s.ReplySegments)
		return CallPlan{Offer: OfferReply, header: h, ReplyRoom: whole}
	}
}

// A ReplyPlan is how to send a reply.
type ReplyPlan struct {
	Form Form
	// Reduced is the items that go by the Write chunk of their number; the
	// others stay in the payload.
	Reduced ItemSet
	// header is the bytes of the header, every offered chunk returned in it.
	header int
	// Payload is the bytes of the message without the items of Reduced.
	Payload int
}

// PlanReply chooses for a responder: how m answers the call whose lists are
// offered, when the connection takes threshold bytes inline. It must be asked
// before any byte is written: FormNone means that nothing may be (RFC 8166 §4.5 [R8166-148]).
func PlanReply(m Message, offered *Lists, threshold int) ReplyPlan {
	p := ReplyPlan{header: offered.replyHeader()}
	// Items take the Write chunks in order (RFC 8166 §4.3.2.1 [R8166-126]), however small they are
	// (RFC 8166 §4.3.2 [R8166-123]). A chunk without segments says that its item is wanted inline
	// (RFC 8166 §4.3.2.3 [R8166-133]). An item has bytes, so an error arm and an empty result leave
	// their chunk unused (RFC 8166 §4.3.2.2 [R8166-130]).
	for i := range m.Items[:min(len(m.Items), len(offered.Write))] {
		c := offered.Write[i]
		if len(c) == 0 {
			continue
		}
		if uint64(len(m.Items[i].Data)) > c.Len() {
			p.Form = FormNone
			return p
		}
		p.Reduced |= 1 << i
	}
	p.Payload = m.lenWithout(p.Reduced)
	switch {
	case p.header+p.Payload <= threshold && p.Reduced == 0:
		p.Form = FormInline
	case p.header+p.Payload <= threshold:
		p.Form = FormReduced
	case offered.HasReply && uint64(p.Payload) <= offered.Reply.Len() && p.header <= threshold:
		p.Form = FormLong // RFC 8166 §3.5.3 [R8166-093]
	default:
		p.Form = FormNone
	}
	return p
}

// replyHeader is the bytes of the header of a reply that returns the Write
// list and Reply chunk; its Read list is empty (RFC 8166 §4.3.1 [R8166-119]).
func (l *Lists) replyHeader() int { return FixedSize + l.Size() - readSegmentSize*len(l.Read) }
