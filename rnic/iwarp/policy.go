// The constants of the provider: sizes, times and thresholds, and why each has its value.

package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// Limits of a Device that its DeviceConfig does not set.
const (
	// defaultReads is IRD and ORD. 128: Linux siw takes no more.
	defaultReads = 128

	// maxReads is the largest IRD or ORD. An MPA frame has 14 bits for each, and all ones mean "not
	// negotiated" (RFC 6581 §9.1).
	maxReads = 0x3FFE

	// defaultHandshakes is the number of connections in start-up on one listener. 256: each may
	// stay for acceptTimeout, so 50 new ones a second get through beside silent peers.
	defaultHandshakes = 256

	// privateDataMax is the room, in bytes, that an MPA frame has beside the IRD/ORD block.
	privateDataMax = mpa.PrivateDataMax - mpa.EnhancedLen
)

// Start-up of a connection.
const (
	// acceptTimeout is the time for the whole MPA Request (RFC 5044 §7.1). 5 s: enough for a few
	// retransmissions, and a silent peer soon frees its place among the handshakes.
	acceptTimeout = 5 * time.Second

	// connectTimeout is the time for connecting and the whole MPA Reply. 10 s: a responder may take
	// acceptTimeout to read the Request.
	connectTimeout = 10 * time.Second

	// settleTime is how long Connect holds back the first FPDU; see ConnOptions.Settle. 2 ms: Linux
	// siw switches its socket to FPDUs in less.
	settleTime = 2 * time.Millisecond

	// plainControl is a TCP congestion control that does not pace. Every kernel has Reno, and lets
	// every program use it.
	plainControl = "reno"
)

// End of a connection.
const (
	// graceTime is the time for a Terminate or FIN to get through, while input is discarded.
	// Closing a socket with unread input resets it, and the peer might lose the Terminate (RFC 5040
	// §6.2.1 [R5040-183]). 1 s: some retransmissions within a data center.
	graceTime = time.Second

	// peerReasonTime is how long a failed write waits for the end of the input, which may have the
	// peer's reason. 50 ms: the input is here already, so only a loaded machine needs that long.
	peerReasonTime = 50 * time.Millisecond
)

// Receiving, in bytes. A stream has a receive buffer only while there is input, because there may
// be many idle streams. The buffer returns to its pool when it is empty and the stream waits.
const (
	// rxBufMin is the size of a small buffer. 16 KiB: some dozens of small calls.
	rxBufMin = 16 << 10

	// rxBufMax is the size of the buffer of a stream whose input has filled a small one. 256 KiB: a
	// few of the largest FPDUs, so a read takes as much as the socket has.
	rxBufMax = 256 << 10

	// tailMax is how much is read after directly placed payload. 2 KiB: a header, or some small
	// FPDUs; more would have to be copied if it was payload.
	tailMax = 2 << 10

	// largeBytes is the size of one read or write that shows a large transfer. 64 KiB: more than
	// the replies of a batch of small calls.
	largeBytes = 64 << 10

	// largeInputs is the number of inputs after a large read or write that belong to the transfer:
	// its calls, acknowledgements and other small messages. 16: the credits of most clients.
	largeInputs = 16
)

// The receive right.
const (
	// parkTick is the interval at which a parked receive loop checks the right. 10 ms: the end of
	// an idle stream is noticed after one, and a caller whose reply is slow can be interrupted
	// after two, both soon enough for a person; 100 wake-ups a second cost nothing.
	parkTick = 10 * time.Millisecond

	// offerYields is how often the receive loop yields to a caller that may be about to take the
	// right. 20 take some 3 µs where nothing else runs, about as long as a post.
	offerYields = 20
)

// Transmitting.
const (
	// inlineBytes is how much a poster transmits before it hands over to the transmit loop. 1 MiB:
	// one large READ or WRITE, so no other thread is woken for it.
	inlineBytes = 1 << 20

	// batchBytes is how much the receive loop transmits before it goes back to reading. 64 KiB: the
	// replies of a batch of small calls.
	batchBytes = 64 << 10

	// plainBytes is how much a plainLink copies at once. 64 KiB: about the longest FPDU
	// (mpa.MaxFPDU).
	plainBytes = 64 << 10

	// earlyFlushTime is how long handlers of a batch post before the first replies leave. 20 µs:
	// less than the peer spins (rnic/internal/rxwait), so it works on these while the rest is made.
	// Two ends that wait for each other's whole batches would take turns, and one would always be
	// idle.
	earlyFlushTime = 20 * time.Microsecond

	// fallbackMSS is the segment size, in bytes, where the stack reports none: Ethernet without
	// IPv6 and TCP headers with timestamps (RFC 5044 §5.1 [R5044-077]).
	fallbackMSS = 1500 - 72
)
