// The package's constants, with reasons. Wire constants are beside their codec.

package transport

import "time"

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Calls and their goroutines.
const (
	defaultWorkers = 64 // ServerConfig.Workers: more than most servers' disks serve at a time
	leastWorkers   = 64
	mostWorkers    = 256
	ownWorkers     = 8 // for each lane, so that no lane's slow calls stop another lane

	// shortCall is how long other calls may wait for a call that stays. 100 µs: about the cost of
	// waking a thread.
	shortCall = 100 * time.Microsecond

	// maxParked is the number of a connection's calls that wait in Busy for a share, each with its
	// goroutine. Later calls wait in their lane's queue without a goroutine, before they begin.
	maxParked = 8

	// queueWait is how long a queue's calls wait while none of them begins or ends. Then calls with
	// a Procedure.Busy are answered, and release a credit and memory. Later calls are answered at
	// once, until a call of the queue begins or ends again, or a call in another queue of the lane
	// ends. In a queue with progress calls wait without limit. Three seconds: well below the time
	// after which clients repeat.
	queueWait = 3 * time.Second

	// stuckWait is how long Shutdown waits for connections to close, and then for procedures.
	stuckWait = 5 * time.Second
)

// Memory for calls and replies. Sizes are in bytes.
const (
	defaultRecord = 2 << 20 // ServerConfig.MaxRecord: twice most WRITEs
	callSpace     = 1 << 10 // initial buffer for an encoded call
	replySpace    = 1 << 10 // initial buffer for a reply's stream

	// smallRecord is the largest record without a charge: the limit on calls bounds the memory for
	// small records. 16 KiB holds all calls but WRITEs.
	smallRecord = 16 << 10

	// minDeferredItem is the smallest item for which reading at send time pays off.
	minDeferredItem = 32 << 10

	// budgetShare limits a connection's replies while it is still read: the budget divided by
	// this.
	budgetShare = 4

	// bufferWait is how long a call waits for memory before its client must retry, seconds later.
	// bufferPause is the longest interval between attempts.
	bufferWait  = time.Second
	bufferPause = 40 * time.Millisecond

	budgetPoll = 5 * time.Millisecond  // interval while a call waits for the budget
	budgetLook = 50 * time.Millisecond // interval between checks that the waiting connection still runs
)

// Batches, in bytes.
const (
	tcpWindow = 64 << 10 // limit for one read, except of large records

	// batchMax is the largest batch with several calls. Larger batches would save nothing, and
	// delay the writer's own reply.
	batchMax = 64 << 10

	// togetherMost is the longest reply held back for others over RDMA.
	togetherMost = 16 << 10

	// gatherCopy is the largest piece to copy next to its neighbors: a separate list element would
	// cost more. arenaSize bounds the copied bytes; further pieces are referenced.
	gatherCopy = 1024
	arenaSize  = 32 << 10
)

// keyBytes is the limit for one key of AES-GCM, in bytes on the wire: 2^24 full records. RFC 8446
// §5.5 permits 2^24.5.
const keyBytes = 1 << 38

// Repeated calls.
const (
	drcBytes     = 16 << 20 // for entries: replies, and drcEntrySize for each
	drcEntrySize = 512      // an entry's memory without its reply
	drcReplyMax  = 2048     // longest reply kept; non-idempotent calls have short ones
	drcAge       = 2 * time.Minute
	drcSummed    = 1024 // leading argument bytes that the checksum covers

	// runningSummed is the number of leading argument bytes under a running call's checksum: for a
	// WRITE the handle, the offset and the length, but not the data. Two calls with equal
	// leading bytes, XID, client and user write the same range at the same time. So either call's
	// result is correct for both, even if their data differ.
	runningSummed = 128

	// runningBuckets is a power of two: more than most servers' running calls, in few cache lines.
	runningBuckets = 256
)

// A server's connections.
const (
	// A connection without a call for idleAge can be closed to make room for a new one; NFS
	// clients reconnect by themselves. idleScan is the minimum time between searches.
	idleAge    = 2 * time.Minute
	idleScan   = time.Second
	minLeaving = 16 // most connections being closed at a time, or MaxConns/4 if more

	// hostBits6 is the prefix length, in bits, of IPv6 addresses counted as one host. 64: the
	// prefix length of a link.
	hostBits6 = 64

	// defaultHalf is ServerConfig.HalfTimeout. In each HalfTimeout a client must read leastTaken
	// bytes, or its long replies end the connection.
	defaultHalf = 30 * time.Second
	leastTaken  = 16 << 10

	// maxFragments bounds a record's fragments: a client could send empty fragments forever, and
	// keep a reader busy without a record.
	maxFragments = 4096

	// acceptBackoff is the pause after an Accept error that may be temporary (no file descriptors).
	acceptBackoff = 50 * time.Millisecond

	// ownerWait bounds the owner lookup. The kernel needs far less time. After ownerWait the peer
	// is disconnected, and can reconnect.
	ownerWait = 10 * time.Second

	// netlinkWait bounds the wait for an answer, which the kernel sends immediately.
	netlinkWait = time.Second

	maxInterfaces = 64  // lookups for one connection
	maxCauses     = 256 // in a RateLog; programs have far fewer
)

// A client's connections.
const (
	// The shortest and longest pause between connection attempts.
	backoffMin = 10 * time.Millisecond
	backoffMax = 2 * time.Second

	// dialTimeout bounds a connection attempt without a CallTimeout. moveTimeout bounds an attempt
	// if the client may look for the server elsewhere.
	dialTimeout = time.Minute
	moveTimeout = 30 * time.Second

	// A new connection must answer one call before use. Linux's soft-iWARP driver can lose the
	// first message on a connection that it has just accepted, and the silence would look like a
	// slow server. Three: the loss is rare.
	probeTries = 3

	// The client's watch ticks each RetryTimeout/silentTicks.
	silentTicks = 8

	noticeTime = 5 * time.Second // silence before Responding(false)
	stuckTick  = time.Second     // interval at which a stalled write checks for abandoned calls

	// reservedTries bounds the ports to try for one connection. A port used within the last minute
	// is unavailable (TIME_WAIT). So a client with hundreds of connections a minute gets ordinary
	// ports, and leaves some reserved ones to other programs.
	reservedTries = 16
)

// TLS sessions.
const (
	handshakeTimeout = 10 * time.Second // from the probe's answer to the handshake's end
	probeReplyMax    = 512              // longest answer to a probe, in bytes

	// auditBurst is the number of sessions logged at once (RFC 9289 §6.1 requires an audit log).
	auditBurst = 64

	// lingerTime and lingerBytes bound the wait for a peer that reads the alert.
	lingerTime  = time.Second
	lingerBytes = 64 << 10

	// closeWait bounds the waits for a peer at the session's end: for its FIN, and until it reads
	// ours.
	closeWait = time.Second
)
