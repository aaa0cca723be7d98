// Stats: what a mount has done, counted.

package fusefs

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Stats is what a mount has done since it was mounted, and what it holds.
type Stats struct {
	Age   time.Duration // since the mount
	Nodes int           // objects that the kernel knows
	Open  int           // open files and directories

	// Operations is the requests of the kernel, by their names in FUSE.
	Operations map[string]uint64
	// Calls is the calls to the server, by procedure, those of the data path apart.
	Calls map[string]CallStats

	// What was answered without asking the server.
	AttrHits, NameHits, AccessHits uint64
	// ForeignChanges is how often another client was found to have changed something
	// that was cached here.
	ForeignChanges uint64
	// SillyRenames is how many files that were removed while open got a hidden name.
	SillyRenames uint64

	Data datapath.Stats
}

// CallStats is the calls of one procedure.
type CallStats struct{ Count, Errors uint64 }

// What is answered from a cache.
const (
	hitAttr = iota
	hitName
	hitAccess
	numHits
)

// counts is the counters of a mount.
type counts struct {
	begun   time.Time // set once
	ops     [numOps]atomic.Uint64
	calls   [nfs3.NumProcs]atomic.Uint64
	errors  [nfs3.NumProcs]atomic.Uint64
	hits    [numHits]atomic.Uint64
	foreign atomic.Uint64
	silly   atomic.Uint64
}

func (c *counts) call(proc uint32)   { c.calls[proc].Add(1) }
func (c *counts) failed(proc uint32) { c.errors[proc].Add(1) }
func (c *counts) hit(what int)       { c.hits[what].Add(1) }

// An op is an operation of the kernel.
type op uint8

// The operations that are counted.
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
	numOps
)

var opNames = [numOps]string{"LOOKUP", "GETATTR", "SETATTR", "READLINK", "ACCESS", "MKNOD", "MKDIR", "SYMLINK", "LINK", "UNLINK",
	"RMDIR", "RENAME", "OPEN", "CREATE", "READ", "WRITE", "FLUSH", "FSYNC", "RELEASE", "OPENDIR", "READDIR", "READDIRPLUS", "RELEASEDIR", "STATFS"}

// Stats returns the counts of the moment.
func (m *MountPoint) Stats() Stats {
	f := m.fs
	s := Stats{
		Age: time.Since(f.counts.begun), Nodes: f.table.size(), Open: f.handles.count(),
		Operations: make(map[string]uint64), Calls: make(map[string]CallStats),
		AttrHits: f.counts.hits[hitAttr].Load(), NameHits: f.counts.hits[hitName].Load(), AccessHits: f.counts.hits[hitAccess].Load(),
		ForeignChanges: f.counts.foreign.Load(), SillyRenames: f.counts.silly.Load(), Data: f.engine.Stats(),
	}
	for i := range f.counts.ops {
		if n := f.counts.ops[i].Load(); n > 0 {
			s.Operations[opNames[i]] = n
		}
	}
	for i := range f.counts.calls {
		if n := f.counts.calls[i].Load(); n > 0 {
			s.Calls[nfs3.Bindings[i].Name] = CallStats{Count: n, Errors: f.counts.errors[i].Load()}
		}
	}
	return s
}
