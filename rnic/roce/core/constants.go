// The constants of the protocol: windows, times and thresholds, and why each has its value. Times
// are in nanoseconds. Those of the standard are beside their fields.

package core

// The congestion window, in packets where nothing else is said. Next to a TCP connection that keeps
// a queue full, a connection's share of the link equals its share of the queue.
const (
	// minWindow is the smallest window. Four: a loss is found by the packets after it.
	minWindow = 4

	// initialWindow is the first window. 64: a quarter of the largest, so a few round trips reach
	// it.
	initialWindow = 64

	// maxWindow is the largest window. 256: above Linux rxe's 128 packets, because 128 small
	// packets were no fair share.
	maxWindow = 256

	// maxWindowBytes is the same in bytes. 512 KiB: a fair share with large packets.
	maxWindowBytes = 512 << 10

	// ackReqEvery is the most packets to send before requesting an acknowledge. 30: when the
	// acknowledge arrives, as many packets leave: two UDP messages of maximum length, 15 packets
	// each with the largest path MTU.
	ackReqEvery = 30

	// cnpInterval is the minimum time between two CNPs of a QP. 50 µs: marks at shorter intervals
	// report the same congestion.
	cnpInterval Instant = 50e3
)

// Early retransmission: the minimum lateness of an answer.
const (
	// minProbe applies in general. 2 ms: a processor busy elsewhere for a moment is no loss.
	minProbe Instant = 2e6

	// lossyProbe applies after a recent loss. 500 µs: another loss is more likely.
	lossyProbe Instant = 500e3

	// firstProbe applies before any measurement. 20 ms: far more than any round trip in a data
	// center.
	firstProbe Instant = 20e6

	// maxProbes is the number of doublings. Five: later the negotiated timeout comes first.
	maxProbes = 5
)

// The size of a Read's request, in packets of its answer; see unitSize.
const (
	// wideUnit is for a full window. 64: few request packets and UDP messages.
	wideUnit = 64

	// unit is for a growing window. 16: a quarter of the initial one.
	unit = 16

	// fineUnit is for a window after a loss. Eight: a second request fits sooner, and its data
	// shows that the last data of the first was lost.
	fineUnit = 8
)

// Requests out of order.
const (
	// reorderWindow is the number of PSNs ahead that are buffered, a power of two. 32: packets
	// overtake each other by fewer, and a QP with a gap holds at most 128 KiB.
	reorderWindow = 32

	// nakAfter is the number of out-of-order requests after which a gap is reported. Three: packets
	// overtake each other mostly by few positions (RFC 5681 §3.2 uses the same number).
	nakAfter = 3

	// nakDelay is the time after which a gap is reported without them. 300 µs: shorter than a
	// requester's timeout.
	nakDelay Instant = 300e3

	// nakRepeat is the time until a NAK is repeated, doubled each time. 100 ms: with maxRepeats
	// 6.3 s in all, in which the peer's timer expires at least twice. Linux's timer runs for 0.5 to
	// 2.1 s.
	nakRepeat Instant = 100e6

	// maxRepeats is the number of repeated NAKs. Five; then the QP ends if the peer is alive.
	maxRepeats uint8 = 5

	// probeAfter is the repetition from which the QP probes the peer. Three: a peer that lost the
	// first NAKs fills the gap without it.
	probeAfter uint8 = 3

	// leftWithin is how many PSNs ahead of the expected one a request can be to end the QP. 256:
	// rxe has at most 128 in flight. Without a limit an attacker who knows only the QPN could end
	// the QP with a random PSN: half of all PSNs are ahead.
	leftWithin = 256
)

// Paths that refuse or lose packets.
const (
	// portClosedLimit is how long the network must refuse a peer's packets before the QP ends. 1 s:
	// a firewall refuses them for a moment while its rules are loaded.
	portClosedLimit Instant = 1e9

	// shortAfter is the number of overdue answers in a row before a short packet is sent. Three:
	// one or two may be losses.
	shortAfter = 3

	// shortEnough is the number of acknowledged short packets that show a path too narrow for long
	// ones. Two: the oldest packet has been lost five times then, in two seconds with this provider
	// at both ends.
	shortEnough = 2
)
