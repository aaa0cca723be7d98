// The state machine for rings and messages: pure, without I/O, locks or memory.

package rconn

import "errors"

// A flow counts bytes and messages in both directions. All positions and counts wrap at 2^32. Ring
// sizes are powers of two, so position & (size-1) is the offset.
//
// Bytes: a sender writes only where the peer has announced its ring as read. Messages: each message
// takes one receive at the peer. A sender counts the receives not yet announced as posted again.
//
// Receives are shared out to keep two senders from waiting for each other. One is for kindEnd. Data
// leaves two more, and an update about bytes leaves one. The last is for an update about messages:
// it returns at least half the peer's receives, so the peer can always answer with its own.
type flow struct {
	// outbound: the peer's ring and receives
	peerRing     uint32 // bytes
	written      uint32 // position: bytes written to the peer's ring
	freed        uint32 // position: bytes announced as read by the peer
	peerReceives uint32
	sent         uint32 // messages sent
	returned     uint32 // messages announced as received by the peer
	endSent      bool

	// inbound: our ring and receives
	ring         uint32 // bytes
	arrived      uint32 // position: bytes that came
	read         uint32 // position: bytes read
	announced    uint32 // read, as the peer knows it
	receives     uint32
	received     uint32 // messages with their receives posted again
	acknowledged uint32 // received, as the peer knows it
	endCame      bool
}

var (
	errOverrun  = errors.New("rconn: the peer announced more bytes than the ring has room for")
	errAnnounce = errors.New("rconn: the peer announced bytes or messages that it was not sent")
	errAfterEnd = errors.New("rconn: the peer sent data after its end")
)

// newFlow returns the state of a new connection.
func newFlow(ring, receives uint32, peer hello) flow {
	return flow{peerRing: peer.ring, peerReceives: peer.receives, ring: ring, receives: receives}
}

// spare returns how many receives at the peer are free for messages other than kindEnd.
func (f *flow) spare() int {
	free := int(f.peerReceives) - int(f.sent-f.returned)
	if !f.endSent {
		free--
	}
	return free
}

// room returns the offset in the peer's ring for the next data, and how many bytes, at most n, fit
// there contiguously: 0 if the ring or the receives are used up.
func (f *flow) room(n int) (offset, fit int) {
	if f.spare() <= 2 || f.endSent {
		return 0, 0
	}
	offset = int(f.written & (f.peerRing - 1))
	free := int(f.peerRing - (f.written - f.freed))
	return offset, min(n, free, int(f.peerRing)-offset)
}

// sendData records n bytes, at most those of room, and returns their message. bare: the message
// will be Immediate Data, which announces nothing.
func (f *flow) sendData(n int, bare bool) message {
	f.written += uint32(n)
	f.sent++
	m := message{kind: kindData, bytes: uint32(n), bare: bare}
	if !bare {
		f.announce(&m)
	}
	return m
}

// sendEnd records the end, and returns its message. It is called once.
func (f *flow) sendEnd() message {
	f.endSent = true
	f.sent++
	m := message{kind: kindEnd}
	f.announce(&m)
	return m
}

// sendUpdate records an update and returns it; due has reported that it may leave.
func (f *flow) sendUpdate() message {
	f.sent++
	m := message{kind: kindUpdate}
	f.announce(&m)
	return m
}

func (f *flow) announce(m *message) {
	m.read, m.received = f.read, f.received
	f.announced, f.acknowledged = f.read, f.received
}

// due reports whether an update must leave now: half our ring or half our receives are free again
// and not announced.
func (f *flow) due() bool {
	spare := f.spare()
	return spare > 0 && f.received-f.acknowledged >= f.receives/2 || spare > 1 && f.read-f.announced >= f.ring/2 && !f.endCame
}

// receive checks a message of the peer's and applies it. After an error the connection must end.
func (f *flow) receive(m message) error {
	if !m.bare {
		if m.read-f.freed > f.written-f.freed || m.received-f.returned > f.sent-f.returned {
			return errAnnounce
		}
		f.freed, f.returned = m.read, m.received
	}
	if f.endCame && m.kind != kindUpdate {
		return errAfterEnd
	}
	if m.bytes > f.ring-(f.arrived-f.read) || f.arrived&(f.ring-1)+m.bytes > f.ring {
		return errOverrun
	}
	f.arrived += m.bytes
	f.endCame = f.endCame || m.kind == kindEnd
	return nil
}

// posted records n receives posted again.
func (f *flow) posted(n int) { f.received += uint32(n) }

// unread returns the oldest unread byte's offset, and the number of contiguous bytes there.
func (f *flow) unread() (offset, n int) {
	offset = int(f.read & (f.ring - 1))
	return offset, min(int(f.arrived-f.read), int(f.ring)-offset)
}

// take records that n bytes, at most those of unread, have been read.
func (f *flow) take(n int) { f.read += uint32(n) }
