// Attribute changes. The tree gets them first; those that it does not take are kept beside it.

package tree

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Setattr sets size, owner, mode and times.
func (f *FS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	f.names.RLock()
	defer f.names.RUnlock()
	f.attrs.Lock()
	defer f.attrs.Unlock()
	o, err := f.get(&r)
	if err != nil {
		return err
	}
	if s.Has(nfsserver.SetSize) {
		switch {
		case o.attr.Type == nfsserver.TypeDir:
			return syscall.EISDIR
		case o.attr.Type != nfsserver.TypeReg:
			return syscall.EINVAL
		case s.Size > f.info.MaxFileSize:
			return syscall.EFBIG
		}
	}
	if f.ro {
		return syscall.EROFS
	}
	if err := o.rights().MaySet(&c, s); err != nil {
		return err
	}
	if s.Has(nfsserver.SetSize) {
		if err := f.truncate(&o, s.Size); err != nil {
			return err
		}
		f.touched(o.id)
		o.attr.Mtime = nfsserver.Now()
	}
	set := *s
	perm.SettleMode(&c, o.attr, &set)
	return f.apply(&o, &set)
}

func (f *FS) truncate(o *object, size uint64) error {
	x, err := f.file(o, true)
	if err != nil {
		return err
	}
	defer f.files.release(x)
	return x.alone(func() error { return x.Truncate(int64(size)) })
}

// apply sets owner, mode and times on o, which has its present attributes. names and attrs are
// held, or o is new.
func (f *FS) apply(o *object, s *nfsserver.SetAttr) error {
	want := o.attr
	if s.Has(nfsserver.SetUID) {
		want.UID = s.UID
	}
	if s.Has(nfsserver.SetGID) {
		want.GID = s.GID
	}
	if s.Has(nfsserver.SetMode) && want.Type != nfsserver.TypeSymlink {
		want.Mode = s.Mode & nfsserver.ModeAll
	}
	now := nfsserver.Now()
	setTime(&want.Atime, s.Has(nfsserver.SetAtime), s.Atime, s.Has(nfsserver.SetAtimeNow), now)
	setTime(&want.Mtime, s.Has(nfsserver.SetMtime), s.Mtime, s.Has(nfsserver.SetMtimeNow), now)
	if want.Type != nfsserver.TypeSymlink {
		if err := f.give(o, &want, s.HasTimes()); err != nil {
			return err
		}
	}
	info, err := f.b.Stat(o.path)
	if err != nil {
		return err
	}
	o.info = info
	f.keep(o, &want, s.Has(nfsserver.SetMtime|nfsserver.SetMtimeNow))
	o.attr = f.attr(o.id, o.path, o.info)
	return nil
}

func setTime(t *nfsserver.Time, set bool, v nfsserver.Time, setNow bool, now nfsserver.Time) {
	switch {
	case set:
		*t = v
	case setNow:
		*t = now
	}
}

// give sets the attributes in the tree which differ, as far as the tree has methods for them.
func (f *FS) give(o *object, want *nfsserver.Attr, times bool) error {
	have := f.base(o.id, o.path, o.info)
	chowned := want.UID != have.UID || want.GID != have.GID
	if chowned {
		if err := f.b.Chown(o.path, int(want.UID), int(want.GID)); err != nil && !unsupported(err) {
			return err
		}
	}
	if want.Mode != have.Mode || chowned { // a kernel's chown clears set-id bits
		if err := f.b.Chmod(o.path, goMode(want.Mode)); err != nil && !unsupported(err) {
			return err
		}
	}
	if times {
		if err := f.b.Chtimes(o.path, goTime(want.Atime), goTime(want.Mtime)); err != nil && !unsupported(err) {
			return err
		}
	}
	return nil
}

// keep notes the wanted attributes that the tree does not show. mtime reports whether mtime was
// set, too.
func (f *FS) keep(o *object, want *nfsserver.Attr, mtime bool) {
	have := f.base(o.id, o.path, o.info)
	now := nsOf(nfsserver.Now())
	f.table.Keep(o.id, func(k *pathtree.Kept) {
		k.Mask &= pathtree.KeptMtime
		if have.Mode != want.Mode {
			k.Mask, k.Mode = k.Mask|pathtree.KeptMode, want.Mode
		}
		if have.UID != want.UID || have.GID != want.GID {
			k.Mask, k.UID, k.GID = k.Mask|pathtree.KeptOwner, want.UID, want.GID
		}
		if have.Atime != want.Atime {
			k.Mask, k.Atime = k.Mask|pathtree.KeptAtime, nsOf(want.Atime)
		}
		if mtime {
			k.Mask, k.MtimeMin = k.Mask&^pathtree.KeptMtime, 0
			if have.Mtime != want.Mtime {
				k.Mask, k.Mtime, k.TreeMtime = k.Mask|pathtree.KeptMtime, nsOf(want.Mtime), f.mtime(o.info)
			}
		}
		k.CtimeMin = now
	})
}
