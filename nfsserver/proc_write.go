// WRITE and COMMIT (RFC 1813 §3.3.7, §3.3.21).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// writeTries is how often a write that is to be stable is done while syncs of
// others fail beside it.
const writeTries = 3

// write writes the data from where it has arrived, over RDMA the buffer that it was
// pulled into, and brings it to where the client wants it.
func write(q *request, a *nfs3.WriteArgs, res *nfs3.WriteRes) error {
	w := q.who()
	for range writeTries {
		res.Verf = q.x.written.get() // before the data: if it changes meanwhile the client sends again
		// For the attributes of before and after: no other call of ours changes the file between
		// them, so the client may keep its cache (RFC 1813 §2.6). The sync that follows needs no
		// lock, and waits for a disk.
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
		// A sync of another call on this export has failed since, and may have lost these bytes
		// too.
	}
	return nfs3.ErrIO
}

// write does WRITE under the lock of o and returns how many bytes it took.
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
	// Count and the length of data are told apart on the wire (RFC 1813 §3.3.7), and over RDMA the
	// data came by a chunk.
	case at.Type != TypeReg || uint64(a.Count) != uint64(len(a.Data)):
		return 0, nfs3.ErrInval
	case a.Offset > limit || uint64(a.Count) > limit-a.Offset:
		return 0, nfs3.ErrFBig
	}
	n, err := o.x.fs.WriteAt(*w, o.ref, a.Data[:min(len(a.Data), MaxIO)], a.Offset)
	return uint32(n), err
}

// commit syncs the whole file, whatever the range asked for: there is no finer
// call. A caller without permission to write must not keep the disk busy either.
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
	res.Verf = q.x.written.get() // after: a sync that failed before ours has lost what ours did not find
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

// commitWcc gives a COMMIT's reply the same attributes before and after: it changes none, and while
// it waits for the disk others may. Were those of its beginning told as before, its client would
// take what others have written meanwhile for its own, and keep its cache (RFC 1813 §2.6).
func commitWcc(res *nfs3.CommitRes, at *Attr) {
	res.Wcc = nfs3.WccData{Before: preOp(at), After: postOp(at)}
}
