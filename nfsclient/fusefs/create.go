// Making objects: files, directories, links and special files.

package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Create makes a file and opens it. The kernel has just found the name absent, or asks for O_EXCL.
// So if the name exists, another client has made it meanwhile.
func (f *fileSystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	r := f.begin(opCreate, cancel, &in.Caller)
	defer r.end()
	dir := f.table.get(in.NodeId)
	if dir == nil {
		return staleNode
	}
	n, err := r.createOpen(dir, name, in)
	if err != nil {
		return f.status(err)
	}
	if err := f.opened(r, n, in.Flags, &out.OpenOut); err != nil {
		f.table.forget(n.id, 1)
		return f.status(err)
	}
	f.fillEntry(&out.EntryOut, dir, name, n)
	return fuse.OK
}

// createTries bounds the attempts if others make and remove the name.
const createTries = 8

// createOpen makes a file, or opens one made by another client. It counts one lookup and one open.
func (r *request) createOpen(dir *node, name string, in *fuse.CreateIn) (*node, error) {
	for range createTries {
		n, err := r.create(dir, name, in.Mode, in.Umask, in.Flags)
		exists := isStatus(err, nfs3.ErrExist) && in.Flags&syscall.O_EXCL == 0
		switch {
		case err == nil:
			n.beginMaking()
			err = r.fs.table.openFile(r, n)
		case exists:
			n, err = r.openExisting(dir, name, in.Flags)
		}
		if err == nil {
			return n, nil
		}
		if n != nil {
			r.fs.table.forget(n.id, 1)
		}
		if !exists || !isStale(err) && !isStatus(err, nfs3.ErrNoEnt) {
			return nil, err
		}
	}
	return nil, syscall.ESTALE
}

// openExisting opens another client's file, made after the kernel looked up the name. If it is not
// a regular file, ESTALE makes the kernel walk again. A returned node has one lookup counted, even
// with an error.
func (r *request) openExisting(dir *node, name string, flags uint32) (*node, error) {
	n, err := r.lookup(dir, name)
	if err != nil {
		return nil, err
	}
	if attr, _ := n.snapshot(); attr.Type != nfs3.TypeReg {
		return n, syscall.ESTALE
	}
	return n, r.open(n, flags)
}

// create makes a regular file; an existing name is an error.
func (r *request) create(dir *node, name string, mode, umask, flags uint32) (*node, error) {
	mode, err := r.newMode(dir, mode, umask)
	if err != nil {
		return nil, err
	}
	attr := nfs3.Sattr{SetMode: true, Mode: mode}
	if flags&syscall.O_EXCL != 0 {
		return r.createExclusive(dir, name, attr)
	}
	args := nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, Mode: nfs3.Guarded, Attr: attr}
	return r.make(dir, name, nfs3.ProcCreate, &args)
}

// make runs one procedure that makes an object. It returns the object's node with one more lookup
// counted.
func (r *request) make(dir *node, name string, proc uint32, args xdr.Marshaler) (*node, error) {
	f := r.fs
	if err := f.checkName(name); err != nil {
		return nil, err
	}
	var res nfs3.CreateRes
	ended := f.table.changeNames(dirName{dir, name})
	noACL := f.givesNoACL(dir)
	s := f.changing(dir)
	err := r.do(proc, args, &res, &res.Status)
	f.learnWcc(dir, s, &res.DirWcc)
	f.changed(dir)
	var n *node
	if err != nil {
		f.table.removed(dir, name) // the object may exist or not, so drop the cached name
		f.table.dropListings(dir)
	} else {
		f.renamed(dir)
		if res.FH.Present {
			n = f.table.enter(res.FH.FH, dir, name, dir.version())
		}
	}
	ended()
	if err != nil {
		return nil, f.stale(dir, err)
	}
	if n == nil {
		return r.lookup(dir, name)
	}
	if res.Attr.Present {
		f.learn(n, s, &res.Attr.Attr)
		if noACL {
			f.madeWithoutACL(n, s)
		}
	} else if err = r.getattr(n); err != nil {
		f.table.forget(n.id, 1)
		return nil, err
	}
	return n, nil
}

// renamed counts our change to a directory's names: listings read before it may be outdated.
func (f *fileSystem) renamed(dir *node) {
	dir.mu.Lock()
	dir.names++
	dir.mu.Unlock()
}

// made fills the reply to an operation that makes an object.
func (f *fileSystem) made(out *fuse.EntryOut, dir *node, name string, n *node, err error) fuse.Status {
	if err != nil {
		return f.status(err)
	}
	f.fillEntry(out, dir, name, n)
	return fuse.OK
}

// Mkdir makes a directory.
func (f *fileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	r := f.begin(opMkdir, cancel, &in.Caller)
	defer r.end()
	dir := f.table.get(in.NodeId)
	if dir == nil {
		return staleNode
	}
	mode, err := r.newMode(dir, in.Mode, in.Umask)
	if err != nil {
		return f.status(err)
	}
	args := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, Attr: nfs3.Sattr{SetMode: true, Mode: mode}}
	n, err := r.make(dir, name, nfs3.ProcMkdir, &args)
	if err == nil {
		f.table.storeListing(n, &listedNames{content: n.version(), whole: true, names: make(map[string]*dirEntry)})
	}
	return f.made(out, dir, name, n, err)
}

// Symlink makes a symbolic link.
func (f *fileSystem) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	r := f.begin(opSymlink, cancel, &h.Caller)
	defer r.end()
	dir := f.table.get(h.NodeId)
	if dir == nil {
		return staleNode
	}
	args := nfs3.SymlinkArgs{Where: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, Attr: nfs3.Sattr{SetMode: true, Mode: 0o777}, Path: []byte(target)}
	n, err := r.make(dir, name, nfs3.ProcSymlink, &args)
	return f.made(out, dir, name, n, err)
}

// Mknod makes a FIFO, socket or device, or a regular file without opening it.
func (f *fileSystem) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	r := f.begin(opMknod, cancel, &in.Caller)
	defer r.end()
	dir := f.table.get(in.NodeId)
	if dir == nil {
		return staleNode
	}
	if t := in.Mode & syscall.S_IFMT; t == syscall.S_IFREG || t == 0 {
		n, err := r.create(dir, name, in.Mode, in.Umask, 0)
		return f.made(out, dir, name, n, err)
	}
	mode, err := r.newMode(dir, in.Mode, in.Umask)
	if err != nil {
		return f.status(err)
	}
	args := nfs3.MknodArgs{Where: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, Attr: nfs3.Sattr{SetMode: true, Mode: mode}}
	switch in.Mode & syscall.S_IFMT {
	case syscall.S_IFIFO:
		args.Type = nfs3.TypeFIFO
	case syscall.S_IFSOCK:
		args.Type = nfs3.TypeSock
	case syscall.S_IFCHR:
		args.Type, args.Rdev = nfs3.TypeChr, specdata(in.Rdev)
	case syscall.S_IFBLK:
		args.Type, args.Rdev = nfs3.TypeBlk, specdata(in.Rdev)
	default:
		return fuse.EINVAL
	}
	n, err := r.make(dir, name, nfs3.ProcMknod, &args)
	return f.made(out, dir, name, n, err)
}

// Link adds a name to an object.
func (f *fileSystem) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	r := f.begin(opLink, cancel, &in.Caller)
	defer r.end()
	dir, n := f.table.get(in.NodeId), f.table.get(in.Oldnodeid)
	if dir == nil || n == nil {
		return staleNode
	}
	if err := r.link(dir, n, name); err != nil {
		return f.status(err)
	}
	n = f.table.enter(n.fh, dir, name, dir.version())
	if err := r.fresh(n); err != nil {
		f.table.forget(n.id, 1)
		return f.status(err)
	}
	f.fillEntry(out, dir, name, n)
	return fuse.OK
}

// link sends one LINK. After an error the name may exist, so its cache entries are dropped.
func (r *request) link(dir, n *node, name string) error {
	f := r.fs
	if err := f.checkName(name); err != nil {
		return err
	}
	args := nfs3.LinkArgs{FH: n.fh, Link: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}}
	var res nfs3.LinkRes
	defer f.table.changeNames(dirName{dir, name})()
	s := f.changing(dir)
	err := r.do(nfs3.ProcLink, &args, &res, &res.Status)
	f.learnWcc(dir, s, &res.DirWcc)
	f.changed(dir)
	f.learnCtime(n, s, &res.Attr)
	if err != nil {
		f.table.removed(dir, name)
		f.table.dropListings(dir)
		return f.stale(n, f.stale(dir, err))
	}
	f.renamed(dir)
	return nil
}
