// The largest file of the server: a write beyond it fails at once, not when its data is sent.

package fusefs

import (
	"math"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// largest is the size up to which n can grow: FSINFO's maxfilesize, in the file system of the root.
// For other file systems only the server decides.
func (f *fileSystem) largest(n *node) uint64 {
	attr, _ := n.snapshot()
	if f.sizeMost == 0 || attr.Fsid != f.fsid {
		return math.MaxInt64
	}
	return min(f.sizeMost, math.MaxInt64)
}

// fits returns the part of p that can be written at off, and EFBIG if that is empty (write(2)).
func (f *fileSystem) fits(n *node, off uint64, p []byte) ([]byte, error) {
	most := f.largest(n)
	if off >= most {
		return nil, syscall.EFBIG
	}
	return p[:min(uint64(len(p)), most-off)], nil
}

// Fallocate is not in NFSv3. Its bounds are checked first, as for each file system of the kernel.
func (f *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if n := f.table.get(in.NodeId); n != nil && in.Offset+in.Length > f.largest(n) {
		return fuse.Status(syscall.EFBIG)
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}
