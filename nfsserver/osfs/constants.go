// The constants that are a choice: times, limits and sizes. Numbers of the kernel's interfaces
// stand beside their use.

package osfs

import "time"

// Open files, and how soon they are closed (cache.go, sweep.go, fdbudget.go, flush.go).
const (
	// shards is the number of locks of a cache: with 16, calls on different files rarely meet at
	// one.
	shards = 16

	// sweepEvery is the sweeper's period, its tick. A scan of a few thousand nodes four times a
	// second costs nothing to speak of.
	sweepEvery = 250 * time.Millisecond
	// idleTicks is the number of ticks after which an unused node or mount is closed. Three, up to
	// a second: umount(8) and the start of a program that was just copied succeed soon after.
	idleTicks = 3
	// checkTicks is the number of ticks for which a subtree check holds: about a second, as long as
	// an access decision (grantTime).
	checkTicks = 4

	// leastNodes is the number of nodes that a process may have in any case: 32 calls at once each
	// find room for their file.
	leastNodes = 32
	// mostNodes is the number of nodes of a process with a high limit on descriptors. More files
	// than 4,096 are seldom in use within a second, and a sweep looks at each.
	mostNodes = 4096
	// unknownThrees stands for an eighth of the limit on descriptors where that cannot be read: as
	// of the usual limit of 1,024.
	unknownThrees = 128
	// reclaimStep is the number of nodes that are closed when descriptors have run out: enough for
	// the next calls too, and no more than a few hundred microseconds of close(2).
	reclaimStep = 32
	// closeWait bounds the wait for another FS to close files: its file system may be a program or
	// a machine that does not answer, and the caller has nothing to do with it.
	closeWait = 100 * time.Millisecond
	// maxQueuedFlushes is the number of files that wait to be synced and closed. Beyond 32 each
	// caller syncs its own, unless it sends replies (holdDeferred): a writer that outruns the disk
	// then waits for it.
	maxQueuedFlushes = 32
	// maxLostErrors is the number of files with a kept error of a lost write, for their next Sync.
	// A failed disk has one for each file written since; beyond 4,096 the next Sync of any file
	// gets it.
	maxLostErrors = 4096
	// maxListings is the number of open listings of one directory. A ninth client that reads it
	// page by page takes a new descriptor for each page.
	maxListings = 8
)

// Knowledge about files, bounded by the memory that it takes (index.go, owngenerations.go,
// copyup.go, mounts.go, walk.go, subtree.go, overlay.go, ref.go).
const (
	// maxHints is the number of inodes in the index, some 100 bytes each. A walk finds the others.
	maxHints = 1 << 20
	// maxIdentities is the number of generations of ours, some 100 bytes each. An evicted file gets
	// another generation later.
	maxIdentities = 1 << 20
	// maxBtimes is the number of birth times of files on an overlay, some 60 bytes each. An evicted
	// file that was copied up has a new Ref.
	maxBtimes = 1 << 20
	// maxUnknown is the number of ids known to belong to no mount. Only handles of mounts that are
	// gone have such ids, and there are few of these.
	maxUnknown = 1024

	// maxHintDepth bounds the directories from an indexed inode up to the root. Wrong hints can
	// form a circle.
	maxHintDepth = 1024
	// maxUpDepth bounds the steps from a directory up to the root: renames meanwhile can make the
	// way longer without end. Linux allows paths of 4,096 bytes, with fewer directories.
	maxUpDepth = 4096
	// maxWalkDepth bounds the descriptors that a walk has open on the way down.
	maxWalkDepth = 256
	// maxWalkDebt is the time that walks may take before they are limited to half of all time: one
	// second lets the walk of the first calls after a restart run.
	maxWalkDebt = time.Second
	// apartLook is the number of entries of the root in which layersApart looks for a file.
	apartLook = 1000
	// maxPause bounds the wait for a handle with an inode number that ext4 is just giving to a new
	// file: until it has, the kernel returns ENOMEM, and ESTALE from then on. It is asked again
	// after pauses that double from 1 ms.
	maxPause = 64 * time.Millisecond
)

// Access decisions (accesscache.go).
const (
	// grantTime is how long an access decision holds: one second, the least time for which clients
	// keep attributes.
	grantTime = int64(time.Second)
	// maxGrants is the number of decisions for one node. With more callers the oldest asks again.
	maxGrants = 16
)

// Reading and writing (io.go, nowait.go, deferredread.go, coldread.go, coldread_uring.go).
const (
	// writePiece is the number of bytes that one system call writes to a file system of this
	// machine, some 10 µs of copying. Go's runtime looks at system calls every 20 µs while there
	// are such, takes one that it finds twice to be waiting, and wakes a thread for the processor
	// which that seems to have left free. For a WRITE of 1 MiB this, and one thread more than there
	// are processors, costs more than the calls that it would save.
	writePiece = 32 << 10
	// atimeDay is less than the day after which relatime changes an access time, because the clocks
	// of the two decisions differ.
	atimeDay = 23 * time.Hour
	// arrivedStep is the distance in bytes between the places that arrived looks at: the kernel
	// reads ahead in pieces of about this size.
	arrivedStep = 256 << 10
	// maxColdRead is the longest read, in bytes, that goes through the ring. Beyond it the kernel's
	// cache has more than was asked for, and the next read finds it there.
	maxColdRead = 64 << 10
	// ringIdle is how long an unused ring is kept. It is two descriptors, a thread and some memory,
	// and takes less time to make than a read of a disk.
	ringIdle = 250 * time.Millisecond
)

// Listing directories (dirent.go, parallellisting.go).
const (
	// direntBuf is the number of bytes of entries of one getdents64(2): about a thousand entries,
	// as libc asks for.
	direntBuf = 32 << 10
	// direntLeast is the least number of bytes that are asked for: some entries of the longest
	// names, 280 bytes each.
	direntLeast = 2 << 10
	// direntSlack is the share of the last page's bytes that is asked for beyond them: a sixteenth.
	direntSlack = 16

	// partEntries is the number of entries that are described in one go, some 30 µs.
	partEntries = 32
	// partsAhead is the number of parts that are described, or being described, before the one that
	// is emitted: so the helper need not wait for the first within the time of some yields.
	partsAhead = 6
	// helperFirstPart is the part with which help is asked for. A page that is small ends before,
	// and nothing is described for nothing.
	helperFirstPart = 2
	// helperMinParts is the number of parts that have to be left then: to wake a goroutine costs
	// about one part.
	helperMinParts = 4
	// helperIdleYields is the number of yields after which a helper that finds no part ends, about
	// a millisecond.
	helperIdleYields = 5000
	// waitYields is the number of yields before the first sleeps for the end of a part, about the
	// time of one part.
	waitYields = 100
	// waitSleep is the time between looks once it sleeps: the helper's thread is not being run.
	waitSleep = 50 * time.Microsecond
)
