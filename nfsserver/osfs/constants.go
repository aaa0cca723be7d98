// The chosen constants: times, limits and sizes. Numbers from the kernel's interfaces stand beside
// their use.

package osfs

import "time"

// Open files, and how soon they are closed (cache.go, sweep.go, fdbudget.go, flush.go).
const (
	// shards is a cache's lock count: with 16, calls on different files rarely meet at one.
	shards = 16

	// sweepEvery is the sweeper's period, its tick. Scanning a few thousand nodes four times a
	// second costs nothing to speak of.
	sweepEvery = 250 * time.Millisecond
	// An unused node or mount is closed after idleTicks ticks. Three, up to a second: umount(8) and
	// the start of a just copied program succeed soon after.
	idleTicks = 3
	// A subtree check holds for checkTicks ticks: about a second, as long as an access decision
	// (grantTime).
	checkTicks = 4

	// leastNodes is the node count allowed to a process in any case: 32 calls at once each find
	// room for their file.
	leastNodes = 32
	// mostNodes limits the nodes in a process with a high descriptor limit. More files than 4,096
	// are seldom in use within a second, and a sweep looks at each.
	mostNodes = 4096
	// unknownThrees stands for an eighth of an unreadable descriptor limit, taken as the usual
	// 1,024.
	unknownThrees = 128
	// reclaimStep nodes are closed when descriptors have run out: enough for the next calls too,
	// while close(2) takes no more than a few hundred microseconds.
	reclaimStep = 32
	// closeWait bounds the wait until another FS has closed files. That FS may depend on an
	// unresponsive program or machine, with which the caller has nothing to do.
	closeWait = 100 * time.Millisecond
	// maxQueuedFlushes limits the files waiting to be synced and closed. Beyond 32 each caller
	// syncs its own, unless it sends replies (holdDeferred): a writer that outruns the disk then
	// waits for it.
	maxQueuedFlushes = 32
	// maxLostErrors limits the files with a kept lost-write error, for their next Sync. A failed
	// disk has one for each file written since; beyond 4,096 the next Sync of any file gets it.
	maxLostErrors = 4096
	// maxListings limits a directory's open listings. A ninth client reading it page by page takes
	// a new descriptor for each page.
	maxListings = 8
)

// Knowledge about files, bounded by its memory (index.go, owngenerations.go, copyup.go, mounts.go,
// walk.go, subtree.go, overlay.go, ref.go).
const (
	// maxHints limits the inodes in the index, some 100 bytes each. A walk finds the others.
	maxHints = 1 << 20
	// maxIdentities limits our own generations, some 100 bytes each. An evicted file gets another
	// generation later.
	maxIdentities = 1 << 20
	// maxBtimes limits the birth times kept for overlay files, some 60 bytes each. An evicted
	// copied-up file has a new Ref.
	maxBtimes = 1 << 20
	// maxUnknown limits the ids known to belong to no mount. Only handles from vanished mounts have
	// such ids, and these are few.
	maxUnknown = 1024

	// maxHintDepth bounds the directories from an indexed inode up to the root. Wrong hints can
	// form a circle.
	maxHintDepth = 1024
	// maxUpDepth bounds the steps from a directory up to the root: renames meanwhile can make the
	// way longer without end. Linux allows 4,096-byte paths, with fewer directories.
	maxUpDepth = 4096
	// maxWalkDepth bounds a walk's open descriptors on the way down.
	maxWalkDepth = 256
	// maxWalkDebt is the time allowed to walks before they are limited to half of all time: one
	// second lets the walk for the first calls after a restart run.
	maxWalkDebt = time.Second
	// layersApart looks for a file in the root's first apartLook entries.
	apartLook = 1000
	// maxPause bounds the wait for a handle while ext4 is just giving its inode number to a new
	// file: until it has, the kernel returns ENOMEM, and ESTALE from then on. It is asked again
	// after pauses that double from 1 ms.
	maxPause = 64 * time.Millisecond
)

// Access decisions (accesscache.go).
const (
	// grantTime is how long an access decision holds: one second, the least time for which clients
	// keep attributes.
	grantTime = int64(time.Second)
	// maxGrants limits the decisions for one node. With more callers the oldest asks again.
	maxGrants = 16
)

// Reading and writing (io.go, nowait.go, deferredread.go, coldread.go, coldread_uring.go).
const (
	// writePiece is how many bytes one system call writes to a local file system, copied in some 10
	// µs. Go's runtime looks at system calls every 20 µs while there are such, takes one found
	// twice to be waiting, and wakes a thread for the processor seemingly left free. For a 1 MiB
	// WRITE this, and one thread more than there are processors, costs more than the saved calls.
	writePiece = 32 << 10
	// atimeDay is less than the day after which relatime changes an access time, because the two
	// decisions use different clocks.
	atimeDay = 23 * time.Hour
	// arrivedStep is the distance in bytes between the places inspected by arrived: the kernel
	// reads ahead in pieces about this size.
	arrivedStep = 256 << 10
	// maxColdRead is the longest read, in bytes, through the ring. Beyond it the kernel's cache has
	// more than was asked for, and the next read finds it there.
	maxColdRead = 64 << 10
	// ringIdle is how long an unused ring is kept. It is two descriptors, a thread and some memory,
	// and takes less time to make than a disk read.
	ringIdle = 250 * time.Millisecond
)

// Listing directories (dirent.go, parallellisting.go).
const (
	// direntBuf is the size in bytes for one getdents64(2): about a thousand entries, as libc asks
	// for.
	direntBuf = 32 << 10
	// direntLeast is the least number of bytes asked for: some entries with the longest names, 280
	// bytes each.
	direntLeast = 2 << 10
	// direntSlack is the share asked for beyond the last page's bytes: a sixteenth.
	direntSlack = 16

	// partEntries entries are described in one go, in some 30 µs.
	partEntries = 32
	// partsAhead parts are described, or being described, before the first of them is emitted: so
	// the helper need not wait for the first within the time some yields take.
	partsAhead = 6
	// helperFirstPart is the part with which help is asked for. A small page ends before, and
	// nothing is described for nothing.
	helperFirstPart = 2
	// At least helperMinParts parts have to be left then: to wake a goroutine costs about one part.
	helperMinParts = 4
	// A helper that finds no part ends after helperIdleYields yields, about a millisecond.
	helperIdleYields = 5000
	// waitYields yields, about one part's time, pass before the first sleeps for a part's end.
	waitYields = 100
	// waitSleep is the time between looks once it sleeps: the helper's thread is not being run.
	waitSleep = 50 * time.Microsecond
)
