// REMOVE, RMDIR, RENAME and LINK (RFC 1813 §3.3.12 to §3.3.15).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// changeable checks that names in directory o may change at all, and that name is one.
func (o *object) changeable(name []byte, before *nfs3.PreOpAttr) error {
	at, err := o.getattr()
	if err != nil {
		return err
	}
	*before = preOp(&at)
	if at.Type != TypeDir {
		return nfs3.ErrNotDir
	}
	if err := checkName(o.x, name); err != nil {
		return err
	}
	if o.x.readOnly {
		return nfs3.ErrROFS
	}
	return nil
}

func (s *Server) remove(c *transport.Call) error { return s.unlink(c, false) }
func (s *Server) rmdir(c *transport.Call) error  { return s.unlink(c, true) }

// unlink is REMOVE and RMDIR.
func (s *Server) unlink(c *transport.Call, isDir bool) error {
	var a nfs3.RemoveArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.RemoveRes
	o, err := s.open(&a.Dir)
	if err == nil {
		w := s.who(c)
		lock := o.x.locks.lock(&o.ref)
		err = o.unlink(&w, a.Name, isDir, &res.Wcc.Before)
		res.Wcc.After = o.post()
		o.x.locks.unlock(lock)
		err = s.settle(err, o.x, &o.ref)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// unlink does REMOVE or RMDIR under the lock of the directory.
func (o *object) unlink(w *Cred, name []byte, isDir bool, before *nfs3.PreOpAttr) error {
	if err := o.changeable(name, before); err != nil {
		return err
	}
	switch {
	case string(name) == "." && isDir:
		return nfs3.ErrInval // RFC 1813 §3.3.13
	case string(name) == ".." && isDir:
		return nfs3.ErrExist // the same
	case dots(name):
		return nfs3.ErrIsDir
	}
	if isDir {
		return o.x.fs.Rmdir(*w, o.ref, string(name))
	}
	return o.x.fs.Remove(*w, o.ref, string(name))
}

func (s *Server) rename(c *transport.Call) error {
	var a nfs3.RenameArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.RenameRes
	from, to, err := s.openPair(&a.From.Dir, &a.To.Dir)
	if err == nil {
		w := s.who(c)
		unlock := from.x.locks.pair(&from.ref, &to.ref)
		err = rename(&from, &to, &w, &a, &res)
		res.FromWcc.After, res.ToWcc.After = from.post(), to.post()
		unlock()
		err = s.settle(err, from.x, &to.ref, &from.ref)
	} else {
		res.FromWcc.After = from.post()
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// openPair finds the two objects of a RENAME or LINK, which must be of one export. The
// call has a worker of the first one's export (place), so nothing is asked of the file system
// of another: on an error, b is not to be used, and a only if its handle was good.
func (s *Server) openPair(first, second *nfs3.FH) (a, b object, err error) {
	if a, err = s.open(first); err != nil {
		return object{}, object{}, err
	}
	if b, err = s.open(second); err == nil && a.x != b.x {
		err = nfs3.ErrXDev
	}
	if err != nil {
		b = object{}
	}
	return a, b, err
}

// rename does RENAME under the locks of both directories.
func rename(from, to *object, w *Cred, a *nfs3.RenameArgs, res *nfs3.RenameRes) error {
	err := from.changeable(a.From.Name, &res.FromWcc.Before)
	err2 := to.changeable(a.To.Name, &res.ToWcc.Before)
	switch {
	case err != nil:
		return err
	case err2 != nil:
		return err2
	case dots(a.From.Name) || dots(a.To.Name):
		return nfs3.ErrInval // RFC 1813 §3.3.14
	}
	// What is in the way gives ISDIR, NOTDIR or NOTEMPTY, as POSIX callers expect.
	return from.x.fs.Rename(*w, from.ref, string(a.From.Name), to.ref, string(a.To.Name))
}

func (s *Server) link(c *transport.Call) error {
	var a nfs3.LinkArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.LinkRes
	o, dir, err := s.openPair(&a.FH, &a.Link.Dir)
	if err == nil {
		w := s.who(c)
		unlock := dir.x.locks.pair(&dir.ref, &o.ref) // the file's times and link count change, too
		err = link(&o, &dir, &w, a.Link.Name, &res.DirWcc.Before)
		res.DirWcc.After = dir.post()
		unlock()
		err = s.settle(err, dir.x, &dir.ref, &o.ref)
	}
	res.Attr = o.post()
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// link does LINK under the locks of file and directory.
func link(o, dir *object, w *Cred, name []byte, before *nfs3.PreOpAttr) error {
	if err := dir.changeable(name, before); err != nil {
		return err
	}
	at, err := o.getattr()
	switch {
	case err != nil:
		return err
	case dots(name):
		return nfs3.ErrExist
	case at.Type == TypeDir:
		return nfs3.ErrInval
	case !o.x.info.HardLinks:
		return nfs3.ErrNotSupp
	}
	return o.x.fs.Link(*w, o.ref, dir.ref, string(name))
}
