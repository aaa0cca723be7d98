// Removing and renaming.

package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Unlink removes the name of a non-directory. An open file keeps a hidden name.
func (f *fileSystem) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	r := f.begin(opUnlink, cancel, &h.Caller)
	defer r.end()
	dir := f.table.get(h.NodeId)
	if dir == nil {
		return staleNode
	}
	f.reopens.openArrived(&h.Caller) // a thread that unlinks no longer repeats an open
	if f.table.isOpenHidden(dir, name) {
		return fuse.Status(syscall.EBUSY) // as the kernel's client does
	}
	if err := r.bindUnknown(dir, name, false); err != nil {
		return f.status(err)
	}
	defer f.table.changeNames(dirName{dir, name})()
	n, hidden, closed, err := r.beginRemoval(dir, name, nil)
	defer f.table.endRemoval(closed)
	switch {
	case err != nil:
		return f.status(err)
	case n == nil:
		return f.status(r.remove(nfs3.ProcRemove, dir, name))
	}
	r.keepHidden(n, hidden)
	return fuse.OK
}

// Rmdir removes an empty directory.
func (f *fileSystem) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	r := f.begin(opRmdir, cancel, &h.Caller)
	defer r.end()
	dir := f.table.get(h.NodeId)
	if dir == nil {
		return staleNode
	}
	d := f.table.dirAt(dir, name)
	for n := 0; ; n++ {
		var before uint64
		if d != nil {
			before = d.hiddenRemoved.Load()
		}
		err := r.remove(nfs3.ProcRmdir, dir, name)
		if !isStatus(err, nfs3.ErrNotEmpty) || d == nil || n == closingPolls || r.Err() != nil {
			return f.status(err)
		}
		// The kernel reports a last close after close(2) has returned. So a hidden name may be
		// about to disappear, or have disappeared while the server answered.
		if d.hiddenRemoved.Load() != before {
			continue
		}
		if !f.closingIn(d) {
			return f.status(err)
		}
		time.Sleep(closingPause)
	}
}

// RMDIR's polls for closed files to lose their hidden names, and the pause before each.
const (
	closingPolls = 1000
	closingPause = 5 * time.Millisecond
)

// remove sends one REMOVE or RMDIR.
func (r *request) remove(proc uint32, dir *node, name string) error {
	f := r.fs
	if err := f.checkName(name); err != nil {
		return err
	}
	args, res := nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, nfs3.WccRes{}
	c, known := f.table.child(dir, name)
	last := known && proc == nfs3.ProcRemove && c.n.lastName()
	defer f.table.changeNames(dirName{dir, name})()
	s := f.changing(dir)
	err := r.do(proc, &args, &res, &res.Status)
	f.learnWcc(dir, s, &res.Wcc)
	f.changed(dir)
	if known && c.n != nil {
		f.expire(c.n) // the object's nlink and ctime have changed, if it has other names
	}
	if last && err == nil {
		c.n.gone.Store(true)
	}
	if err == nil || isStatus(err, nfs3.ErrNoEnt) {
		f.table.removed(dir, name)
		f.renamed(dir)
	} else {
		f.table.dropListings(dir)
	}
	return f.stale(dir, err)
}

// lastName reports whether n has only one known name. n may be nil.
func (n *node) lastName() bool {
	if n == nil {
		return false
	}
	attr, _ := n.snapshot()
	return attr.Nlink == 1 && attr.Type != nfs3.TypeDir
}

// Rename moves a name. If it replaces an open file, that file keeps a hidden name. NFSv3 has no
// exchanging rename, and none failing on an existing name.
func (f *fileSystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, toName string) fuse.Status {
	r := f.begin(opRename, cancel, &in.Caller)
	defer r.end()
	dir, to := f.table.get(in.NodeId), f.table.get(in.Newdir)
	switch {
	case dir == nil || to == nil:
		return staleNode
	case in.Flags != 0:
		return fuse.EINVAL
	}
	f.reopens.openArrived(&in.Caller)
	if err := r.bindUnknown(to, toName, true); err != nil {
		return f.status(err)
	}
	defer f.table.changeNames(dirName{to, toName})()
	from, _ := f.table.child(dir, name)
	replaced, hidden, closed, err := r.beginRemoval(to, toName, from.n)
	defer f.table.endRemoval(closed)
	// NFS3ERR_NOENT: another client has removed the known target, and nothing is replaced.
	if err != nil && !isStatus(err, nfs3.ErrNoEnt) {
		return f.status(err)
	}
	err = r.rename(dir, name, to, toName)
	switch {
	case replaced == nil:
	case err == nil:
		r.keepHidden(replaced, hidden)
	default:
		r.showAgain(replaced, hidden, toName)
	}
	return f.status(err)
}

// rename sends one RENAME.
func (r *request) rename(dir *node, name string, to *node, toName string) error {
	f := r.fs
	if err := f.checkName(toName); err != nil {
		return err
	}
	args := nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, To: nfs3.DirOpArgs{Dir: to.fh, Name: []byte(toName)}}
	var res nfs3.RenameRes
	moved, _ := f.table.child(dir, name)
	replaced, _ := f.table.child(to, toName)
	last := replaced.n.lastName()
	defer f.table.changeNames(dirName{dir, name}, dirName{to, toName})()
	s := f.changing(dir)
	if to != dir {
		f.changing(to)
	}
	err := r.do(nfs3.ProcRename, &args, &res, &res.Status)
	f.learnWcc(dir, s, &res.FromWcc)
	f.changed(dir)
	if to != dir {
		f.learnWcc(to, s, &res.ToWcc)
		f.changed(to)
	}
	for _, c := range []child{moved, replaced} {
		if c.n != nil {
			f.expire(c.n)
		}
	}
	if err != nil {
		f.table.dropListings(dir, to)
		return f.stale(to, f.stale(dir, err))
	}
	f.renamed(dir)
	f.renamed(to)
	if moved.n != nil && moved.n == replaced.n {
		return nil // two names of one object: the server did nothing
	}
	f.table.moved(dir, name, to, toName, to.version())
	if last {
		replaced.n.gone.Store(true)
	}
	return nil
}
