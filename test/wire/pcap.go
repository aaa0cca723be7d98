// Reads a capture: packets, and the TCP streams in them.

// Package wire validates captures of RPC-over-RDMA. It has independent parsers for every layer, so
// that a bug in the product's codecs cannot hide itself, and uses tshark as a second opinion.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// chunk is a run of stream bytes, with the number of the frame that completed the run. The bytes
// MUST NOT be kept.
type chunk struct {
	frame int
	dir   int // 0: from the side that opened the connection
	data  []byte
}

// stream is one TCP connection.
type stream struct {
	opener endpoints
	take   func(chunk) // receives the bytes in stream order
}

type endpoints struct {
	src, dst [4]byte
	from, to uint16
}

// half is one direction during reassembly.
type half struct {
	started    bool
	next       uint32
	outOfOrder []segment // segments after next
}

type segment struct {
	seq  uint32
	data []byte
}

// readPcap calls packet for each IPv4 packet in a capture, with its number. It supports Linux
// loopback and raw IP captures. The packet's bytes are valid only during the call.
func readPcap(r io.Reader, packet func(frame int, ip []byte)) error {
	in := bufio.NewReaderSize(r, 1<<20)
	var file [24]byte
	if _, err := io.ReadFull(in, file[:]); err != nil {
		return io.ErrUnexpectedEOF
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch magic := order.Uint32(file[:]); magic {
	case 0xa1b2c3d4, 0xa1b23c4d:
	case 0xd4c3b2a1, 0x4d3cb2a1:
		order = binary.BigEndian
	default:
		return fmt.Errorf("not a pcap file: %08x", magic)
	}
	skip := 0
	switch link := order.Uint32(file[20:]); link {
	case 1:
		skip = 14
	case 101:
	default:
		return fmt.Errorf("link type %d", link)
	}
	b := make([]byte, maxPacket)
	for frame := 1; ; frame++ {
		var head [16]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := order.Uint32(head[8:])
		if n > maxPacket {
			return fmt.Errorf("a packet of %d bytes", n)
		}
		if n < order.Uint32(head[12:]) {
			return errors.New("the capture holds packets in part only")
		}
		if _, err := io.ReadFull(in, b[:n]); err != nil {
			return io.ErrUnexpectedEOF
		}
		if int(n) > skip {
			packet(frame, b[skip:n])
		}
	}
}

// maxPacket is larger than any packet written by a capture program.
const maxPacket = 1 << 18

// assembler reassembles TCP streams. It calls open for each new stream.
type assembler struct {
	open    func(*stream)
	halves  map[endpoints]*half
	streams map[endpoints]*stream // both directions map to one stream
}

func newAssembler(open func(*stream)) *assembler {
	return &assembler{open: open, halves: map[endpoints]*half{}, streams: map[endpoints]*stream{}}
}

// packet adds an IPv4 packet; packets other than TCP are ignored.
func (a *assembler) packet(frame int, ip []byte) {
	if len(ip) < 20 || ip[0]>>4 != 4 || ip[9] != 6 {
		return
	}
	head, total := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if head < 20 || total > len(ip) || total < head+20 {
		return
	}
	tcp := ip[head:total]
	offset := int(tcp[12]>>4) * 4
	if offset < 20 || offset > len(tcp) {
		return
	}
	e := endpoints{src: [4]byte(ip[12:]), dst: [4]byte(ip[16:]), from: binary.BigEndian.Uint16(tcp), to: binary.BigEndian.Uint16(tcp[2:])}
	back := endpoints{src: e.dst, dst: e.src, from: e.to, to: e.from}
	const syn, ack = 0x02, 0x10
	flags, seq := tcp[13], binary.BigEndian.Uint32(tcp[4:])
	if flags&syn != 0 {
		if flags&ack == 0 {
			s := &stream{opener: e}
			a.open(s)
			a.streams[e], a.streams[back] = s, s
			a.halves[e], a.halves[back] = &half{}, &half{}
		}
		if h := a.halves[e]; h != nil {
			h.started, h.next = true, seq+1
		}
		return
	}
	h, s := a.halves[e], a.streams[e]
	if h == nil || !h.started || offset == len(tcp) {
		return
	}
	dir := 0
	if s.opener != e {
		dir = 1
	}
	data := tcp[offset:]
	if len(h.outOfOrder) > 0 || seq != h.next {
		h.outOfOrder = append(h.outOfOrder, segment{seq, slices.Clone(data)})
		for _, data := range h.ready() {
			s.take(chunk{frame, dir, data})
		}
		return
	}
	h.next += uint32(len(data))
	s.take(chunk{frame, dir, data})
}

// ready returns the contiguous segments, and drops repeated bytes.
func (h *half) ready() (out [][]byte) {
	slices.SortStableFunc(h.outOfOrder, func(a, b segment) int { return int(int32(a.seq - b.seq)) })
	for len(h.outOfOrder) > 0 {
		s := h.outOfOrder[0]
		gap := int32(s.seq - h.next)
		if gap > 0 {
			return out
		}
		h.outOfOrder = h.outOfOrder[1:]
		if known := int(-gap); known < len(s.data) {
			out = append(out, s.data[known:])
			h.next += uint32(len(s.data) - known)
		}
	}
	return out
}
