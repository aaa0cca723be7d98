// The constants of the provider: sizes, times and limits, and why each has its value. Those of the
// protocol's core are in core/constants.go.

package roce

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// Limits of a Device that its DeviceConfig does not set.
const (
	// defaultIRD is the number of the peer's RDMA Reads in flight on a connection. 16: each costs
	// memory for its answer in each QP.
	defaultIRD = 16

	// defaultORD is the number of our RDMA Reads in flight. 128: it costs nothing, and the peer's
	// IRD limits it.
	defaultORD = 128

	// defaultHandshakes is the number of connection requests waiting for Accept. 256: as over
	// iWARP.
	defaultHandshakes = 256

	// privateDataMax is the size in bytes of private data: the space in rdma_cm's REQ after the 36
	// bytes with the IP addresses.
	privateDataMax = 56
)

// Start and end of a connection.
const (
	// connectTimeout is Connect's timeout, for a DeviceConfig without one. 10 s: as over iWARP.
	connectTimeout = 10 * time.Second

	// disconnectTime is how long disconnect waits for the peer's answer. 2 s: then the CM repeats
	// the DREQ without a waiting program.
	disconnectTime = 2 * time.Second

	// localTries is the number of loopback addresses to try after an address with a used port.
	// Eight: they are chosen at random, and few are taken.
	localTries = 8

	// qpnTries is the number of random QPNs to try. 16: few are taken.
	qpnTries = 16
)

// Retries of a connection. The times are codes of IBA: an answer timeout is 4.096 µs × 2^code.
const (
	// localTimeout is the code of our answer timeout. 14: 67 ms, many times a round trip in a data
	// center. The timeout doubles with each retry.
	localTimeout = 14

	// peerTimeout is the code of the peer's. 16: 268 ms, because a peer need not double its timeout
	// as this package does, and this process, unlike an adapter, can stall for a moment.
	peerTimeout = 16

	// retryCount is the number of overdue answers in a row that end a connection. Seven: the most
	// that three bits can say.
	retryCount = 7

	// rnrRetry is the number of refusals for want of a receive. Seven: without a limit.
	rnrRetry = 7

	// rnrTimer is the code of the peer's wait if no receive is posted. 12: 0.64 ms, enough for a
	// program to post some.
	rnrTimer = 12

	// keepalive is how long a peer may be silent before a probe. 15 s: a probe and its retries end
	// well within the minute after which programs give a connection up.
	keepalive = core.Instant(15 * time.Second)

	// doubtAfter is the number of overdue answers in a row before the CM asks whether the peer
	// knows the connection. Three: about half a second, so a short stall asks nothing.
	doubtAfter = 3
)

// Receiving and sending, in packets where nothing else is said.
const (
	// packetsPerTurn is how many packets are handled before the results are sent. 32: a peer with
	// its whole window in one batch can continue sending while later turns are handled.
	packetsPerTurn = 32

	// quantum is the number of packets that a QP sends in a row. 15: one UDP message of joined
	// packets with the largest path MTU.
	quantum = 15

	// inlineBatches is the number of batches that a poster sends before it hands over to the
	// service loop. 16: some 4 MB, so that a few large messages wake no other thread.
	inlineBatches = 16

	// joinedCounted is the number of packets after which the share of retransmitted ones is looked
	// at. 1024: some windows, so that one burst of losses decides nothing.
	joinedCounted = 1024

	// joinedLost is the divisor of joinedCounted for the most retransmitted ones. Four: a splitter
	// that changes the identification loses most packets, a lossy network a few in a hundred.
	joinedLost = 4

	// maxOut is the number of CM datagrams queued while the socket is full. 1024: peers can trigger
	// a datagram by each datagram that they send.
	maxOut = 1024

	// maxClosedPortReports is the number of queued reports of closed ports. 16: anyone can forge
	// any number of reports, and an occasional one suffices for a QP.
	maxClosedPortReports = 16
)

// Paths and addresses.
const (
	// pathTime is how long a peer's path MTU is remembered. 10 minutes: RFC 8899 §5.1.1
	// (PMTU_RAISE_TIMER).
	pathTime = core.Instant(10 * time.Minute)

	// maxPaths is the number of remembered peers. 1024: requests add peers, and anybody can forge
	// requests, so peers without a limit are dropped first.
	maxPaths = 1024

	// ethernetMTU is the assumed MTU, in bytes, of an interface that was not found. 1500:
	// Ethernet's.
	ethernetMTU = 1500

	// followTime is the interval between checks for new addresses. 5 s: a check lists all
	// interfaces, and people wait that long for a new address.
	followTime = 5 * time.Second
)

// The file of a listener's connections.
const (
	// statePauseShare is the pause after a write in durations of that write, from minStatePause to
	// maxStatePause. Ten: each write contains all connections, and peers can open and close some at
	// any rate, so writing takes at most a tenth of the time.
	statePauseShare = 10

	// minStatePause: 20 ms, ten times the write of a few connections.
	minStatePause = 20 * time.Millisecond

	// maxStatePause: 1 s, so that a killed process leaves few connections unrecorded.
	maxStatePause = time.Second

	// maxStateConns is the number of connections in a file. 65,536: more than a server can have.
	maxStateConns = 1 << 16

	// maxStateFile is the number of bytes read: the text of a connection is shorter than 160.
	maxStateFile = 160 * maxStateConns
)
