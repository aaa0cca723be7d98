// Making a file exclusively (O_EXCL): in one call if the server keeps times as set.
//
// A CREATE with a lost reply is sent again. If the server has forgotten the first call, the second
// call finds the file made by the first. EXCLUSIVE recognizes its own file by a verifier, but
// returns no attributes and needs a SETATTR afterwards (RFC 1813 §3.3.8). GUARDED returns
// attributes, and the access time can serve as verifier: a new random nanosecond for each attempt,
// within the last second.

package fusefs

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// timesKept records whether the server keeps times in the file system fsid as set.
type timesKept struct {
	fsid uint64
	kept bool
}

// createExclusive makes a regular file; an existing file of another client is an error.
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

// createMarked sends a CREATE marked by the access time. If the name exists with this time, an
// earlier transmission of the call made it and its reply was lost.
func (r *request) createMarked(dir *node, name string, args *nfs3.CreateArgs) (*node, error) {
	n, err := r.make(dir, name, nfs3.ProcCreate, args)
	if err == nil {
		if is, _ := n.snapshot(); is.Atime != args.Attr.Atime {
			r.fs.times.Store(&timesKept{is.Fsid, false}) // SETATTR keeps times, but CREATE does not
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
