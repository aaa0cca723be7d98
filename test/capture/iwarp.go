// MPA, DDP and RDMAP in a conversation: start-up frames, FPDUs, messages.

package capture

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// Modes are the FPDU options of a conversation.
type Modes struct {
	CRC                                bool
	InitiatorMarkers, ResponderMarkers bool // markers in the stream from that end
}

// Startup returns the two start-up frames and the resulting modes.
func (c *Conversation) Startup() (request, reply mpa.Frame, m Modes, err error) {
	request, n, err := mpa.ParseFrame(c.Initiator.Bytes, false)
	if err != nil || n == 0 {
		return request, reply, m, fmt.Errorf("%s: Request: %d bytes, %w", c.Name, n, err)
	}
	reply, n, err = mpa.ParseFrame(c.Responder.Bytes, true)
	if err != nil || n == 0 {
		return request, reply, m, fmt.Errorf("%s: Reply: %d bytes, %w", c.Name, n, err)
	}
	m = Modes{CRC: request.CRC || reply.CRC, InitiatorMarkers: reply.Markers, ResponderMarkers: request.Markers}
	return request, reply, m, nil
}

// An FPDU is one framed DDP segment.
type FPDU struct {
	FromInitiator bool
	Packet        int // number of the packet that completed the FPDU
	End           int // stream offset of the byte after the FPDU
	Header        ddp.Header
	Op            rdmap.Opcode
	Payload       []byte
}

// FPDUs splits an end's stream after its start-up frame.
func (c *Conversation) FPDUs(fromInitiator bool) ([]FPDU, error) {
	_, _, m, err := c.Startup()
	if err != nil {
		return nil, err
	}
	s, marked := &c.Responder, m.ResponderMarkers
	if fromInitiator {
		s, marked = &c.Initiator, m.InitiatorMarkers
	}
	next := mpa.ParseFPDU
	if marked {
		next = new(mpa.MarkerReceiver).Parse
	}
	_, at, _ := mpa.ParseFrame(s.Bytes, !fromInitiator)
	rest := bytes.Clone(s.Bytes[at:]) // a copy, because stripping markers moves bytes
	var out []FPDU
	for len(rest) > 0 {
		ulpdu, n, err := next(rest, m.CRC)
		if err != nil || n == 0 {
			return out, fmt.Errorf("%s: FPDU at %d, %d bytes left: %w", c.Name, at, len(rest), err)
		}
		rest, at = rest[n:], at+n
		f := FPDU{FromInitiator: fromInitiator, Packet: s.Packet(at), End: at}
		if f.Header, f.Payload, err = ddp.Parse(ulpdu); err != nil {
			return out, fmt.Errorf("%s: FPDU that ends at %d: %w", c.Name, at, err)
		}
		if f.Op, err = rdmap.ParseControl(f.Header.Ctrl); err == nil {
			err = f.Op.Check(f.Header.Tagged, f.Header.QN)
		}
		if err != nil {
			return out, fmt.Errorf("%s: FPDU that ends at %d: %w", c.Name, at, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// A Message is an RDMAP message with its segments joined.
type Message struct {
	FromInitiator bool
	Packet        int        // number of the packet that completed the message
	Header        ddp.Header // of its first segment
	Op            rdmap.Opcode
	Payload       []byte
}

// Messages returns the messages of both directions, in the order of their completion.
func (c *Conversation) Messages() ([]Message, error) {
	var out []Message
	for _, fromInitiator := range []bool{true, false} {
		fpdus, err := c.FPDUs(fromInitiator)
		if err != nil {
			return nil, err
		}
		messages, err := join(fpdus)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		out = append(out, messages...)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Packet < out[j].Packet })
	return out, nil
}

// join assembles messages from one direction's segments. An untagged message may arrive inside a
// tagged one, so each model has a separate open message.
func join(fpdus []FPDU) ([]Message, error) {
	var out []Message
	var open [2]*Message // untagged, tagged
	for _, f := range fpdus {
		slot := 0
		if f.Header.Tagged {
			slot = 1
		}
		m := open[slot]
		if m == nil {
			m = &Message{FromInitiator: f.FromInitiator, Header: f.Header, Op: f.Op}
			open[slot] = m
		}
		if err := m.follows(f); err != nil {
			return out, fmt.Errorf("packet %d: %w", f.Packet, err)
		}
		m.Payload = append(m.Payload, f.Payload...)
		if f.Header.Last {
			m.Packet = f.Packet
			out = append(out, *m)
			open[slot] = nil
		}
	}
	if open[0] != nil || open[1] != nil {
		return out, fmt.Errorf("the capture ends inside a message")
	}
	return out, nil
}

// follows returns an error unless f is the next segment of m.
func (m *Message) follows(f FPDU) error {
	want := m.Header
	want.Last = f.Header.Last
	if want.Tagged {
		want.TO += uint64(len(m.Payload))
	} else {
		want.MO += uint32(len(m.Payload))
	}
	if f.Header != want {
		return fmt.Errorf("segment %+v, want %+v", f.Header, want)
	}
	return nil
}
