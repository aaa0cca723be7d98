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
		mu := s.locks.of(&o.ref)
		mu.Lock()
		err = s.doSetattr(&o, &w, &a, &res.Wcc.Before)
		res.Wcc.After = o.post()
		mu.Unlock()
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
	if err := w.maySet(&at, &set); err != nil {
		return err
	}
	if mode, changed := w.killSetID(&at); set.Has(SetSize) && !set.Has(SetMode) && changed {
		set.Mask, set.Mode = set.Mask|SetMode, mode
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
		if err := s.stable(x, r, false); err != nil && status(err) != nfs3.ErrStale {
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
			w := s.who(c)
			res.Access = w.access(&at, a.Access, o.x.readOnly && at.Type != TypeChar && at.Type != TypeBlock && at.Type != TypeFIFO)
			res.Attr = postOp(&at)
		}
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}
