// The chosen constants: times, limits and sizes. Numbers from the kernel's interfaces stand beside
// their use.

package osfs

import "time"

// Open files, and how soon they are closed (cache.go, sweep.go, fdbudget.go, flush.go).
const (
	// shards is the number of shards, each with a lock, in a cache. With 16, calls on different
	// files rarely need the same lock.
	shards = 16

	// sweepEvery is the sweeper's period, its tick. Four scans of a few thousand nodes in a second
	// cost almost nothing.
	sweepEvery = 250 * time.Millisecond
	// An unused node or mount is closed after idleTicks ticks: at three, within a second. So
	// umount(8), or the start of a program just copied, succeeds soon after the last use.
	idleTicks = 3
	// A subtree check holds for checkTicks ticks: about a second, as long as an access decision
	// (grantTime).
	checkTicks = 4

	// leastNodes is a process's smallest node limit: 32 concurrent calls each find room for a file.
	leastNodes = 32
	// mostNodes limits the nodes in a process with a high descriptor limit. More than 4,096 files
	// are seldom in use within a second, and each sweep looks at every node.
	mostNodes = 4096
	// unknownThrees replaces an eighth of the descriptor limit if that limit cannot be read. It
	// assumes the usual 1,024.
	unknownThrees = 128
	// reclaimStep nodes are closed when descriptors run out. They suffice for the next calls too,
	// and their close(2) calls take no more than a few hundred microseconds.
	reclaimStep = 32
	// closeWait bounds the wait until another FS has closed files. That other FS may depend on an
	// unresponsive program or machine, which the caller does not use.
	closeWait = 100 * time.Millisecond
	// maxQueuedFlushes limits the files waiting to be synced and closed. With 32 queued, each
	// caller syncs its own file, so a writer faster than the disk waits for the disk. A caller that
	// sends replies (holdDeferred) leaves the sync to the queue.
	maxQueuedFlushes = 32
	// maxLostErrors limits the files whose lost-write error is kept for their next Sync. After a
	// disk failure each file written since has such an error. Beyond 4,096 the next Sync of any
	// file returns it.
	maxLostErrors = 4096
	// maxListings limits a directory's open listings. Beyond eight, a further client that reads the
	// directory page by page needs a new descriptor for each page.
	maxListings = 8
)

// Knowledge about files, bounded by its memory (index.go, owngenerations.go, copyup.go, mounts.go,
// walk.go, subtree.go, overlay.go, ref.go).
const (
	// maxHints limits the inodes in the index, some 100 bytes each. A walk finds the others.
	maxHints = 1 << 20
	// maxIdentities limits the generations given by the server, some 100 bytes each. An evicted
	// file gets another generation later.
	maxIdentities = 1 << 20
	// maxBtimes limits the birth times kept for overlay files, some 60 bytes each. An evicted
	// copied-up file has a new Ref.
	maxBtimes = 1 << 20
	// maxUnknown limits the ids known to belong to no mount. Only handles from vanished mounts have
	// such ids, so few are needed.
	maxUnknown = 1024

	// maxHintDepth bounds the directories from an indexed inode up to the root, because wrong hints
	// can form a circle.
	maxHintDepth = 1024
	// maxUpDepth bounds the steps from a directory up to the root, because concurrent renames can
	// prolong the way without end. Linux's 4,096-byte paths have fewer directories.
	maxUpDepth = 4096
	// maxWalkDepth bounds a walk's depth, and so the descriptors that it holds open.
	maxWalkDepth = 256
	// maxWalkDebt is the time walks may take before they are limited to half of all time. One
	// second is enough for the walk after a restart.
	maxWalkDebt = time.Second
	// layersApart looks for a file in the root's first apartLook entries.
	apartLook = 1000
	// maxPause bounds the wait for a handle while ext4 gives the handle's inode number to a new
	// file. During that time the kernel returns ENOMEM, and afterwards ESTALE. The open is repeated
	// after pauses that double from 1 ms.
	maxPause = 64 * time.Millisecond
)

// Access decisions (accesscache.go).
const (
	// grantTime is how long an access decision holds: one second, the shortest time for which
	// clients cache attributes.
	grantTime = int64(time.Second)
	// maxGrants limits the decisions cached for one node. A further caller's decision replaces the
	// oldest.
	maxGrants = 16
)

// Reading and writing (read.go, write.go, coldread.go, coldread_uring.go).
const (
	// writePiece is how many bytes one system call writes to a local file system, copied in some 10
	// µs. Go's runtime inspects system calls every 20 µs. It takes a call seen twice to be waiting,
	// and wakes another thread to use the call's processor. During a 1 MiB WRITE the wake-up, and
	// one thread more than processors, cost more than the extra system calls.
	writePiece = 32 << 10
	// atimeDay is an hour shorter than the day after which relatime updates an access time, because
	// the server and the kernel read different clocks.
	atimeDay = 23 * time.Hour
	// arrivedStep is the distance in bytes between the places inspected by arrived: the kernel
	// reads ahead in pieces about this size.
	arrivedStep = 256 << 10
	// maxColdRead is the longest read, in bytes, through the ring. For longer reads the kernel
	// reads ahead, so the next read finds its pages in the page cache.
	maxColdRead = 64 << 10
	// ringIdle is how long an unused ring is kept. A ring occupies two descriptors, a thread and
	// some memory, and opening it takes less time than a disk read.
	ringIdle = 250 * time.Millisecond
)

// Listing directories (dirent.go, parallellisting.go).
const (
	// direntBuf is the buffer size in bytes for one getdents64(2): room for about a thousand
	// entries, as in libc.
	direntBuf = 32 << 10
	// direntLeast is the smallest buffer, in bytes, for getdents64(2): room for some entries with
	// the longest names, 280 bytes each.
	direntLeast = 2 << 10
	// direntSlack adds a sixteenth to the bytes of the last page.
	direntSlack = 16

	// partEntries is the number of entries in a part; to describe a part takes some 30 µs.
	partEntries = 32
	// partsAhead is how many parts may be described ahead, or being described, when the first of
	// them is emitted. With six, the helper need not wait for the emission of the first within the
	// time of some yields.
	partsAhead = 6
	// helperFirstPart is the part at which the lister asks for a helper. A small page ends earlier,
	// so no helper describes entries in vain.
	helperFirstPart = 2
	// helperMinParts parts must remain for a helper: to wake a goroutine costs about one part.
	helperMinParts = 4
	// A helper that finds no unclaimed part ends after helperIdleYields yields, about a
	// millisecond.
	helperIdleYields = 5000
	// A goroutine waiting for a part's end yields waitYields times, about one part's time, before
	// it sleeps.
	waitYields = 100
	// waitSleep is the sleep between checks for a part's end, after waitYields: the other
	// goroutine's thread does not run then.
	waitSleep = 50 * time.Microsecond
)
