// Looking up names, and filling the kernel's entries.

package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// staleNode answers an operation on an unknown node.
const staleNode = fuse.Status(syscall.ESTALE)

// Lookup finds a name.
func (f *fileSystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	r := f.begin(opLookup, cancel, &h.Caller)
	defer r.end()
	if name == "." || name == ".." {
		return r.lookupByHandle(h.NodeId, name, out)
	}
	dir := f.table.get(h.NodeId)
	if dir == nil {
		return staleNode
	}
	if err := f.checkName(name); err != nil {
		return f.status(err)
	}
	r.fetchSearchACL(dir)
	var st fuse.Status
	if f.reopens.expects(&h.Caller) {
		st = r.lookupReopen(dir, name, &h.Caller, out)
	} else {
		st = r.lookupEntry(dir, name, out)
	}
	if st != fuse.OK || out.NodeId == 0 {
		return st
	}
	if err := r.mayUse(f.table.get(out.NodeId)); err != nil {
		f.table.forget(out.NodeId, 1)
		return f.status(err)
	}
	return fuse.OK
}

// lookupEntry looks up a name in a directory: in the caches, then at the server.
func (r *request) lookupEntry(dir *node, name string, out *fuse.EntryOut) fuse.Status {
	f := r.fs
	if err := f.table.awaitName(r, dirName{dir, name}); err != nil {
		return f.status(err)
	}
	if !f.table.kernelHas(dir, name) {
		st, ok := r.lookupCached(dir, name, out)
		if !ok {
			st, ok = r.lookupListed(dir, name, out)
		}
		if ok {
			f.counts.hit(hitName)
			return st
		}
	}
	n, current, err := r.lookupNow(dir, name)
	r.fetchSearchACL(dir) // the reply may have shown a change of dir
	switch {
	case isStatus(err, nfs3.ErrNoEnt) && current:
		return f.absent(dir, name, out)
	case err != nil:
		return f.status(err)
	}
	r.lookedUp(dir)
	f.fillEntry(out, dir, name, n)
	if !current {
		out.SetEntryTimeout(0)
	}
	return fuse.OK
}

// lookupTries bounds the LOOKUPs of a repeatedly changing name.
const lookupTries = 8

// lookupNow is lookup for the kernel: it repeats the call if we changed the name meanwhile.
func (r *request) lookupNow(dir *node, name string) (n *node, current bool, err error) {
	for range lookupTries {
		if n != nil {
			r.fs.table.forget(n.id, 1)
		}
		if err := r.fs.table.awaitName(r, dirName{dir, name}); err != nil {
			return nil, false, err
		}
		if n, current, err = r.lookupCurrent(dir, name); current {
			break
		}
	}
	return n, current, err
}

// lookupCached answers from cached names. The directory must be unchanged since the LOOKUP, and the
// caller may search it. The attributes of the named object must be trusted, or the directory's for
// an absent name. If the search right is unknown, one ACCESS serves all names of dir.
func (r *request) lookupCached(dir *node, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	f := r.fs
	if f.opt.LookupCache == LookupNone {
		return 0, false
	}
	c, ok := f.table.child(dir, name)
	if !ok || c.n == nil && f.opt.LookupCache != LookupAll || dir.version() != c.content {
		return 0, false
	}
	asked := c.n
	if asked == nil {
		asked = dir // the directory's attributes decide whether the name is still absent
	}
	if _, left := asked.snapshot(); left <= 0 {
		return 0, false
	}
	if err := r.may(dir, nfs3.AccessLookup); err != nil {
		return f.status(err), true
	}
	if dir.version() != c.content {
		return 0, false
	}
	if c.n == nil {
		return f.absent(dir, name, out), true
	}
	if !f.table.enterKnown(dir, name, c.n) {
		return 0, false
	}
	f.fillEntry(out, dir, name, c.n)
	return fuse.OK, true
}

// lookup asks the server for a name in dir. The returned node has one more lookup counted.
func (r *request) lookup(dir *node, name string) (*node, error) {
	n, _, err := r.lookupCurrent(dir, name)
	return n, err
}

// lookupCurrent is lookup that also reports whether the answer is current: no operation of ours has
// changed the name meanwhile.
func (r *request) lookupCurrent(dir *node, name string) (n *node, current bool, err error) {
	f := r.fs
	args, res := nfs3.LookupArgs{Dir: dir.fh, Name: []byte(name)}, nfs3.LookupRes{}
	q := f.table.beginLookup(dirName{dir, name})
	s := f.stamp()
	err = r.do(nfs3.ProcLookup, &args, &res, &res.Status)
	f.learnPost(dir, s, &res.DirAttr)
	if isStatus(err, nfs3.ErrNoEnt) {
		return nil, f.table.endLookupAbsent(q, res.DirAttr.Present), err
	}
	if err != nil {
		f.table.abandonLookup(q)
		return nil, true, f.stale(dir, err)
	}
	n, current = f.table.endLookup(q, res.FH)
	if res.Attr.Present {
		f.learnNamed(n, s, &res.Attr.Attr)
	} else if err = r.getattr(n); err != nil {
		f.table.forget(n.id, 1)
		return nil, current, err
	}
	return n, current, nil
}

// absent answers that the name does not exist. The kernel may cache the absence only while a notice
// after a change of dir would include the name.
func (f *fileSystem) absent(dir *node, name string, out *fuse.EntryOut) fuse.Status {
	if f.opt.LookupCache == LookupAll && f.table.isAbsent(dir, name) {
		if ttl := f.nameFor(dir); ttl > 0 {
			*out = fuse.EntryOut{} // node 0, even if an earlier attempt found one
			out.SetEntryTimeout(ttl)
			return fuse.OK
		}
	}
	return fuse.ENOENT
}

// nameFor returns how long the kernel may use the names in dir without asking: as long as the
// attributes of dir are trusted. The kernel does not check the right to search. So if some callers
// may lack this right, the time is 0 and each walk sends us a LOOKUP.
func (f *fileSystem) nameFor(dir *node) time.Duration {
	_, left := dir.snapshot()
	if f.opt.LookupCache == LookupNone || f.searchVaries(dir) {
		return 0
	}
	return left
}

// searchAll is a directory mode with search right for all.
const searchAll = 0o111

// searchVaries reports whether the right to walk through dir may differ between callers.
func (f *fileSystem) searchVaries(dir *node) bool {
	if !f.manyUsers() {
		return false
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if dir.attr.Mode&searchAll != searchAll {
		return true
	}
	if f.opt.NoACL {
		return false
	}
	k := dir.cachedACL()
	if k == nil {
		return !f.noACLs.has(dir.attr.Fsid, time.Now())
	}
	return deniesSearch(k.access)
}

// manyUsers reports whether programs use the mount with several credentials.
func (f *fileSystem) manyUsers() bool { return f.opt.AllowOther && f.opt.Cred == nil }

// fillEntry fills the kernel's entry for n under the name in dir.
func (f *fileSystem) fillEntry(out *fuse.EntryOut, dir *node, name string, n *node) {
	attr := f.fillNode(out, n)
	if !f.byKernel(&attr) {
		ttl := f.nameFor(dir)
		out.SetEntryTimeout(ttl)
		f.table.mu.Lock()
		f.table.show(dir, name, time.Now().Add(ttl))
		f.table.mu.Unlock()
	}
}

// fillNode fills the kernel's entry for n without a name. It returns the attributes.
func (f *fileSystem) fillNode(out *fuse.EntryOut, n *node) nfs3.Fattr {
	attr, left := n.snapshot()
	out.NodeId, out.Generation = n.id, f.table.generation(n)
	f.fillAttr(&out.Attr, n, &attr)
	size := f.entrySize(n, out.Attr.Size)
	if size != out.Attr.Size || attr.Type == nfs3.TypeReg && !n.current() && f.table.isOpen(n) {
		out.Attr.Size, left = size, 0
	}
	out.SetAttrTimeout(left)
	return attr
}

// fillAttr converts the attributes a of n for the kernel.
func (f *fileSystem) fillAttr(out *fuse.Attr, n *node, a *nfs3.Fattr) {
	n.mu.Lock()
	n.shownAs = ownershipOf(a)
	n.mu.Unlock()
	out.Ino = f.inode(a)
	out.Size = n.sizeOf(a)
	out.Blocks = (a.Used + 511) / 512
	out.Atime, out.Atimensec = uint64(a.Atime.Sec), a.Atime.Nsec
	out.Mtime, out.Mtimensec = uint64(a.Mtime.Sec), a.Mtime.Nsec
	out.Ctime, out.Ctimensec = uint64(a.Ctime.Sec), a.Ctime.Nsec
	out.Mode = a.Mode&0o7777 | typeBits[min(a.Type, nfs3.TypeFIFO)]
	out.Nlink = a.Nlink
	if out.Nlink == 1 && (n.silly.Load() || n.gone.Load()) {
		out.Nlink = 0 // the only name left is our hidden name
	}
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = deviceNumber(a.Rdev)
	out.Blksize = uint32(f.wtmax)
}

// typeBits are the file type bits in st_mode, by NFSv3 type.
var typeBits = [...]uint32{
	nfs3.TypeReg: syscall.S_IFREG, nfs3.TypeDir: syscall.S_IFDIR, nfs3.TypeBlk: syscall.S_IFBLK, nfs3.TypeChr: syscall.S_IFCHR,
	nfs3.TypeLnk: syscall.S_IFLNK, nfs3.TypeSock: syscall.S_IFSOCK, nfs3.TypeFIFO: syscall.S_IFIFO,
}

// inode returns the inode number of an object. The server's other file systems, reached by crossing
// a mount point there, reuse numbers. Programs see one file system, so the fsid goes into the
// number.
func (f *fileSystem) inode(a *nfs3.Fattr) uint64 {
	if a.Fsid == f.fsid {
		return a.Fileid
	}
	const odd = 0x9e3779b97f4a7c15
	x := (a.Fsid ^ f.fsid) * odd
	return a.Fileid ^ (x ^ x>>29) | 1<<63
}

// deviceNumber encodes a device number in 32 bits, like the kernel's new_encode_dev.
func deviceNumber(d nfs3.Specdata) uint32 {
	return d.Minor&0xff | d.Major<<8 | d.Minor&^0xff<<12
}

// specdata reverses deviceNumber.
func specdata(dev uint32) nfs3.Specdata {
	return nfs3.Specdata{Major: dev >> 8 & 0xfff, Minor: dev&0xff | dev>>12&0xfff00}
}

// Forget takes back lookups of a node.
func (f *fileSystem) Forget(id, count uint64) { f.table.forget(id, count) }

// GetAttr handles stat(2). Times and size are the server's, so it sends written data first.
func (f *fileSystem) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	r := f.begin(opGetattr, cancel, &in.Caller)
	defer r.end()
	n := f.table.get(in.NodeId)
	if n == nil {
		return staleNode
	}
	forSize := in.Flags()&fuse.FUSE_GETATTR_FH != 0 // SEEK_END or a read past the size, not stat
	if forSize {
		f.notices.suppress(n)
		defer f.notices.resume(n)
	}
	if err := f.sendDeferred(r, n); err != nil {
		return f.status(err)
	}
	if d := n.file(); d != nil && d.Dirty() {
		if err := d.WriteOut(r); err != nil {
			return f.status(err)
		}
	}
	// FUSE does not show whether a removed FIFO or device is still open, so keep its attributes.
	if err := r.fresh(n); err != nil && !(isStale(err) && n.gone.Load()) {
		return f.status(err)
	}
	// Read attr before showSize, because its READ may find a size not yet shown to the kernel.
	attr, left := n.snapshot()
	notified := false
	if f.table.isOpen(n) && !n.shrinks(forSize, f.regs.max <= 0) {
		var err error
		if notified, err = f.showSize(r, r.who, n); isStale(err) {
			return f.status(err)
		}
	}
	out.SetTimeout(left)
	f.fillAttr(&out.Attr, n, &attr)
	if !notified {
		n.shrank(out.Size)
	}
	return fuse.OK
}

// Readlink returns a symbolic link's target.
func (f *fileSystem) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	r := f.begin(opReadlink, cancel, &h.Caller)
	defer r.end()
	n := f.table.get(h.NodeId)
	if n == nil {
		return nil, staleNode
	}
	target, err := r.who.client.Readlink(r, n.fh)
	if err != nil {
		return nil, f.status(f.stale(n, err))
	}
	return []byte(target), fuse.OK
}
