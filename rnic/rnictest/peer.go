// The peer: it sends start-up frames and segments, and receives segments.

package rnictest

import (
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A Segment is one FPDU's content.
type Segment struct {
	Header  ddp.Header
	Op      rdmap.Opcode
	Payload []byte // valid during the call
}

// A Peer is an MPA endpoint that does nothing by itself.
type Peer struct {
	c net.Conn

	// The modes, set by Initiate and Respond.
	crc     bool
	marking *mpa.MarkerSender   // the other end wants markers
	marked  *mpa.MarkerReceiver // the other end sends markers

	left []byte // received after the start-up frame

	// turn holds a token while bytes are sent: a mutex that does not stop simulated time. It guards
	// the fields below.
	turn chan struct{}
	sent uint32 // counts Sends
	read uint32 // counts Read Requests
}

// NewPeer returns a Peer on a new connection.
func NewPeer(c net.Conn) *Peer { return &Peer{c: c, turn: make(chan struct{}, 1)} }

func (p *Peer) lock()   { p.turn <- struct{}{} }
func (p *Peer) unlock() { <-p.turn }

// Initiate sends the Request and returns the Reply.
func (p *Peer) Initiate(request mpa.Frame) (reply mpa.Frame, err error) {
	if err := p.Raw(mpa.AppendFrame(nil, &request)); err != nil {
		return reply, err
	}
	reply, err = p.hearFrame(true)
	p.agree(&request, &reply)
	return reply, err
}

// Respond receives a Request and sends the Reply.
func (p *Peer) Respond(reply mpa.Frame) (request mpa.Frame, err error) {
	if request, err = p.hearFrame(false); err != nil {
		return request, err
	}
	reply.Reply = true
	p.agree(&reply, &request)
	return request, p.Raw(mpa.AppendFrame(nil, &reply))
}

func (p *Peer) agree(ours, theirs *mpa.Frame) {
	p.crc = ours.CRC || theirs.CRC
	if ours.Markers {
		p.marked = new(mpa.MarkerReceiver)
	}
	if theirs.Markers {
		p.marking = new(mpa.MarkerSender)
	}
}

func (p *Peer) hearFrame(reply bool) (mpa.Frame, error) {
	buf := make([]byte, mpa.FrameMax)
	for n := 0; ; {
		m, err := p.c.Read(buf[n:])
		n += m
		if f, used, perr := mpa.ParseFrame(buf[:n], reply); perr != nil || used > 0 {
			p.left = buf[used:n]
			return f, perr
		}
		if err != nil {
			return mpa.Frame{}, err
		}
	}
}

// Hear calls f for each received segment, until f or the stream fails. f should not send: the other
// end may be blocked until its own output is read. Bytes that are not a good FPDU with a good
// segment are an error. The end of the stream is nil at any position.
func (p *Peer) Hear(f func(s *Segment) error) error {
	buf := make([]byte, 128<<10)
	r, w := 0, copy(buf, p.left)
	for {
		for {
			ulpdu, n, err := p.next(buf[r:w])
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			r += n
			if err := heard(ulpdu, f); err != nil {
				return err
			}
		}
		r, w = 0, copy(buf, buf[r:w])
		n, err := p.c.Read(buf[w:])
		if w += n; err != nil {
			return nil
		}
	}
}

func (p *Peer) next(b []byte) (ulpdu []byte, n int, err error) {
	if p.marked != nil {
		return p.marked.Parse(b, p.crc)
	}
	return mpa.ParseFPDU(b, p.crc)
}

func heard(ulpdu []byte, f func(s *Segment) error) (err error) {
	var s Segment
	if s.Header, s.Payload, err = ddp.Parse(ulpdu); err != nil {
		return fmt.Errorf("%x: %w", ulpdu, err)
	}
	if s.Op, err = rdmap.ParseControl(s.Header.Ctrl); err == nil {
		err = s.Op.Check(s.Header.Tagged, s.Header.QN)
	}
	if err != nil {
		return fmt.Errorf("%x: %w", ulpdu, err)
	}
	return f(&s)
}

// Raw sends arbitrary bytes.
func (p *Peer) Raw(b []byte) error {
	p.lock()
	defer p.unlock()
	_, err := p.c.Write(b)
	return err
}

// ULPDU sends bytes in a good FPDU.
func (p *Peer) ULPDU(parts ...[]byte) error {
	p.lock()
	defer p.unlock()
	return p.ulpdu(parts...)
}

func (p *Peer) ulpdu(parts ...[]byte) (err error) {
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if n == 0 || n > mpa.MaxULPDU {
		return nil // not sent
	}
	if p.marking != nil {
		_, err = p.c.Write(p.marking.Append(nil, p.crc, parts...))
	} else {
		_, err = p.c.Write(mpa.AppendFPDU(nil, p.crc, parts...))
	}
	return err
}

// Segment sends a segment. An untagged one has its queue's next MSN plus h.MSN; after h.Last the
// queue's next message begins.
func (p *Peer) Segment(h ddp.Header, op rdmap.Opcode, payload []byte) error {
	p.lock()
	defer p.unlock()
	h.Ctrl |= rdmap.Control(op)
	if !h.Tagged {
		msn := &p.sent
		if h.QN == ddp.QNRead {
			msn = &p.read
		}
		h.MSN += *msn + 1
		if h.Last {
			*msn++
		}
	}
	return p.ulpdu(h.Append(nil), payload)
}

// Send sends a message in one segment.
func (p *Peer) Send(msg []byte) error {
	return p.Segment(ddp.Header{Last: true}, rdmap.OpSend, msg)
}

// Answer sends a Read Response, in segments with at most size bytes.
func (p *Peer) Answer(q *rdmap.ReadRequest, data []byte, size int) error {
	h := ddp.Header{Tagged: true, STag: q.SinkSTag, TO: q.SinkTO}
	for {
		n := min(size, len(data))
		h.Last = n == len(data)
		if err := p.Segment(h, rdmap.OpReadResponse, data[:n]); err != nil || h.Last {
			return err
		}
		h.TO += uint64(n)
		data = data[n:]
	}
}

// Close ends the connection.
func (p *Peer) Close() error { return p.c.Close() }

// Sent returns how many Sends it has sent.
func (p *Peer) Sent() uint32 {
	p.lock()
	defer p.unlock()
	return p.sent
}
