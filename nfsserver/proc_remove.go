// REMOVE, RMDIR, RENAME and LINK (RFC 1813 §3.3.12 to §3.3.15).

package nfsserver

import "github.com/nfsrdma/nfsrdma/xdr/nfs3"

// changeable checks that names in directory o may change, and checks name.
func (o *object) changeable(name []byte, before *nfs3.PreOpAttr) error {
	at, err := o.attr()
	if err != nil {
		return err
	}
	*before = o.before(&at)
	if at.Type != TypeDir {
		return nfs3.ErrNotDir
	}
	if err := checkName(o.x, name); err != nil {
		return err
	}
	if o.may.readOnly {
		return nfs3.ErrROFS
	}
	return nil
}

func remove(q *request, a *nfs3.RemoveArgs, res *nfs3.RemoveRes) error {
	return q.unlink(a.Name, false, &res.Wcc)
}

func rmdir(q *request, a *nfs3.RmdirArgs, res *nfs3.RmdirRes) error {
	return q.unlink(a.Name, true, &res.Wcc)
}

// unlink runs REMOVE and RMDIR.
func (q *request) unlink(name []byte, isDir bool, wcc *nfs3.WccData) error {
	w := q.who()
	lock := q.x.locks.lock(&q.ref)
	err := q.object.unlink(&w, name, isDir, &wcc.Before)
	wcc.After = q.post()
	q.x.locks.unlock(lock)
	return q.syncChanged(err, &q.ref)
}

// unlink does REMOVE or RMDIR; the directory's lock is held.
func (o *object) unlink(w *Cred, name []byte, isDir bool, before *nfs3.PreOpAttr) error {
	if err := o.changeable(name, before); err != nil {
		return err
	}
	switch {
	case string(name) == "." && isDir:
		return nfs3.ErrInval // RFC 1813 §3.3.13
	case string(name) == ".." && isDir:
		return nfs3.ErrExist // also RFC 1813 §3.3.13
	case dots(name):
		return nfs3.ErrIsDir
	}
	if isDir {
		return o.x.fs.Rmdir(*w, o.ref, string(name))
	}
	return o.x.fs.Remove(*w, o.ref, string(name))
}

func rename(q *request, a *nfs3.RenameArgs, res *nfs3.RenameRes) error {
	to, err := q.second(&a.To.Dir)
	if err != nil {
		res.FromWcc.After = q.post()
		return err
	}
	w := q.who()
	unlock := q.x.locks.pair(&q.ref, &to.ref)
	err = renameLocked(&q.object, &to, &w, a, res)
	res.FromWcc.After = q.post()
	if res.ToWcc.After = res.FromWcc.After; to.ref != q.ref {
		res.ToWcc.After = to.post()
	}
	unlock()
	return q.syncChanged(err, &to.ref, &q.ref)
}

// second finds the other object of a RENAME or LINK, which must be in the same export and tree: the
// call runs on the first export's worker, so it must not use another export's file system.
func (q *request) second(fh *nfs3.FH) (object, error) {
	id, ok := handleExport(fh.Bytes())
	if !ok {
		return object{}, nfs3.ErrBadHandle
	}
	x := q.x
	if id != x.id {
		e := q.srv.table.Load().byID[id]
		if e == nil {
			return object{}, q.srv.noExport(fh)
		}
		x = e.x
	}
	r, err := q.srv.ref(x, fh)
	switch {
	case err != nil:
		return object{}, err
	case x != q.x:
		return object{}, nfs3.ErrXDev
	}
	if tree, _ := handleTree(fh.Bytes()); tree != x.number {
		return object{}, nfs3.ErrXDev
	}
	return object{x, r, q.may}, nil
}

// renameLocked does RENAME; both directories' locks are held. For a single directory it reads the
// attributes once, because some file systems ask another machine for attributes.
func renameLocked(from, to *object, w *Cred, a *nfs3.RenameArgs, res *nfs3.RenameRes) error {
	err := from.changeable(a.From.Name, &res.FromWcc.Before)
	var err2 error
	if to.ref == from.ref {
		res.ToWcc.Before = res.FromWcc.Before
		err2 = checkName(to.x, a.To.Name)
	} else {
		err2 = to.changeable(a.To.Name, &res.ToWcc.Before)
	}
	switch {
	case err != nil:
		return err
	case err2 != nil:
		return err2
	case dots(a.From.Name) || dots(a.To.Name):
		return nfs3.ErrInval // RFC 1813 §3.3.14
	}
	// A conflicting target gives ISDIR, NOTDIR or NOTEMPTY, as POSIX callers expect.
	return from.x.fs.Rename(*w, from.ref, string(a.From.Name), to.ref, string(a.To.Name))
}

func link(q *request, a *nfs3.LinkArgs, res *nfs3.LinkRes) error {
	dir, err := q.second(&a.Link.Dir)
	if err == nil {
		w := q.who()
		unlock := q.x.locks.pair(&dir.ref, &q.ref) // the file's times and link count change, too
		err = linkLocked(&q.object, &dir, &w, a.Link.Name, &res.DirWcc.Before)
		res.DirWcc.After = dir.post()
		unlock()
		err = q.syncChanged(err, &dir.ref, &q.ref)
	}
	res.Attr = q.post()
	return err
}

// linkLocked does LINK; the locks of file and directory are held.
func linkLocked(o, dir *object, w *Cred, name []byte, before *nfs3.PreOpAttr) error {
	if err := dir.changeable(name, before); err != nil {
		return err
	}
	at, err := o.attr()
	switch {
	case err != nil:
		return err
	case dots(name):
		return nfs3.ErrExist
	case at.Type == TypeDir:
		return nfs3.ErrInval
	case !o.x.info.HardLinks:
		return nfs3.ErrNotSupp
	}
	return o.x.fs.Link(*w, o.ref, dir.ref, string(name))
}
