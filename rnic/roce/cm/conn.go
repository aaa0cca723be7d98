// A connection as its CM sees it, and what the two sides tell each other about their queue pairs.

package cm

import (
	"container/list"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// QP is what a side tells the other about its queue pair. Those of the owner's own say what to
// send, those of an Event what the peer has sent.
type QP struct {
	QPN uint32 // 24 bits
	PSN uint32 // 24 bits: of the first packet that the other side sends; it MUST NOT be predictable

	ResponderResources uint8 // RDMA Reads and atomics that the side answers at a time
	InitiatorDepth     uint8 // and that it wants to have outstanding itself
	RNRRetryCount      uint8 // what the other side shall use: 3 bits, 7 means forever
	FlowControl        bool  // by the credits of AETH
	SRQ                bool

	// AckTimeout is, in a REQ, how long the side waits for an acknowledgment; in a REP how long the
	// side takes to send one.
	AckTimeout mad.Timeout

	// These are in a REQ only, and hold for both sides.
	Transport  mad.Service // RC or UC
	PathMTU    mad.MTU
	RetryCount uint8 // 3 bits

	QKey uint32 // of UD: in a SIDR_REP only
}

// A Conn is one connection, or one question for a service of UD, from Connect, Resolve, Requested
// or Asked on until Released. Only its CM changes it.
type Conn struct {
	Owner any // the owner's; the CM does not look at it

	// set once
	peer    netip.Addr
	service mad.ServiceID
	active  bool

	// Identifiers. Those of the passive side of SIDR are the peer's alone.
	id         uint32 // ours: the local communication ID, or the request ID
	remoteID   uint32
	tid        uint64 // of REQ, REP, RTU, MRA and REJ
	endTID     uint64 // of our DREQ
	doubtTID   uint64 // of our LAP; 0: none is to be answered
	localQPN   uint32
	remoteQPN  uint32
	remoteGUID uint64

	state state // see become

	// What is repeated: the last datagram, how often it was, and the times.
	last     [mad.Len]byte
	tries    int
	limit    int     // of tries
	interval Instant // between two
	deadline Instant
	timer    int // place among the timers; 0: none
	heard    Instant
	credit   int     // datagrams that came from the peer and have had no answer, while half-open
	patience Instant // when a half-open connection ends
	retained Instant // how long its refusal is kept

	alternate bool     // the REQ has an alternate path, which is refused
	retried   bool     // a stale connection was tried again
	req       *mad.REQ // active: to try again

	all, own *list.Element // among the half-open connections: of all, and of the peer's; all also in time-wait
	proof    bool          // the peer's address is proven by this connection
}

// Peer is the address of the other side.
func (k *Conn) Peer() netip.Addr { return k.peer }

// Service is what was asked for.
func (k *Conn) Service() mad.ServiceID { return k.service }

// Active reports whether this side has asked.
func (k *Conn) Active() bool { return k.active }

// String names the connection in messages.
func (k *Conn) String() string {
	return "connection with " + k.peer.String() + " in " + k.state.String()
}
