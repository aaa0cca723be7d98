// The server's largest file size: a write beyond it fails at once, not when its data is sent.

package fusefs

import (
	"math"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// largest returns the largest size of n: FSINFO's maxfilesize for the root's file system. In other
// file systems only the server decides.
func (f *fileSystem) largest(n *node) uint64 {
	attr, _ := n.snapshot()
	if f.sizeMost == 0 || attr.Fsid != f.fsid {
		return math.MaxInt64
	}
	return min(f.sizeMost, math.MaxInt64)
}

// fits returns the writable part of p at off, or EFBIG if it is empty (write(2)).
func (f *fileSystem) fits(n *node, off uint64, p []byte) ([]byte, error) {
	most := f.largest(n)
	if off >= most {
		return nil, syscall.EFBIG
	}
	return p[:min(uint64(len(p)), most-off)], nil
}

// Fallocate is unsupported, because NFSv3 lacks it. Like the kernel's file systems, Fallocate
// checks the size first.
func (f *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if n := f.table.get(in.NodeId); n != nil && in.Offset+in.Length > f.largest(n) {
		return fuse.Status(syscall.EFBIG)
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}
