// The constants of the package: limits, sizes and times, and why each has its value. Those of the
// wire format are in header.go and privatedata.go.

package rpcrdma

import "time"

// Credits and receives, in calls.
const (
	// DefaultCredits is Config.Credits where it is 0. 128: the number of calls that Linux's client
	// keeps in flight on a connection.
	DefaultCredits = 128

	// MostCredits is the upper limit for Config's credits. 4096: with messages of
	// DefaultInlineSize, 48 MiB of receive buffers if all arrive at once.
	MostCredits = 4096

	// recvSlack is the number of receives beyond the credits. Eight: messages that take no credit,
	// such as errors and dropped ones, are few, and their receives are posted again at once.
	recvSlack = 8

	// firstBuckets is the first size of the table of pending calls. 16: most connections have fewer
	// calls in flight, and the table grows.
	firstBuckets = 16
)

// Sizes of messages and items, in bytes where nothing else is said.
const (
	// DefaultInlineSize is our inline size where Config sets none. 12 KiB: between two peers
	// running this package a READ or WRITE of 8 KiB, a database page, travels as one Send, without
	// registration, RDMA Read or Write, or invalidation. A larger size would save less, since
	// inline data is copied once more. A receive has a buffer of this size only while it holds a
	// message.
	DefaultInlineSize = 12 << 10

	// linuxInlineSize is Linux's inline size: Linux may send that many bytes regardless of our
	// declared size.
	linuxInlineSize = 4096

	// defaultMaxChunk is Config.MaxPull and MaxReply where they are 0. 2 MiB: twice the largest
	// READ or WRITE of most clients.
	defaultMaxChunk = 2 << 20

	// maxItems is the number of a call's items that travel as chunks. 32: a Read list of 32 entries
	// is 768 bytes, so the header still fits the smallest inline size. NFSv3 has one item.
	maxItems = 32

	// maxStandIn is the largest memory replaced for an abandoned call. 4 MiB: more than any READ or
	// WRITE of a server with our limits. Larger memory is invalidated instead.
	maxStandIn = 4 << 20
)

// Connections without progress.
const (
	// stallTick is the interval of the stall check. 10 s: a peer is found stalled within a sixth
	// more than a minute.
	stallTick = 10 * time.Second

	// stallTicks is the number of ticks in a row without progress that end a connection. Six: the
	// stop of a process counts as a single tick, which is far from the end.
	stallTicks = 6

	// minProgress is the number of bytes that a peer must move within stallTicks, or within
	// sendGrace, to count as alive. 16 KiB: a slow link moves more, and a peer that sends a byte
	// now and then does not hold memory forever.
	minProgress = 16 << 10

	// sendGrace is the time for a cancelled call to leave the send queue while the peer takes
	// nothing. 5 s: some retransmissions of TCP, and a caller waits no longer for its memory.
	sendGrace = 5 * time.Second

	// drainTimeout is the time for replies in flight when Close is called. 1 s: an idle network
	// needs milliseconds, and a peer that takes nothing delays the end no longer.
	drainTimeout = time.Second
)

// Bounds of FatalCalls.
const (
	// fatalMax is the number of recorded calls of all clients. 1024: a few hundred bytes each.
	fatalMax = 1024

	// fatalPerClient is the same for one address. 64: a client cannot displace all records of
	// others, and has rarely more such calls.
	fatalPerClient = 64

	// fatalLife is how long a call is recorded. 2 minutes: a requester that replays does so as soon
	// as it has connected again.
	fatalLife = 2 * time.Minute
)
