// A CM's connection, and the queue pair parameters that both sides exchange.

package cm

import (
	"container/list"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// QP has the parameters that one side sends the other about its queue pair. The owner passes its
// own QP for sending; an Event has the peer's.
type QP struct {
	QPN uint32 // 24 bits
	// PSN is the first PSN that the other side must send, 24 bits. The PSN MUST NOT be predictable.
	PSN uint32

	ResponderResources uint8 // Reads and atomics that this side answers concurrently
	InitiatorDepth     uint8 // Reads and atomics that this side wants to have outstanding
	RNRRetryCount      uint8 // for the other side: 3 bits, 7 means forever
	FlowControl        bool  // the side's AETHs carry credits
	SRQ                bool

	// AckTimeout: in a REQ, the side's answer timeout; in a REP, its maximum answer delay.
	AckTimeout mad.Timeout

	// Only a REQ has these fields, which are for both sides.
	Transport  mad.Service // RC or UC
	PathMTU    mad.MTU
	RetryCount uint8 // 3 bits

	QKey uint32 // UD, only in a SIDR_REP
}

// A Conn is one connection or one SIDR request. It is valid from Connect, Resolve, Requested or
// Asked until Released. Only its CM changes it.
type Conn struct {
	Owner any // for the owner's use; the CM ignores it

	// set once
	peer    netip.Addr
	service mad.ServiceID
	active  bool

	// Identifiers. SIDR's passive side uses only the peer's.
	id         uint32 // this side's communication ID or request ID
	remoteID   uint32
	tid        uint64 // for REQ, REP, RTU, MRA and REJ
	endTID     uint64 // for our DREQ
	lapTID     uint64 // for our LAP; 0: none is outstanding
	localQPN   uint32
	remoteQPN  uint32
	remoteGUID uint64

	state state // see become

	// The last datagram, for repetition, and its timers.
	last      [mad.Len]byte
	tries     int
	limit     int     // maximum of tries
	interval  Instant // between repetitions
	deadline  Instant
	timer     int     // heap position from 1; 0: not in the heap
	lastHeard Instant // when Heard last sent a REP; 0: never
	credit    int     // while half-open: the peer's datagrams not answered yet
	patience  Instant // end of a half-open connection
	retained  Instant // how long to keep the refusal

	alternate bool     // the REQ has an alternate path, which the REP refuses
	retried   bool     // the REQ was sent again for a stale connection
	req       *mad.REQ // active: kept for that

	// Positions among half-open connections, in all and the source's. In time-wait only all.
	all, own *list.Element
	proof    bool // this connection proves the peer's address
}

// Peer returns the peer's address.
func (k *Conn) Peer() netip.Addr { return k.peer }

// Service returns the requested service.
func (k *Conn) Service() mad.ServiceID { return k.service }

// Active reports whether this side sent the request.
func (k *Conn) Active() bool { return k.active }

// String names the connection in messages.
func (k *Conn) String() string {
	return "connection with " + k.peer.String() + " in " + k.state.String()
}
