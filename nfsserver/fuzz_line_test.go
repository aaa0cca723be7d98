// The two kinds of connections in FuzzServer: record marking, and RPC-over-RDMA.

package nfsserver_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An inbox holds the replies that a connection has received.
type inbox struct {
	t *testing.T

	mu      sync.Mutex
	replies []*chunks.Message
	ended   bool
	muddled bool // raw bytes were sent, so replies are unpredictable
}

func (i *inbox) put(m *chunks.Message) {
	i.mu.Lock()
	i.replies = append(i.replies, m)
	i.mu.Unlock()
}

func (i *inbox) reply() (m *chunks.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.replies) > 0 {
		m, i.replies = i.replies[0], i.replies[1:]
	}
	return m
}

func (i *inbox) lost() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended || i.muddled
}

func (i *inbox) set(flag *bool) {
	i.mu.Lock()
	*flag = true
	i.mu.Unlock()
}

// A tcpLine is a connection with record marking.
type tcpLine struct {
	inbox
	c net.Conn
}

func dialFuzzTCP(t *testing.T, l *rnictest.Listener) *tcpLine {
	c, err := l.Dial()
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	line := &tcpLine{inbox: inbox{t: t}, c: c}
	go line.hear()
	return line
}

func (l *tcpLine) hear() {
	defer l.set(&l.ended)
	for {
		mark := make([]byte, 4)
		if _, err := io.ReadFull(l.c, mark); err != nil {
			return
		}
		b := make([]byte, u32(mark)&^(1<<31))
		if _, err := io.ReadFull(l.c, b); err != nil {
			return
		}
		l.put(&chunks.Message{Stream: b})
	}
}

func (l *tcpLine) raw(b []byte) {
	l.set(&l.muddled)
	l.c.Write(b)
}

func (l *tcpLine) call(c *fuzzCall) {
	b := binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(c.msg)))
	l.c.Write(append(b, c.msg...))
}

func (l *tcpLine) close() { l.c.Close() }

// Handles of the memory that an rdmaLine offers, by their last two bits.
const (
	memCall = iota
	memItem
	memReply
	memResult
)

// maxResult is the maximum of result bytes that an rdmaLine accepts.
const maxResult = 64 << 10

// An rdmaLine is a connection that obeys the rules of RPC-over-RDMA, and exchanges raw messages.
type rdmaLine struct {
	inbox
	peer *rnictest.Peer
	asks chan rdmap.ReadRequest
	msg  []byte

	memMu sync.Mutex
	mem   map[uint32][]byte // offered memory, by handle
}

func dialFuzzRDMA(t *testing.T, l *rnictest.Listener) *rdmaLine {
	c, err := l.Dial()
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	line := &rdmaLine{inbox: inbox{t: t}, peer: rnictest.NewPeer(c), asks: make(chan rdmap.ReadRequest, 1024), mem: map[uint32][]byte{}}
	private := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})
	if _, err := line.peer.Initiate(mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: 8, ORD: 8}, PrivateData: private}); err != nil {
		t.Fatalf("Initiate: %v", err)
	}
	go line.answer()
	go func() {
		defer close(line.asks)
		defer line.set(&line.ended)
		if err := line.peer.Hear(line.hear); err != nil {
			t.Errorf("the server said %v", err)
		}
	}()
	return line
}

// answer replies to the server's RDMA Reads.
func (l *rdmaLine) answer() {
	for q := range l.asks {
		l.memMu.Lock()
		b := l.mem[q.SrcSTag]
		l.memMu.Unlock()
		if q.SrcTO+uint64(q.Size) > uint64(len(b)) {
			if !l.lost() {
				l.t.Errorf("an RDMA Read that no chunk allows: %+v", q)
			}
			b = make([]byte, q.SrcTO+uint64(q.Size))
		}
		_ = l.peer.Answer(&q, b[q.SrcTO:][:q.Size], 1000)
	}
}

func (l *rdmaLine) raw(b []byte) {
	l.set(&l.muddled)
	_ = l.peer.Send(b)
}

func (l *rdmaLine) close() { l.peer.Close() }

// offer makes memory, and returns the segment for it.
func (l *rdmaLine) offer(c *fuzzCall, kind uint32, b []byte) chunks.Segment {
	handle := c.xid<<2 | kind
	l.memMu.Lock()
	l.mem[handle] = b
	l.memMu.Unlock()
	return chunks.Segment{Handle: handle, Length: uint32(len(b))}
}

func (l *rdmaLine) call(c *fuzzCall) {
	h := rpcrdma.Header{XID: c.xid, Version: 1, Credits: 4}
	body := c.msg
	tail := min(c.tail&^3, len(body))
	switch {
	case c.flags&fuzzLongCall != 0 || len(body) > 3000:
		h.Proc = rpcrdma.ProcNoMsg
		h.Read = []chunks.ReadSegment{{Segment: l.offer(c, memCall, body)}}
		body = nil
	case c.flags&fuzzTail != 0 && tail > 0:
		at := len(body) - min(tail, 8)
		h.Read = []chunks.ReadSegment{{Position: uint32(at), Segment: l.offer(c, memItem, body[at:])}}
		body = body[:at]
	}
	if c.flags&fuzzLongReply == 0 {
		h.AddWrite(l.offer(c, memResult, make([]byte, maxResult)))
	}
	h.SetReply(l.offer(c, memReply, make([]byte, maxResult)))
	_ = l.peer.Send(append(h.Append(nil), body...))
}

// hear handles a message from the server.
func (l *rdmaLine) hear(s *rnictest.Segment) error {
	switch {
	case s.Op == rdmap.OpWrite:
		l.memMu.Lock()
		b := l.mem[s.Header.STag]
		l.memMu.Unlock()
		if s.Header.TO+uint64(len(s.Payload)) > uint64(len(b)) {
			if !l.lost() {
				l.t.Errorf("an RDMA Write that no chunk allows: %+v", s.Header)
			}
			return nil
		}
		copy(b[s.Header.TO:], s.Payload)
	case s.Op == rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(s.Payload)
		if err != nil {
			return err
		}
		l.asks <- q
	case s.Op.IsSend():
		if l.msg = append(l.msg, s.Payload...); s.Header.Last {
			msg := l.msg
			l.msg = nil
			return l.message(msg)
		}
	}
	return nil
}

// message assembles a reply from the Send and the RDMA Writes before it.
func (l *rdmaLine) message(msg []byte) error {
	var h rpcrdma.Header
	if err := h.Parse(msg); err != nil {
		return err
	}
	m := &chunks.Message{Stream: msg[h.Len:]}
	l.memMu.Lock()
	defer l.memMu.Unlock()
	switch h.Proc {
	case rpcrdma.ProcError: // the server's error for chunks that do not fit
		m.Stream = garbage(h.XID)
	case rpcrdma.ProcNoMsg:
		m.Stream = l.mem[h.Reply[0].Handle][:h.Reply[0].Length]
	}
	for _, c := range h.Write {
		if n := c[0].Length; n > 0 {
			m.Items = append(m.Items, xdr.Item{Off: xdr.AnyOffset, Data: l.mem[c[0].Handle][:n]})
		}
	}
	l.put(m)
	return nil
}

// garbage returns a GARBAGE_ARGS reply.
func garbage(xid uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, xid)
	return append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4)
}
