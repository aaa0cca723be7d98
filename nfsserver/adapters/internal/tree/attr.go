// Attributes: those of the tree, and those kept beside it.

package tree

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
)

// typeOf returns the type in an io/fs mode.
func typeOf(m fs.FileMode) nfsserver.FileType {
	switch {
	case m.IsDir():
		return nfsserver.TypeDir
	case m&fs.ModeSymlink != 0:
		return nfsserver.TypeSymlink
	case m&fs.ModeNamedPipe != 0:
		return nfsserver.TypeFIFO
	case m&fs.ModeSocket != 0:
		return nfsserver.TypeSocket
	case m&fs.ModeCharDevice != 0:
		return nfsserver.TypeChar
	case m&fs.ModeDevice != 0:
		return nfsserver.TypeBlock
	}
	return nfsserver.TypeReg
}

// modeOf converts an io/fs mode to NFS mode bits, and goMode the other way.
func modeOf(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, n := range modeBits {
		if m&bit != 0 {
			mode |= n
		}
	}
	return mode
}

func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, n := range modeBits {
		if mode&n != 0 {
			m |= bit
		}
	}
	return m
}

var modeBits = map[fs.FileMode]uint32{
	fs.ModeSetuid: nfsserver.ModeSetuid, fs.ModeSetgid: nfsserver.ModeSetgid, fs.ModeSticky: nfsserver.ModeSticky,
}

// timeOf converts nanoseconds since the Unix epoch; before 1970 there is no time on the wire.
func timeOf(ns int64) nfsserver.Time {
	ns = max(ns, 0)
	return nfsserver.Time{Sec: ns / 1e9, Nsec: uint32(ns % 1e9)}
}

func nsOf(t nfsserver.Time) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func goTime(t nfsserver.Time) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// mtime returns when the tree last changed the object, in nanoseconds.
func (f *FS) mtime(info fs.FileInfo) int64 {
	if t := info.ModTime(); f.timed && !t.IsZero() {
		return t.UnixNano()
	}
	return f.began
}

// base returns the attributes in the tree.
func (f *FS) base(id pathtree.ID, path string, info fs.FileInfo) nfsserver.Attr {
	t := timeOf(f.mtime(info))
	a := nfsserver.Attr{Type: typeOf(info.Mode()), Mode: modeOf(info.Mode()), Nlink: 1, UID: f.owner.UID, GID: f.owner.GID,
		Size: uint64(max(info.Size(), 0)), Fsid: f.fsid, Fileid: id.Fileid(), Atime: t, Mtime: t, Ctime: t}
	if a.Type == nfsserver.TypeDir {
		a.Nlink = 2
	}
	a.Used = (a.Size + 511) &^ 511
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.Nlink, a.UID, a.GID, a.Used = uint32(st.Nlink), st.Uid, st.Gid, uint64(st.Blocks)*512
		a.Atime, a.Ctime = timeOf(st.Atim.Nano()), timeOf(st.Ctim.Nano())
	}
	if a.Type == nfsserver.TypeSymlink {
		a.Mode = 0o777
		if target, err := f.b.Readlink(path); err == nil {
			a.Size = uint64(len(target))
		}
	}
	return a
}

// attr returns the attributes with those that are kept beside the tree.
func (f *FS) attr(id pathtree.ID, path string, info fs.FileInfo) nfsserver.Attr {
	a := f.base(id, path, info)
	k := f.table.Kept(id)
	if k.Mask&pathtree.KeptMode != 0 {
		a.Mode = k.Mode
	}
	if k.Mask&pathtree.KeptOwner != 0 {
		a.UID, a.GID = k.UID, k.GID
	}
	if k.Mask&pathtree.KeptAtime != 0 {
		a.Atime = timeOf(k.Atime)
	}
	if k.Mask&pathtree.KeptMtime != 0 && k.TreeMtime == f.mtime(info) {
		a.Mtime = timeOf(k.Mtime)
	} else if k.MtimeMin > nsOf(a.Mtime) {
		a.Mtime = timeOf(k.MtimeMin)
	}
	if k.CtimeMin > nsOf(a.Ctime) {
		a.Ctime = timeOf(k.CtimeMin)
	}
	return a
}

// Getattr returns the attributes.
func (f *FS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.get(&r)
	return o.attr, err
}

// Access returns the permissions that c has.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (have uint32, err error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.get(&r)
	if err != nil {
		return 0, err
	}
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if want&bit != 0 && o.rights().May(&c, bit) && (bit != nfsserver.MayWrite || !f.ro) {
			have |= bit
		}
	}
	return have, nil
}

// Readlink returns a symbolic link's target.
func (f *FS) Readlink(_ nfsserver.Cred, r nfsserver.Ref) (string, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.get(&r)
	switch {
	case err != nil:
		return "", err
	case o.attr.Type != nfsserver.TypeSymlink:
		return "", syscall.EINVAL
	}
	return f.b.Readlink(o.path)
}

// Statfs returns ample space, because trees do not know theirs.
func (f *FS) Statfs(r nfsserver.Ref) (nfsserver.Statfs, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	if _, _, err := f.find(&r); err != nil {
		return nfsserver.Statfs{}, err
	}
	st := nfsserver.Statfs{TotalBytes: space, TotalFiles: space}
	if !f.ro {
		st.FreeBytes, st.AvailBytes, st.FreeFiles, st.AvailFiles = space, space, space, space
	}
	return st, nil
}

// touched notes a change to an object's content or names, beside the tree's own times.
func (f *FS) touched(id pathtree.ID) {
	now := nsOf(nfsserver.Now())
	f.table.Keep(id, func(k *pathtree.Kept) {
		k.Mask &^= pathtree.KeptMtime
		k.MtimeMin, k.CtimeMin = now, now
	})
}
