// Data moved by RDMA Writes and Reads, reassembled by chunk.

package capture

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A transfer has bytes that were written to, or read from, the initiator's memory.
type transfer struct {
	packet int
	stag   uint32
	to     uint64
	data   []byte
	used   bool // already part of a chunk
}

// memory has all the responder's accesses to the initiator's memory, in order.
type memory struct{ writes, reads []transfer }

func remember(messages []Message) (memory, error) {
	var m memory
	var asked []rdmap.ReadRequest // in order of their responses
	for i := range messages {
		switch msg := &messages[i]; {
		case msg.Op == rdmap.OpWrite && !msg.FromInitiator:
			m.writes = append(m.writes, transfer{packet: msg.Packet, stag: msg.Header.STag, to: msg.Header.TO, data: msg.Payload})
		case msg.Op == rdmap.OpReadRequest && !msg.FromInitiator:
			r, err := rdmap.ParseReadRequest(msg.Payload)
			if err != nil {
				return m, err
			}
			asked = append(asked, r)
		case msg.Op == rdmap.OpReadResponse && msg.FromInitiator:
			if len(asked) == 0 {
				return m, fmt.Errorf("packet %d: Read Response to nothing", msg.Packet)
			}
			m.reads = append(m.reads, transfer{packet: msg.Packet, stag: asked[0].SrcSTag, to: asked[0].SrcTO, data: msg.Payload})
			asked = asked[1:]
		}
	}
	return m, nil
}

// chunk assembles the bytes of segments. It uses transfers for which ok is true and that are not
// part of an earlier chunk, because STags and offsets are reused.
func chunk(ts []transfer, segments []chunks.Segment, ok func(packet int) bool) ([]byte, error) {
	var out []byte
	for _, s := range segments {
		room := make([]byte, s.Length)
		missing := len(room)
		for i := range ts {
			t := &ts[i]
			at := t.to - s.Offset
			if missing == 0 || t.used || !ok(t.packet) || t.stag != s.Handle || at+uint64(len(t.data)) > uint64(s.Length) {
				continue
			}
			missing -= copy(room[at:], t.data)
			t.used = true
		}
		if missing != 0 {
			return nil, fmt.Errorf("segment %+v: %d bytes never went", s, missing)
		}
		out = append(out, room...)
	}
	return out, nil
}

// unused returns a transfer that is not part of any chunk, or nil.
func (m *memory) unused() *transfer {
	for _, ts := range [][]transfer{m.writes, m.reads} {
		for i := range ts {
			if !ts[i].used {
				return &ts[i]
			}
		}
	}
	return nil
}
