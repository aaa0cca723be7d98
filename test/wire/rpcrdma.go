// The RPC-over-RDMA header (RFC 8166 section 4).

package wire

import (
	"encoding/binary"
	"fmt"
)

// area is a segment: a memory range of the requester.
type area struct {
	handle, length uint32
	offset         uint64
}

func (a area) String() string { return fmt.Sprintf("%08x:%x+%d", a.handle, a.offset, a.length) }

// holds reports whether the segment contains n bytes at offset of handle.
func (a area) holds(handle uint32, offset uint64, n int) bool {
	return handle == a.handle && offset >= a.offset && offset-a.offset <= uint64(a.length) && uint64(n) <= uint64(a.length)-(offset-a.offset)
}

type readArea struct {
	position uint32
	area
}

const (
	procMsg   = 0
	procNoMsg = 1
	procError = 4
)

// header is one transport header with the RPC message after it.
type header struct {
	xid, version, credits, proc uint32
	reads                       []readArea
	writes                      [][]area
	reply                       []area // nil: none
	hasReply                    bool
	errcode                     uint32
	rpc                         []byte
}

// words parses 32-bit words and records if there were too few words.
type words struct {
	b   []byte
	bad bool
}

func (w *words) next() uint32 {
	if len(w.b) < 4 {
		w.bad = true
		return 0
	}
	v := binary.BigEndian.Uint32(w.b)
	w.b = w.b[4:]
	return v
}

func (w *words) area() area {
	a := area{handle: w.next(), length: w.next()}
	a.offset = uint64(w.next())<<32 | uint64(w.next())
	return a
}

func (w *words) array() []area {
	n := w.next()
	if uint64(n)*16 > uint64(len(w.b)) {
		w.bad = true
		return nil
	}
	list := make([]area, n)
	for i := range list {
		list[i] = w.area()
	}
	return list
}

func parseHeader(b []byte) (*header, error) {
	w := &words{b: b}
	h := &header{xid: w.next(), version: w.next(), credits: w.next(), proc: w.next()}
	switch h.proc {
	case procError:
		h.errcode = w.next()
	case procMsg, procNoMsg:
		for !w.bad && w.next() != 0 {
			h.reads = append(h.reads, readArea{w.next(), w.area()})
		}
		for !w.bad && w.next() != 0 {
			h.writes = append(h.writes, w.array())
		}
		if !w.bad && w.next() != 0 {
			h.hasReply, h.reply = true, w.array()
		}
		h.rpc = w.b
	default:
		return nil, fmt.Errorf("procedure %d", h.proc)
	}
	if w.bad {
		return nil, fmt.Errorf("a header cut short, in %d bytes", len(b))
	}
	if h.version != 1 {
		return nil, fmt.Errorf("version %d", h.version)
	}
	return h, nil
}
