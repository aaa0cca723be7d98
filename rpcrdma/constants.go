// The package's constants, and why each has its value. Those of the wire are in header.go.

package rpcrdma

import "time"

// Credits and receives, in calls.
const (
	// DefaultCredits is Config.Credits where it is 0. 128: as many as Linux sends.
	DefaultCredits = 128

	// MostCredits is the upper limit for Config's credits. 4096: up to 48 MiB of receive buffers.
	MostCredits = 4096

	// recvSlack is the number of receives beyond the credits. Eight: errors, for example.
	recvSlack = 8

	// firstBuckets is the first size of the table of pending calls. 16: few connections have more.
	firstBuckets = 16
)

// Sizes of messages and items, in bytes where nothing else is said.
const (
	// DefaultInlineSize is our inline size where Config sets none. 12 KiB: between two peers
	// running this package a READ or WRITE of 8 KiB, a database page, travels as one Send, without
	// registration and RDMA. A larger size would save less, since inline data is copied once more.
	// A receive has a buffer of this size only while it holds a message.
	DefaultInlineSize = 12 << 10

	// linuxInlineSize is the size that Linux may send, 4 KiB, regardless of our declared size.
	linuxInlineSize = 4096

	// defaultMaxChunk is Config.MaxPull and MaxReply where they are 0. 2 MiB: twice most READs.
	defaultMaxChunk = 2 << 20

	// maxItems is the number of a call's items in chunks. 32: their Read list is 768 bytes.
	maxItems = 32

	// maxStandIn is the largest memory replaced for an abandoned call. 4 MiB: more than any READ or
	// WRITE of a server with our limits. Larger memory is invalidated instead.
	maxStandIn = 4 << 20
)

const (
	// stallTick is the interval of the stall check. 10 s: a stall ends a connection in a minute.
	stallTick = 10 * time.Second

	// stallTicks is how many ticks without progress end a connection. Six: a pause is one.
	stallTicks = 6

	// minProgress is the number of bytes that a peer must move within stallTicks, or within
	// sendGrace, to count as alive. 16 KiB: a slow link moves more, single bytes do not.
	minProgress = 16 << 10

	// sendGrace is the time for a cancelled call to leave a full send queue. 5 s: retransmissions.
	sendGrace = 5 * time.Second

	// drainTimeout is the time for replies in flight when Close is called. 1 s: most need less.
	drainTimeout = time.Second
)

const (
	// fatalMax is the number of recorded calls of all clients. 1024: a few hundred bytes each.
	fatalMax = 1024

	// fatalPerClient is the number of recorded calls from one address. 64: a client cannot displace
	// those of others.
	fatalPerClient = 64

	// fatalLife is how long a call is recorded. 2 minutes: a requester replays at once.
	fatalLife = 2 * time.Minute
)
