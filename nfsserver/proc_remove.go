// REMOVE, RMDIR, RENAME and LINK (RFC 1813 §3.3.12 to §3.3.15).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// changeable checks that w may change the names of directory o, and that name is one.
func (o *object) changeable(w *Cred, name []byte, before *nfs3.PreOpAttr) (Attr, error) {
	at, err := o.getattr()
	if err != nil {
		return at, err
	}
	*before = preOp(&at)
	if at.Type != TypeDir {
		return at, nfs3.ErrNotDir
	}
	if err := checkName(o.x, name); err != nil {
		return at, err
	}
	switch {
	case o.x.readOnly:
		return at, nfs3.ErrROFS
	case !w.mayChangeDir(&at):
		return at, nfs3.ErrAcces
	}
	return at, nil
}

// unlinkable checks that a sticky directory lets w take name away.
func (o *object) unlinkable(w *Cred, dir *Attr, name string) error {
	if dir.Mode&ModeSticky == 0 || w.owns(dir) {
		return nil
	}
	_, at, err := o.x.fs.Lookup(*w, o.ref, name)
	if err == nil && !w.mayUnlink(dir, &at) {
		return nfs3.ErrPerm
	}
	return err
}

// movable checks that w may move name to another directory: for a directory that
// means to change its "..", and so takes the right to write to it.
func (o *object) movable(w *Cred, name string) error {
	if w.root() {
		return nil
	}
	_, at, err := o.x.fs.Lookup(*w, o.ref, name)
	if err == nil && at.Type == TypeDir && !w.may(&at, mayWrite) {
		return nfs3.ErrAcces
	}
	return err
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
		mu := s.locks.of(&o.ref)
		mu.Lock()
		err = o.unlink(&w, a.Name, isDir, &res.Wcc.Before)
		res.Wcc.After = o.post()
		mu.Unlock()
		err = s.settle(err, o.x, &o.ref)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// unlink does REMOVE or RMDIR under the lock of the directory.
func (o *object) unlink(w *Cred, name []byte, isDir bool, before *nfs3.PreOpAttr) error {
	dir, err := o.changeable(w, name, before)
	switch {
	case err != nil:
		return err
	case string(name) == "." && isDir:
		return nfs3.ErrInval // RFC 1813 §3.3.13
	case string(name) == ".." && isDir:
		return nfs3.ErrExist // the same
	case dots(name):
		return nfs3.ErrIsDir
	}
	n := string(name)
	if err := o.unlinkable(w, &dir, n); err != nil {
		return err
	}
	if isDir {
		return o.x.fs.Rmdir(*w, o.ref, n)
	}
	return o.x.fs.Remove(*w, o.ref, n)
}

func (s *Server) rename(c *transport.Call) error {
	var a nfs3.RenameArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.RenameRes
	from, err := s.open(&a.From.Dir)
	to, err2 := s.open(&a.To.Dir)
	if err == nil {
		err = err2
	}
	if err == nil {
		w := s.who(c)
		unlock := s.locks.pair(&from.ref, &to.ref)
		err = rename(&from, &to, &w, &a, &res)
		res.FromWcc.After, res.ToWcc.After = from.post(), to.post()
		unlock()
		err = s.settle(err, from.x, &to.ref, &from.ref)
	} else {
		res.FromWcc.After, res.ToWcc.After = from.post(), to.post()
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// rename does RENAME under the locks of both directories.
func rename(from, to *object, w *Cred, a *nfs3.RenameArgs, res *nfs3.RenameRes) error {
	src, err := from.changeable(w, a.From.Name, &res.FromWcc.Before)
	dst, err2 := to.changeable(w, a.To.Name, &res.ToWcc.Before)
	switch {
	case err != nil:
		return err
	case err2 != nil:
		return err2
	case from.x != to.x:
		return nfs3.ErrXDev
	case dots(a.From.Name) || dots(a.To.Name):
		return nfs3.ErrInval // RFC 1813 §3.3.14
	}
	old, name := string(a.From.Name), string(a.To.Name)
	if err := from.unlinkable(w, &src, old); err != nil {
		return err
	}
	if err := to.unlinkable(w, &dst, name); err != nil && status(err) != nfs3.ErrNoEnt {
		return err
	}
	if from.ref != to.ref {
		if err := from.movable(w, old); err != nil {
			return err
		}
	}
	// What is in the way gives ISDIR, NOTDIR or NOTEMPTY, as POSIX callers expect.
	return from.x.fs.Rename(*w, from.ref, old, to.ref, name)
}

func (s *Server) link(c *transport.Call) error {
	var a nfs3.LinkArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.LinkRes
	o, err := s.open(&a.FH)
	dir, err2 := s.open(&a.Link.Dir)
	if err == nil {
		err = err2
	}
	if dir.x != nil {
		w := s.who(c)
		mu := s.locks.of(&dir.ref)
		mu.Lock()
		if err == nil {
			err = link(&o, &dir, &w, a.Link.Name, &res.DirWcc.Before)
		}
		res.DirWcc.After = dir.post()
		mu.Unlock()
		err = s.settle(err, dir.x, &dir.ref, &o.ref)
	}
	res.Attr = o.post()
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// link does LINK under the lock of the directory.
func link(o, dir *object, w *Cred, name []byte, before *nfs3.PreOpAttr) error {
	_, err := dir.changeable(w, name, before)
	if err != nil {
		return err
	}
	at, err := o.getattr()
	switch {
	case err != nil:
		return err
	case o.x != dir.x:
		return nfs3.ErrXDev
	case dots(name):
		return nfs3.ErrExist
	case at.Type == TypeDir:
		return nfs3.ErrInval
	case !o.x.info.HardLinks:
		return nfs3.ErrNotSupp
	}
	return o.x.fs.Link(*w, o.ref, dir.ref, string(name))
}
