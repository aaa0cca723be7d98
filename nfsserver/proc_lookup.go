// LOOKUP and READLINK (RFC 1813 §3.3.3, §3.3.5), and what a name may be.

package nfsserver

import (
	"bytes"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// checkName judges a file name: an empty one, or one with octets that no name
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

func (s *Server) lookup(c *transport.Call) error {
	var a nfs3.LookupArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.LookupRes
	o, err := s.open(&a.Dir)
	if err == nil {
		w := s.who(c)
		err = s.doLookup(&o, &w, a.Name, &res)
		res.DirAttr = o.post()
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

func (s *Server) doLookup(o *object, w *Cred, name []byte, res *nfs3.LookupRes) error {
	dir, err := o.getattr()
	switch {
	case err != nil:
		return err
	case dir.Type != TypeDir:
		return nfs3.ErrNotDir
	}
	if err := checkName(o.x, name); err != nil {
		return err
	}
	r, at, err := o.x.fs.Lookup(*w, o.ref, string(name))
	if err != nil {
		return err
	}
	res.FH = s.fh(o.x, &r)
	res.Attr = postOp(&at)
	return nil
}

func (s *Server) readlink(c *transport.Call) error {
	var a nfs3.ReadlinkArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.ReadlinkRes
	o, err := s.open(&a.FH)
	if err == nil {
		var target string
		if target, err = o.x.fs.Readlink(s.who(c), o.ref); err == nil {
			if res.Path = c.Buffer(len(target)); res.Path == nil {
				err = ErrBusy
			}
			copy(res.Path, target)
		}
		res.Attr = o.post()
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}
