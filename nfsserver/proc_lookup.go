// LOOKUP and READLINK (RFC 1813 §3.3.3, §3.3.5), and what a name may be.

package nfsserver

import (
	"bytes"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// checkName checks a file name: an empty one, or one with bytes that no name
// can have, is NFS3ERR_ACCES (RFC 1813 §3.2, points 1 and 5).
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

func lookup(q *request, a *nfs3.LookupArgs, res *nfs3.LookupRes) error {
	r, at, err := q.find(a.Name)
	if err == nil {
		res.FH, res.Attr = q.srv.fh(q.x, &r), postOp(&at)
	}
	res.DirAttr = q.post()
	return err
}

// find looks a name up in the object, which must be a directory.
func (q *request) find(name []byte) (Ref, Attr, error) {
	dir, err := q.attr()
	switch {
	case err != nil:
		return Ref{}, Attr{}, err
	case dir.Type != TypeDir:
		return Ref{}, Attr{}, nfs3.ErrNotDir
	}
	if err := checkName(q.x, name); err != nil {
		return Ref{}, Attr{}, err
	}
	return q.x.fs.Lookup(q.who(), q.ref, string(name))
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
