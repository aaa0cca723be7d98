// The choice between inline, chunks and long messages (RFC 8166 §3.5, §4.3; RFC 8267 §3).

package chunks

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Form is how a message travels.
type Form uint8

// Message forms.
const (
	FormInline  Form = iota // RDMA_MSG, every item inline
	FormReduced             // RDMA_MSG, items in chunks
	FormLong                // RDMA_NOMSG: call in a Position-zero chunk, reply in the Reply chunk
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

// Offers. No call offers a Write and a Reply chunk together: Linux sizes its use of the
// Reply chunk as if nothing went by the Write chunk.
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

// CallSizes are the inputs of a requester's choice, in bytes and segments.
type CallSizes struct {
	Stream       int // the call without its items
	Items        int // bytes in the items, each rounded up; 0: no items
	ItemSegments int // segments that name the items
	LongSegments int // segments that name the complete call

	MaxReply      int // the reply's upper limit, RPC header included, without the sink's item
	Sink          int // the item's upper limit; 0: no sink
	SinkSegments  int // segments that name the sink
	ReplySegments int // segments that name memory for the whole reply

	CallThreshold, ReplyThreshold int // the connection's inline thresholds (RFC 8166 §3.3.2)
}

// A CallPlan is a requester's choice for a call and its offer.
type CallPlan struct {
	Form  Form // never FormNone
	Offer Offer
	// header is the header's size in bytes, with all its lists.
	header int
	// ReplyRoom is the size in bytes required for the offered Write or Reply chunk.
	ReplyRoom int
}

// errHeader means that even a long call's header exceeds the threshold.
var errHeader = errors.New("chunks: too many segments for the inline threshold")

// PlanCall chooses for a requester. It plans the offer first, because the offer's segments enlarge
// the call's header.
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

// planOffer chooses the offer for the reply. A reply sure to fit inline, for example a small
// READ's, needs no offer, and no registration. A Write chunk serves when the rest of the reply fits
// inline (RFC 8166 §4.3.3 [R8166-136]). Any other reply needs a Reply chunk for the whole reply,
// padding included (RFC 8166 §3.5.3 [R8166-095]).
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

// A ReplyPlan is a responder's choice for a reply.
type ReplyPlan struct {
	Form Form
	// Reduced has the items that go by the Write chunk with their number; the others stay in the
	// payload.
	Reduced ItemSet
	// header is the header's size in bytes, with every offered chunk returned in it.
	header int
	// Payload is the message's size in bytes without the items in Reduced.
	Payload int
}

// PlanReply chooses for a responder: how m answers the call with the lists offered, on a connection
// with an inline threshold of threshold bytes. Call it before any byte is written: after FormNone
// no byte may be written (RFC 8166 §4.5 [R8166-148]).
func PlanReply(m Message, offered *Lists, threshold int) ReplyPlan {
	p := ReplyPlan{header: offered.replyHeader()}
	// Items take the Write chunks in order (RFC 8166 §4.3.2.1 [R8166-126]), even small ones (RFC
	// 8166 §4.3.2 [R8166-123]). A chunk without segments requests its item inline (RFC 8166
	// §4.3.2.3 [R8166-133]). An item has bytes, so an error arm and an empty result leave their
	// chunk unused (RFC 8166 §4.3.2.2 [R8166-130]).
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

// replyHeader returns the size in bytes of a reply's header with the Write list and Reply chunk;
// its Read list is empty (RFC 8166 §4.3.1 [R8166-119]).
func (l *Lists) replyHeader() int { return FixedSize + l.Size() - readSegmentSize*len(l.Read) }
