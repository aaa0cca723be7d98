// GETATTR, SETATTR and ACCESS (RFC 1813 §3.3.1, §3.3.2, §3.3.4).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func (s *Server) getattr(c *transport.Call) error {
	var a nfs3.GetattrArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.GetattrRes
	o, err := s.open(&a.FH)
	if err == nil {
		var at Attr
		at, err = o.getattr()
		res.Attr = fattr(&at)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

func (s *Server) setattr(c *transport.Call) error {
	var a nfs3.SetattrArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.SetattrRes
	o, err := s.open(&a.FH)
	if err == nil {
		w := s.who(c)
		lock := o.x.locks.lock(&o.ref)
		err = s.doSetattr(&o, &w, &a, &res.Wcc.Before)
		res.Wcc.After = o.post()
		o.x.locks.unlock(lock)
		err = s.settle(err, o.x, &o.ref)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// doSetattr does SETATTR under the lock of o.
func (s *Server) doSetattr(o *object, w *Cred, a *nfs3.SetattrArgs, before *nfs3.PreOpAttr) error {
	at, err := o.getattr()
	if err != nil {
		return err
	}
	*before = preOp(&at)
	set, err := setAttr(&a.Attr)
	switch {
	case err != nil:
		return err
	case o.x.readOnly:
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

// settle brings changed objects to stable storage, if the change went well:
// SETATTR and the operations on names are not done before (RFC 1813 §4.8).
func (s *Server) settle(err error, x *export, changed ...*Ref) error {
	if err != nil || !s.sync {
		return err
	}
	for _, r := range changed {
		if err := x.stable(r, false); err != nil && status(err) != nfs3.ErrStale {
			return err
		}
	}
	return nil
}

func (s *Server) access(c *transport.Call) error {
	var a nfs3.AccessArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.AccessRes
	o, err := s.open(&a.FH)
	if err == nil {
		var at Attr
		if at, err = o.getattr(); err == nil {
			res.Access, err = o.access(s.who(c), &at, a.Access)
			res.Attr = postOp(&at)
		}
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// access returns those of the ACCESS bits want (RFC 1813 §3.3.4) that w has on o,
// which has attributes at. A read-only export lets nobody change what it holds,
// but devices and FIFOs lead elsewhere.
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
	if o.x.readOnly && at.Type != TypeChar && at.Type != TypeBlock && at.Type != TypeFIFO {
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
