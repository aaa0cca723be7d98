// WRITE and COMMIT (RFC 1813 §3.3.7, §3.3.21).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// writeTries is the number of attempts at a stable write while concurrent syncs fail.
const writeTries = 3

// write passes the received data to the FS in place: over RDMA, from the buffer into which the data
// was pulled. Then it syncs as far as the client has asked.
func write(q *request, a *nfs3.WriteArgs, res *nfs3.WriteRes) error {
	busy := q.call.Busy
	if q.short(a) {
		busy = q.call.BusyShortly
	}
	if err := busy(); err != nil {
		return err
	}
	w := q.who()
	for range writeTries {
		res.Verf = q.x.written.get() // before the write: a change in between makes the client resend
		// The lock keeps other calls of this server from changing the file between the "before" and
		// "after" attributes, so the client may keep its cache (RFC 1813 §2.6). The later sync
		// needs no lock, and waits for a disk.
		lock := q.x.locks.lock(&q.ref)
		var err error
		res.Count, err = q.write(&w, a, &res.Wcc.Before)
		res.Wcc.After = q.post()
		q.x.locks.unlock(lock)
		if err != nil || a.Stable == nfs3.Unstable {
			return err
		}
		res.Committed = a.Stable
		if err := q.x.stable(&q.ref, a.Stable == nfs3.DataSync); err != nil {
			return err
		}
		if res.Verf == q.x.written.get() {
			return nil
		}
		// Another call's sync on this export failed meanwhile, and this data may be lost too.
	}
	return nfs3.ErrIO
}

// short reports whether a WRITE takes some microseconds. Few bytes that need not be stable, to a
// file in use on a disk of this machine, are copied to the kernel's memory. The copy is quick
// unless the kernel already has too much data to write.
func (q *request) short(a *nfs3.WriteArgs) bool {
	return a.Count <= quickWrite && a.Stable == nfs3.Unstable && q.quick() && q.srv.knowsUser(q.call)
}

// write does WRITE and returns the count of bytes written; o's lock is held.
func (o *object) write(w *Cred, a *nfs3.WriteArgs, before *nfs3.PreOpAttr) (uint32, error) {
	at, err := o.attr()
	if err != nil {
		return 0, err
	}
	*before = o.before(&at)
	limit := o.x.info.MaxFileSize
	switch {
	case o.may.readOnly:
		return 0, nfs3.ErrROFS
	case at.Type == TypeDir:
		return 0, nfs3.ErrIsDir
	// The wire form has count and data length separately (RFC 1813 §3.3.7), and over RDMA the data
	// came in a chunk.
	case at.Type != TypeReg || uint64(a.Count) != uint64(len(a.Data)):
		return 0, nfs3.ErrInval
	case a.Offset > limit || uint64(a.Count) > limit-a.Offset:
		return 0, nfs3.ErrFBig
	}
	n, err := o.x.fs.WriteAt(*w, o.ref, a.Data[:min(len(a.Data), MaxIO)], a.Offset)
	return uint32(n), err
}

// commit syncs the whole file for any range, because FS has no call for a range. It checks write
// permission, so other callers cannot keep the disk busy.
func commit(q *request, _ *nfs3.CommitArgs, res *nfs3.CommitRes) error {
	at, err := q.attr()
	if err != nil {
		return err
	}
	commitWcc(res, &at)
	switch {
	case at.Type == TypeDir:
		return nfs3.ErrIsDir
	case at.Type != TypeReg:
		return nfs3.ErrInval
	case q.may.readOnly:
		return nfs3.ErrROFS
	}
	if _, err := q.x.fs.WriteAt(q.who(), q.ref, nil, 0); err != nil {
		return err
	}
	if err := q.x.stable(&q.ref, false); err != nil {
		return err
	}
	res.Verf = q.x.written.get() // after the sync: an earlier failed sync may have lost this data
	if at, err = q.attr(); err != nil {
		res.Wcc = nfs3.WccData{}
		return nil
	}
	if q.x.info.SyncSetsTimes {
		res.Wcc.After = postOp(&at)
	} else {
		commitWcc(res, &at)
	}
	return nil
}

// commitWcc sets the same attributes before and after in a COMMIT's reply. COMMIT changes no
// attributes, but others may change them while COMMIT waits for the disk. With the earlier
// attributes as "before" the client would mistake others' writes for its own, and keep its cache
// (RFC 1813 §2.6).
func commitWcc(res *nfs3.CommitRes, at *Attr) {
	res.Wcc = nfs3.WccData{Before: preOp(at), After: postOp(at)}
}
