// The space of the file system.

package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// StatFs handles statfs(2) in blocks of wsize bytes, like the kernel's client.
func (f *fileSystem) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	r := f.begin(opStatfs, cancel, &h.Caller)
	defer r.end()
	n := f.table.get(h.NodeId)
	if n == nil {
		n = f.table.root
	}
	args, res := nfs3.FsstatArgs{FH: n.fh}, nfs3.FsstatRes{}
	s := f.stamp()
	err := r.do(nfs3.ProcFsstat, &args, &res, &res.Status)
	f.learnPost(n, s, &res.Attr)
	if err != nil {
		return f.status(f.stale(n, err))
	}
	block := uint64(f.wtmax)
	out.Bsize, out.Frsize, out.NameLen = uint32(block), uint32(block), f.nameMax
	out.Blocks = res.Tbytes/block + min(res.Tbytes%block, 1)
	out.Bfree, out.Bavail = res.Fbytes/block, res.Abytes/block
	out.Files, out.Ffree = res.Tfiles, res.Ffiles
	return fuse.OK
}
