// CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 §3.3.8 to §3.3.11).

package nfsserver

import (
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A making is one running call of CREATE, MKDIR, SYMLINK or MKNOD.
type making struct {
	dir  object
	who  Cred
	name string
	set  SetAttr
	cut  bool // the existing file is truncated after the directory is unlocked
}

// make runs one of the four procedures. After checking name and attributes, it calls do under the
// directory's lock.
func (q *request) make(where *nfs3.DirOpArgs, sattr *nfs3.Sattr, res *nfs3.CreateRes, do func(*making) (Ref, Attr, error)) error {
	m := making{dir: q.object, who: q.who()}
	var r Ref
	var at Attr
	lock := q.x.locks.lock(&q.ref)
	err := m.begin(where.Name, sattr, &res.DirWcc.Before)
	if err == nil {
		r, at, err = do(&m)
	}
	res.DirWcc.After = q.post()
	q.x.locks.unlock(lock)
	if err == nil && m.cut {
		at, err = m.setSize(&r)
	}
	if err = q.syncChanged(err, &r, &q.ref); err == nil {
		res.FH, res.Attr = q.srv.postOpFH(q.x, &r), postOp(&at)
	}
	return err
}

// begin checks directory, name and attributes.
func (m *making) begin(name []byte, sattr *nfs3.Sattr, before *nfs3.PreOpAttr) (err error) {
	at, err := m.dir.attr()
	if err != nil {
		return err
	}
	*before = m.dir.before(&at)
	if at.Type != TypeDir {
		return nfs3.ErrNotDir
	}
	if err := checkName(m.dir.x, name); err != nil {
		return err
	}
	if m.set, err = setAttr(sattr); err != nil {
		return err
	}
	switch {
	case m.dir.may.readOnly:
		return nfs3.ErrROFS
	case dots(name):
		return nfs3.ErrExist
	case m.set.Has(SetSize) && m.set.Size > m.dir.x.info.MaxFileSize:
		return nfs3.ErrFBig
	}
	m.name = string(name)
	return nil
}

func mkdir(q *request, a *nfs3.MkdirArgs, res *nfs3.MkdirRes) error {
	a.Attr.SetSize = false
	return q.make(&a.Where, &a.Attr, res, func(m *making) (Ref, Attr, error) {
		return m.dir.x.fs.Mkdir(m.who, m.dir.ref, m.name, &m.set)
	})
}

func symlink(q *request, a *nfs3.SymlinkArgs, res *nfs3.SymlinkRes) error {
	a.Attr.SetSize = false
	return q.make(&a.Where, &a.Attr, res, func(m *making) (Ref, Attr, error) {
		if err := checkTarget(a.Path); err != nil {
			return Ref{}, Attr{}, err
		}
		return m.dir.x.fs.Symlink(m.who, m.dir.ref, m.name, string(a.Path), &m.set)
	})
}

// checkTarget checks a symbolic link's text. Only the client interprets the text, but an empty
// text, or a text with a NUL, cannot be stored.
func checkTarget(p []byte) error {
	if len(p) == 0 {
		return nfs3.ErrInval
	}
	for _, c := range p {
		if c == 0 {
			return nfs3.ErrInval
		}
	}
	if len(p) >= nfs3.MaxPath {
		return nfs3.ErrNameTooLong
	}
	return nil
}

func mknod(q *request, a *nfs3.MknodArgs, res *nfs3.MknodRes) error {
	a.Attr.SetSize = false
	t := FileType(a.Type)
	return q.make(&a.Where, &a.Attr, res, func(m *making) (Ref, Attr, error) {
		return m.dir.x.fs.Mknod(m.who, m.dir.ref, m.name, t, Rdev{a.Rdev.Major, a.Rdev.Minor}, &m.set)
	})
}

func create(q *request, a *nfs3.CreateArgs, res *nfs3.CreateRes) error {
	return q.make(&a.Where, &a.Attr, res, func(m *making) (Ref, Attr, error) {
		if a.Mode == nfs3.Exclusive {
			m.set.Atime, m.set.Mtime = verfTimes(a.Verf)
			m.set.Mask |= SetAtime | SetMtime
		}
		for range 3 { // another program may remove the name in between
			r, at, err := m.dir.x.fs.Create(m.who, m.dir.ref, m.name, &m.set)
			if !errors.Is(err, syscall.EEXIST) || a.Mode == nfs3.Guarded {
				return r, at, err
			}
			r, at, err = m.reuse(a.Mode)
			if !errors.Is(err, syscall.ENOENT) {
				return r, at, err
			}
		}
		return Ref{}, Attr{}, ErrBusy
	})
}

// reuse is CREATE of an existing name. UNCHECKED takes an existing file, and truncates the file if
// the attributes require that. EXCLUSIVE takes only a file that the caller owns and an earlier
// transmission of the same call made.
func (m *making) reuse(mode nfs3.CreateMode) (Ref, Attr, error) {
	r, at, err := m.dir.x.fs.Lookup(m.who, m.dir.ref, m.name)
	if err != nil {
		return r, at, err
	}
	if at.Type != TypeReg {
		return r, at, nfs3.ErrExist
	}
	if mode == nfs3.Exclusive {
		if at.UID != m.who.UID || at.Size != 0 || at.Atime != m.set.Atime || at.Mtime != m.set.Mtime {
			return r, at, nfs3.ErrExist
		}
		return r, at, nil
	}
	m.cut = m.set.Has(SetSize)
	return r, at, nil
}

// setSize sets the size of the existing file r under the file's lock. Otherwise a concurrent WRITE
// could read old attributes before the change and new ones after. The directory's lock has been
// released, because two locks are taken in one order only.
func (m *making) setSize(r *Ref) (Attr, error) {
	fs := m.dir.x.fs
	locks := &m.dir.x.locks
	defer locks.unlock(locks.lock(r))
	set := SetAttr{Mask: SetSize | SetMtimeNow, Size: m.set.Size}
	err := fs.Setattr(m.who, *r, &set)
	if err == nil {
		var at Attr
		if at, err = fs.Getattr(*r); err == nil {
			return at, nil
		}
	}
	if status(err) == nfs3.ErrStale {
		err = ErrBusy // the name is gone: the repeated CREATE makes a file
	}
	return Attr{}, err
}
