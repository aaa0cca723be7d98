// The constants of the package: sizes and thresholds, and why each has its value.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A batch, in bytes where nothing else is said.
const (
	// MaxPieces is the number of ranges in a batch. 512: half of writev's limit (IOV_MAX).
	MaxPieces = 512

	// batchBytes is the payload at which a batch is full. 256 KiB: a larger batch only delays its
	// first byte by more CRCs.
	batchBytes = 256 << 10

	// batchScratch is the memory for the lengths, headers, padding and CRCs in a batch, and for
	// copied payload. 24 KiB: a batch of small messages ends when it is used up.
	batchScratch = 24 << 10

	// smallScratch is the scratch memory for a batch of few FPDUs, in bytes. 1 KiB: each stream
	// keeps one.
	smallScratch = 1 << 10

	// fpduScratch is the most scratch memory that an FPDU needs besides copied payload. 64: length,
	// header, padding and CRC are below 40. An atomic operation's body counts as copied payload.
	fpduScratch = 64

	// inlineMax is the longest payload that is copied. 192: to point at a shorter one costs more.
	inlineMax = 192

	// maxYieldPosts is the number of posts that end a yield of the receive loop. 64: with more, the
	// peer would wait for the first reply longer than a system call takes.
	maxYieldPosts = 64

	// maxYieldBytes is the payload of one post that ends a yield. 32 KiB: such a post needs system
	// calls of its own.
	maxYieldBytes = 32 << 10
)

// Payload from a Source, in bytes.
const (
	// sourcedSegment is the shortest full ULPDU at which a Source pays. 8 KiB: with FPDUs of 9 KiB
	// a Source saves a seventh of the server's time.
	sourcedSegment = 8 << 10

	// aheadBytes is the payload requested from a Source at once, rounded up to whole FPDUs. 128
	// KiB: the kernel cannot preempt a goroutine inside a system call.
	aheadBytes = 128 << 10

	// stagingBytes is a batch's largest payload. 64 KiB above batchBytes: the last FPDU may begin
	// just below batchBytes.
	stagingBytes = batchBytes + 64<<10
)

// Receiving.
const (
	// directMin is the shortest payload, in bytes, that is placed directly. 16 KiB: below this, one
	// read of many FPDUs and a copy are cheaper.
	directMin = 16 << 10

	// bulkPause is the number of small FPDUs in a row that end the expectation of large ones. Four:
	// the Sends between two Writes of a transfer are fewer.
	bulkPause = 4

	// headMax is the largest number of bytes in an FPDU before its payload.
	headMax = mpa.LengthLen + ddp.UntaggedLen

	// maxUnreported is the number of finished Reads not yet reported. 16: goroutines waiting for
	// these Reads, or for room for further ones, need not wait for a long batch.
	maxUnreported = 16
)

// mssEvery is the number of batches between two look-ups of TCP's segment size. 64: the size seldom
// changes, and a look-up is a system call.
const mssEvery = 64
