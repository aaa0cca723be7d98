// The TCP connections in a capture, reassembled, and the connections that speak MPA.

package capture

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// A Conversation is one TCP connection with an MPA start-up.
type Conversation struct {
	Name                 string // the capture and the two ends
	Initiator, Responder Stream // the bytes sent by each end, start-up frame first
}

// A Stream is the bytes sent by one end of a TCP connection, in order.
type Stream struct {
	Bytes    []byte
	arrivals []arrival // ascending
}

// An arrival is the packet that completed the bytes up to end, from the previous arrival's end on.
type arrival struct{ end, packet int }

// Packet returns the number of the packet that completed Bytes[:end].
func (s *Stream) Packet(end int) int {
	i := sort.Search(len(s.arrivals), func(i int) bool { return s.arrivals[i].end >= end })
	if i == len(s.arrivals) {
		return 0
	}
	return s.arrivals[i].packet
}

// Streams returns the MPA conversations of a capture file.
func Streams(file string) ([]Conversation, error) {
	t := tracker{halves: map[gopacket.Flow]map[gopacket.Flow]*half{}}
	if err := eachPacket(file, t.packet); err != nil {
		return nil, err
	}
	var out []Conversation
	for _, h := range t.all {
		if h.peer == nil || !bytes.HasPrefix(h.Bytes, []byte("MPA ID Req Frame")) {
			continue
		}
		if len(h.held)+len(h.peer.held) > 0 {
			return nil, fmt.Errorf("%s: %s has a hole", file, h.name)
		}
		out = append(out, Conversation{Name: file + " " + h.name, Initiator: h.Stream, Responder: h.peer.Stream})
	}
	return out, nil
}

// tracker assigns packets to half connections.
type tracker struct {
	halves map[gopacket.Flow]map[gopacket.Flow]*half // by IP addresses, then ports
	all    []*half                                   // in order of appearance
}

// half is one direction of a TCP connection.
type half struct {
	Stream
	name string
	peer *half
	next uint32            // sequence number of the first byte not yet in Bytes
	held map[uint32][]byte // segments that arrived early
}

func (t *tracker) packet(number int, p gopacket.Packet) {
	ip := p.NetworkLayer()
	tcp, ok := p.TransportLayer().(*layers.TCP)
	if ip == nil || !ok {
		return
	}
	addrs, ports := ip.NetworkFlow(), tcp.TransportFlow()
	if tcp.SYN {
		t.open(addrs, ports, tcp)
		return
	}
	if h := t.halves[addrs][ports]; h != nil {
		h.segment(number, tcp.Seq, tcp.Payload)
	}
}

// open starts a half connection at its SYN. The new half connection replaces an earlier one with
// the same ports.
func (t *tracker) open(addrs, ports gopacket.Flow, tcp *layers.TCP) {
	h := &half{name: fmt.Sprintf("%v:%v", addrs, ports), next: tcp.Seq + 1, held: map[uint32][]byte{}}
	if tcp.ACK {
		if h.peer = t.halves[addrs.Reverse()][ports.Reverse()]; h.peer != nil {
			h.peer.peer = h
		}
	}
	if t.halves[addrs] == nil {
		t.halves[addrs] = map[gopacket.Flow]*half{}
	}
	t.halves[addrs][ports] = h
	t.all = append(t.all, h)
}

// segment adds one TCP segment. Early segments wait; repeated bytes are dropped.
func (h *half) segment(number int, seq uint32, b []byte) {
	if len(b) == 0 {
		return
	}
	h.held[seq] = bytes.Clone(b)
	for again := true; again; {
		again = false
		for seq, b := range h.held {
			seen := int32(h.next - seq)
			if seen < 0 {
				continue // early
			}
			delete(h.held, seq)
			if int(seen) < len(b) {
				h.Bytes = append(h.Bytes, b[seen:]...)
				h.next = seq + uint32(len(b))
				again = true
			}
		}
	}
	if n := len(h.Bytes); len(h.arrivals) == 0 || h.arrivals[len(h.arrivals)-1].end < n {
		h.arrivals = append(h.arrivals, arrival{n, number})
	}
}
