// LOOKUP and READLINK (RFC 1813 §3.3.3, §3.3.5), and the check of names.

package nfsserver

import (
	"bytes"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// checkName checks a file name. An empty name, or one with bytes that no name can have, is
// NFS3ERR_ACCES (RFC 1813 §3.2, points 1 and 5).
func checkName(x *export, name []byte) error {
	switch {
	case len(name) == 0 || bytes.ContainsAny(name, "/\x00"):
		return nfs3.ErrAcces
	case len(name) > int(x.info.NameMax):
		return nfs3.ErrNameTooLong
	}
	return nil
}

func dots(name []byte) bool { return string(name) == "." || string(name) == ".." }

// lookup reads the directory's attributes before it looks up the name. A client that caches the
// name until these attributes change then misses no change of the name.
func lookup(q *request, a *nfs3.LookupArgs, res *nfs3.LookupRes) error {
	if err := q.busyUnlessQuick(true); err != nil {
		return err
	}
	dir, err := q.attr()
	if err != nil {
		return err
	}
	res.DirAttr = postOp(&dir)
	if dir.Type != TypeDir {
		return nfs3.ErrNotDir
	}
	if err := checkName(q.x, a.Name); err != nil {
		return err
	}
	// The name aliases the call's buffer, which stays unchanged until this procedure returns.
	name := unsafe.String(&a.Name[0], len(a.Name))
	r, at, err := q.find(name)
	x := q.x
	if err == nil && q.entry.nested != nil {
		if other, otherRef, otherAt, ok, err := q.cross(name, &dir); err != nil {
			return err
		} else if ok {
			x, r, at = other, otherRef, otherAt
		}
	}
	if err == nil {
		if res.FH, res.Attr = q.srv.fh(x, &r), postOp(&at); res.FH.Len() == 0 {
			return nfs3.ErrServerFault
		}
	}
	return err
}

// find looks up a name in the directory.
func (q *request) find(name string) (Ref, Attr, error) {
	w := q.who()
	if q.x.opt.now != nil && !q.call.IsBusy() {
		if r, at, ok := q.x.opt.now.LookupInUse(w, q.ref, name); ok {
			return r, at, nil
		}
	}
	if err := q.call.Busy(); err != nil {
		return Ref{}, Attr{}, err
	}
	return q.x.fs.Lookup(w, q.ref, name)
}

func readlink(q *request, _ *nfs3.ReadlinkArgs, res *nfs3.ReadlinkRes) error {
	target, err := q.x.fs.Readlink(q.who(), q.ref)
	if err == nil {
		if res.Path = q.call.Buffer(len(target)); res.Path == nil {
			err = ErrBusy
		}
		copy(res.Path, target)
	}
	res.Attr = q.post()
	return err
}
