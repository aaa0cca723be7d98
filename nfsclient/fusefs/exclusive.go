// Making a file that nobody else has made (O_EXCL): in one call where the server keeps times as
// they are set.
//
// A CREATE whose reply was lost is sent again, and a server that has forgotten the first finds a
// file which it has made for this very call. EXCLUSIVE tells that file from another's by a
// verifier, but brings no attributes, so that a SETATTR has to follow (RFC 1813 §3.3.8). GUARDED
// brings them, and there the access time does what the verifier does: it is of the second before,
// and at which nanosecond of it is drawn anew for each attempt.

package fusefs

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// timesKept is whether the server keeps times of the file system fsid as they are set.
type timesKept struct {
	fsid uint64
	kept bool
}

// createExclusive makes a regular file that must not be there, and is nobody else's.
func (r *request) createExclusive(dir *node, name string, attr nfs3.Sattr) (*node, error) {
	attr.AtimeHow, attr.Atime = nfs3.SetToClientTime, nfs3.MakeTime(time.Now().Add(-mathrand.N(time.Second)))
	args := nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}, Mode: nfs3.Guarded, Attr: attr}
	in, _ := dir.snapshot()
	if t := r.fs.times.Load(); t != nil && t.kept && t.fsid == in.Fsid {
		return r.createMarked(dir, name, &args)
	}
	args.Mode = nfs3.Exclusive
	_, _ = rand.Read(args.Verf[:]) // never fails
	n, err := r.make(dir, name, nfs3.ProcCreate, &args)
	if isStatus(err, nfs3.ErrNotSupp) {
		args.Mode = nfs3.Guarded
		return r.make(dir, name, nfs3.ProcCreate, &args)
	}
	if err != nil {
		return nil, err
	}
	attr.MtimeHow = nfs3.SetToServerTime // servers keep the verifier in the times
	if err = r.fs.callSetattr(r, r.who, n, &attr); err == nil {
		err = r.fresh(n)
	}
	if err != nil {
		r.fs.table.forget(n.id, 1)
		return nil, err
	}
	is, _ := n.snapshot()
	if t := r.fs.times.Load(); t == nil || t.fsid != is.Fsid {
		r.fs.times.Store(&timesKept{is.Fsid, is.Atime == attr.Atime})
	}
	return n, nil
}

// createMarked is CREATE of a file that is known by its access time. A name that exists is ours if
// the file has that: then the call was carried out before, and its reply lost.
func (r *request) createMarked(dir *node, name string, args *nfs3.CreateArgs) (*node, error) {
	n, err := r.make(dir, name, nfs3.ProcCreate, args)
	if err == nil {
		if is, _ := n.snapshot(); is.Atime != args.Attr.Atime {
			r.fs.times.Store(&timesKept{is.Fsid, false}) // SETATTR sets them, CREATE does not
		}
		return n, nil
	}
	if !isStatus(err, nfs3.ErrExist) {
		return nil, err
	}
	n, lookup := r.lookup(dir, name)
	if lookup != nil {
		return nil, err
	}
	if is, _ := n.snapshot(); is.Type == nfs3.TypeReg && is.Atime == args.Attr.Atime {
		return n, nil
	}
	r.fs.table.forget(n.id, 1)
	return nil, err
}
