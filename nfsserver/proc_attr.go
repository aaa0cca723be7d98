// GETATTR, SETATTR and ACCESS (RFC 1813 §3.3.1, §3.3.2, §3.3.4).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func getattr(q *request, _ *nfs3.GetattrArgs, res *nfs3.GetattrRes) error {
	if err := q.busyUnlessQuick(false); err != nil {
		return err
	}
	at, err := q.attr()
	res.Attr = fattr(&at)
	return err
}

func setattr(q *request, a *nfs3.SetattrArgs, res *nfs3.SetattrRes) error {
	w := q.who()
	lock := q.x.locks.lock(&q.ref)
	err := q.setattr(&w, a, &res.Wcc.Before)
	res.Wcc.After = q.post()
	q.x.locks.unlock(lock)
	return q.syncChanged(err, &q.ref)
}

// setattr does SETATTR; o's lock is held.
func (o *object) setattr(w *Cred, a *nfs3.SetattrArgs, before *nfs3.PreOpAttr) error {
	at, err := o.attr()
	if err != nil {
		return err
	}
	*before = o.before(&at)
	set, err := setAttr(&a.Attr)
	switch {
	case err != nil:
		return err
	case o.may.readOnly:
		return nfs3.ErrROFS
	case a.Guard && a.GuardCtime != wireTime(at.Ctime):
		return nfs3.ErrNotSync
	case set.Has(SetSize) && at.Type == TypeDir:
		return nfs3.ErrIsDir
	case set.Has(SetSize) && at.Type != TypeReg:
		return nfs3.ErrInval
	case set.Has(SetSize) && set.Size > o.x.info.MaxFileSize:
		return nfs3.ErrFBig
	}
	return o.x.fs.Setattr(*w, o.ref, &set)
}

// syncChanged brings changed objects to stable storage after a successful change, because SETATTR
// and the operations on names complete only on stable storage (RFC 1813 §4.8).
func (o *object) syncChanged(err error, changed ...*Ref) error {
	if err != nil || o.may.async {
		return err
	}
	for _, r := range changed {
		if err := o.x.stable(r, false); err != nil && status(err) != nfs3.ErrStale {
			return err
		}
	}
	return nil
}

func access(q *request, a *nfs3.AccessArgs, res *nfs3.AccessRes) error {
	if err := q.busyUnlessQuick(true); err != nil {
		return err
	}
	at, err := q.attr()
	if err != nil {
		return err
	}
	res.Access, err = q.access(q.who(), &at, a.Access)
	res.Attr = postOp(&at)
	return err
}

// access returns the ACCESS bits in want (RFC 1813 §3.3.4) that w has on o with attributes at. A
// read-only export permits no change of its objects. Devices and FIFOs are exempt, because they
// lead to data elsewhere.
func (o *object) access(w Cred, at *Attr, want uint32) (uint32, error) {
	search := nfs3.AccessExecute
	change := nfs3.AccessModify | nfs3.AccessExtend
	if at.Type == TypeDir {
		search = nfs3.AccessLookup
		change |= nfs3.AccessDelete
	}
	bits := [...]struct{ perm, access uint32 }{{MayRead, nfs3.AccessRead}, {MayExec, search}, {MayWrite, change}}
	var perms uint32
	for _, b := range bits {
		if want&b.access != 0 {
			perms |= b.perm
		}
	}
	if o.may.readOnly && at.Type != TypeChar && at.Type != TypeBlock && at.Type != TypeFIFO {
		perms &^= MayWrite
	}
	if perms == 0 {
		return 0, nil
	}
	perms, err := o.x.fs.Access(w, o.ref, perms)
	var have uint32
	for _, b := range bits {
		if perms&b.perm != 0 {
			have |= b.access
		}
	}
	return have & want, err
}
