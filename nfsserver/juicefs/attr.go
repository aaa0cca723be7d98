// Attributes.

package juicefs

import (
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Getattr returns the attributes, including the effect of buffered writes.
func (f *FS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	ino, t, err := f.parse(&r)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	a, err := f.attrOf(ino)
	if err == nil && a.Type != t {
		err = nfsserver.ErrStale
	}
	if err != nil {
		return nfsserver.Attr{}, err
	}
	return a, nil
}

// attrOf is Getattr by inode number.
func (f *FS) attrOf(ino meta.Ino) (nfsserver.Attr, error) {
	a, _, err := f.files.getattr(ino)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	var n inode
	f.fill(&n, ino, &a)
	return n.attr, nil
}

// Access returns c's share of the permissions want.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (have uint32, err error) {
	n, err := f.load(&r)
	if err != nil {
		return 0, err
	}
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if want&bit != 0 && n.rights().May(&c, bit) {
			have |= bit
		}
	}
	return have, nil
}

// Setattr sets the size first, then the rest.
func (f *FS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	n, err := f.load(&r)
	if err != nil {
		return err
	}
	if s.Has(nfsserver.SetSize) {
		switch {
		case n.attr.Type == nfsserver.TypeDir:
			return syscall.EISDIR
		case n.attr.Type != nfsserver.TypeReg:
			return syscall.EINVAL
		case s.Size > maxFileSize:
			return syscall.EFBIG
		}
	}
	if err := n.rights().MaySet(&c, s); err != nil || s.Mask == 0 {
		return err
	}
	set := *s
	perm.SettleMode(&c, n.attr, &set)
	if !s.Has(nfsserver.SetMode|nfsserver.SetUID|nfsserver.SetGID) && set.Mode == n.attr.Mode {
		set.Mask &^= nfsserver.SetMode // another server may have set it meanwhile
	}
	if s.Has(nfsserver.SetSize) {
		o := f.files.use(n.ino)
		err := o.resize(s.Size)
		f.files.release(o)
		if err != nil {
			return err
		}
	}
	return f.apply(n, &set)
}

// apply sets the attributes in s except the size. If the caller sets an owner or group in s, it
// sets the mode, too.
func (f *FS) apply(n *inode, s *nfsserver.SetAttr) error {
	if s.HasTimes() && n.attr.Type == nfsserver.TypeReg {
		f.files.settle(n.ino) // a later commit would set the time of its write
	}
	mask, a := wanted(s)
	mode := n.attr.Mode
	if mask != 0 {
		got := a
		if no := f.m.SetAttr(system, n.ino, mask, 0, &got); no != 0 {
			return failedOn(no)
		}
		mode = uint32(got.Mode) & nfsserver.ModeAll // without set-id bits after a change of owner
	}
	if n.attr.Type == nfsserver.TypeSymlink {
		return nil // has no mode
	}
	if !s.Has(nfsserver.SetMode) || mode == s.Mode {
		return nil
	}
	return f.set(n.ino, meta.SetAttrMode, &meta.Attr{Mode: uint16(s.Mode)})
}

// wanted converts s, without size and mode, to JuiceFS's form.
func wanted(s *nfsserver.SetAttr) (mask uint16, a meta.Attr) {
	set := func(m nfsserver.SetMask, bit uint16) {
		if s.Has(m) {
			mask |= bit
		}
	}
	set(nfsserver.SetUID, meta.SetAttrUID)
	set(nfsserver.SetGID, meta.SetAttrGID)
	set(nfsserver.SetAtime, meta.SetAttrAtime)
	set(nfsserver.SetMtime, meta.SetAttrMtime)
	set(nfsserver.SetAtimeNow, meta.SetAttrAtimeNow)
	set(nfsserver.SetMtimeNow, meta.SetAttrMtimeNow)
	a.Uid, a.Gid = s.UID, s.GID
	a.Atime, a.Atimensec, a.Mtime, a.Mtimensec = s.Atime.Sec, s.Atime.Nsec, s.Mtime.Sec, s.Mtime.Nsec
	return mask, a
}

// set sets attributes by inode number.
func (f *FS) set(ino meta.Ino, mask uint16, a *meta.Attr) error {
	if mask&meta.SetAttrUID != 0 && !f.keeps(a.Uid) || mask&meta.SetAttrGID != 0 && !f.keeps(a.Gid) {
		return syscall.EINVAL
	}
	return failedOn(f.m.SetAttr(system, ino, mask, 0, a))
}
