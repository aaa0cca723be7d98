// Stats: counters of a mount.

package fusefs

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Stats has the counters of a mount since it was mounted, and its present state.
type Stats struct {
	Age time.Duration // since the mount
	// Nodes counts the objects in the kernel's caches. Above NodesMost, one for each 2 KiB of
	// Options.Memory, the kernel is asked to forget unused ones.
	Nodes, NodesMost int
	Open             int // open files and directories

	// Operations counts the kernel's requests by their FUSE names.
	Operations  map[string]uint64
	Calls       map[string]CallStats    // the calls to the server, by procedure
	Connections []transport.LinkFigures // for the calls
	Sec         string                  // the security flavor of the calls, as in sec=

	// Requests answered without a call to the server.
	AttrHits, NameHits, AccessHits uint64
	// ForeignChanges counts changes by other clients to objects cached here.
	ForeignChanges uint64
	// SillyRenames counts open files renamed to a hidden name on removal.
	SillyRenames uint64

	// Memory is the data in memory, in bytes; MemoryMost is its bound (Options.Memory).
	Memory, MemoryMost int64
	// RequestMemory is the buffers of kernel READs and WRITEs in flight, in bytes. They are extra
	// to Memory: up to 1 MiB each.
	RequestMemory int64

	Data datapath.Stats // data in memory

	Mechanisms map[string]rnic.Decisions // decisions of the data path's mechanisms, by name
}

// CallStats has the counters of one procedure. Queue is the wait before a call is sent, RoundTrip
// the time after that.
type CallStats struct {
	Count         uint64        // calls
	Errors        uint64        // calls refused by the server or without an answer
	Retransmits   uint64        // calls sent again
	SentBytes     uint64        // of calls
	ReceivedBytes uint64        // of replies
	QueueMean     time.Duration // until a call was sent
	RoundTripMean time.Duration // from sending to the reply
	RoundTripP99  time.Duration // 99 % took at most this
	Times         []uint64      `json:",omitempty"` // see nfsclient.CallStats
}

// callStats converts the client's counters for display.
func callStats(s *nfsclient.CallStats) CallStats {
	n := time.Duration(max(s.Count, 1))
	return CallStats{
		Count: s.Count, Errors: s.Errors, Retransmits: s.Retransmits, SentBytes: s.SentBytes, ReceivedBytes: s.ReceivedBytes,
		QueueMean: s.Queue / n, RoundTripMean: s.RoundTrip / n, RoundTripP99: s.Quantile(0.99), Times: s.Times,
	}
}

// since returns the counts after before was taken.
func (s CallStats) since(before CallStats) CallStats {
	sum := func(mean time.Duration, n uint64) time.Duration { return mean * time.Duration(n) }
	d := nfsclient.CallStats{
		Count: s.Count - before.Count, Errors: s.Errors - before.Errors, Retransmits: s.Retransmits - before.Retransmits,
		SentBytes: s.SentBytes - before.SentBytes, ReceivedBytes: s.ReceivedBytes - before.ReceivedBytes,
		Queue:     max(sum(s.QueueMean, s.Count)-sum(before.QueueMean, before.Count), 0),
		RoundTrip: max(sum(s.RoundTripMean, s.Count)-sum(before.RoundTripMean, before.Count), 0),
		Times:     slices.Clone(s.Times),
	}
	for i, n := range before.Times {
		if i < len(d.Times) {
			d.Times[i] -= n
		}
	}
	return callStats(&d)
}

// Since returns the changes after before was taken of the same mount. Age and the counters cover
// that time; present states are those of s.
func (s Stats) Since(before *Stats) Stats {
	d := s
	d.Age -= before.Age
	d.Operations, d.Calls = make(map[string]uint64), make(map[string]CallStats)
	for name, n := range s.Operations {
		if n > before.Operations[name] {
			d.Operations[name] = n - before.Operations[name]
		}
	}
	for name, c := range s.Calls {
		if c.Count > before.Calls[name].Count {
			d.Calls[name] = c.since(before.Calls[name])
		}
	}
	d.AttrHits -= before.AttrHits
	d.NameHits -= before.NameHits
	d.AccessHits -= before.AccessHits
	d.ForeignChanges -= before.ForeignChanges
	d.SillyRenames -= before.SillyRenames
	d.Data = s.Data.Since(&before.Data)
	d.Mechanisms = make(map[string]rnic.Decisions)
	for name, c := range s.Mechanisms {
		d.Mechanisms[name] = c.Since(before.Mechanisms[name])
	}
	return d
}

// The cache that answered.
const (
	hitAttr = iota
	hitName
	hitAccess
	numHits
)

// counts has the counters of a mount.
type counts struct {
	begun   time.Time // set once
	ops     [numOps]atomic.Uint64
	hits    [numHits]atomic.Uint64
	foreign atomic.Uint64
	silly   atomic.Uint64

	requestMemory atomic.Int64 // see Stats
}

// hit counts one answer from a cache.
func (c *counts) hit(what int) { c.hits[what].Add(1) }

// An op is an operation of the kernel.
type op uint8

// The counted operations.
const (
	opLookup op = iota
	opGetattr
	opSetattr
	opReadlink
	opAccess
	opMknod
	opMkdir
	opSymlink
	opLink
	opUnlink
	opRmdir
	opRename
	opOpen
	opCreate
	opRead
	opWrite
	opFlush
	opFsync
	opRelease
	opOpendir
	opReaddir
	opReaddirplus
	opReleasedir
	opStatfs
	opSetlk
	opSetlkw
	opGetlk
	opGetxattr
	opSetxattr
	opListxattr
	opRemovexattr
	numOps
)

var opNames = [numOps]string{"LOOKUP", "GETATTR", "SETATTR", "READLINK", "ACCESS", "MKNOD", "MKDIR", "SYMLINK", "LINK", "UNLINK",
	"RMDIR", "RENAME", "OPEN", "CREATE", "READ", "WRITE", "FLUSH", "FSYNC", "RELEASE", "OPENDIR", "READDIR", "READDIRPLUS", "RELEASEDIR", "STATFS", "SETLK", "SETLKW", "GETLK",
	"GETXATTR", "SETXATTR", "LISTXATTR", "REMOVEXATTR"}

// Stats returns the present counters.
func (m *MountPoint) Stats() Stats {
	f := m.fs
	s := Stats{
		Age: time.Since(f.counts.begun), Nodes: f.table.size(), NodesMost: f.table.bound(), Open: f.handles.count(),
		Operations: make(map[string]uint64), Calls: make(map[string]CallStats), Connections: f.client.Links(), Sec: nfsclient.SecName(f.client.Flavor()),
		AttrHits: f.counts.hits[hitAttr].Load(), NameHits: f.counts.hits[hitName].Load(), AccessHits: f.counts.hits[hitAccess].Load(),
		ForeignChanges: f.counts.foreign.Load(), SillyRenames: f.counts.silly.Load(), Data: f.engine.Stats(),
	}
	s.Memory, s.MemoryMost = s.Data.WriteMemory+s.Data.ReadMemory, s.Data.WriteMemoryMost+s.Data.ReadMemoryMost
	s.RequestMemory = f.counts.requestMemory.Load()
	for i := range f.counts.ops {
		if n := f.counts.ops[i].Load(); n > 0 {
			s.Operations[opNames[i]] = n
		}
	}
	for name, c := range f.client.Calls() {
		s.Calls[name] = callStats(&c)
	}
	mechanisms := m.server.Mechanisms()
	mechanisms.AddAll(f.client.Mechanisms())
	s.Mechanisms = mechanisms
	return s
}
