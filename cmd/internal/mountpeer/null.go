// A file system with one file, served from memory. It shows the cost of FUSE alone.

package mountpeer

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// NullFile is the file's name.
const NullFile = "data"

// Node numbers in the null file system.
const (
	nullRoot = 1
	nullNode = 2
)

// nullTime is the kernel's cache time. Nothing ever changes.
const nullTime = time.Hour

// A nullFS has one file. Every READ returns the same memory, at any offset, and written data is
// dropped, so only FUSE itself copies data. Files are opened with fusefs's flags.
type nullFS struct {
	fuse.RawFileSystem
	size   uint64
	memory []byte
}

func newNull(size uint64) *nullFS {
	return &nullFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), size: size, memory: make([]byte, 2<<20)}
}

func (f *nullFS) String() string { return "null" }

// attr fills in a node's attributes.
func (f *nullFS) attr(node uint64, out *fuse.Attr) {
	out.Ino, out.Nlink, out.Blksize = node, 1, uint32(len(f.memory))
	if node == nullRoot {
		out.Mode = unix.S_IFDIR | 0o777
		return
	}
	out.Mode, out.Size = unix.S_IFREG|0o666, f.size
}

// Lookup finds the file system's only name.
func (f *nullFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name != NullFile {
		return fuse.ENOENT
	}
	out.NodeId, out.Generation = nullNode, 1
	out.SetEntryTimeout(nullTime)
	out.SetAttrTimeout(nullTime)
	f.attr(nullNode, &out.Attr)
	return fuse.OK
}

// GetAttr returns the attributes for stat(2).
func (f *nullFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.SetTimeout(nullTime)
	f.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

// Access allows all.
func (f *nullFS) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

// Open opens the file.
func (f *nullFS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	if in.Flags&unix.O_DIRECT != 0 {
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	}
	return fuse.OK
}

// Read answers from memory.
func (f *nullFS) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	n := min(uint64(in.Size), f.size-min(in.Offset, f.size), uint64(len(f.memory)))
	return fuse.ReadResultData(f.memory[:n]), fuse.OK
}

// Write drops the data.
func (f *nullFS) Write(_ <-chan struct{}, _ *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return uint32(len(data)), fuse.OK
}

// Flush does nothing.
func (f *nullFS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

// Fsync does nothing.
func (f *nullFS) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }
