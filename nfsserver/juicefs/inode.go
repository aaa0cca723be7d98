// Refs and their inodes.

package juicefs

import (
	"encoding/binary"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// A Ref is 17 bytes: volume (8), inode number (8) and type (1). An inode keeps its number and type.
// A volume restored from a backup of its metadata reuses numbers; a different type then reveals at
// least some of the old Refs.
const refSize = 17

func (f *FS) ref(ino meta.Ino, t nfsserver.FileType) nfsserver.Ref {
	var b [refSize]byte
	binary.BigEndian.PutUint64(b[:], f.volume)
	binary.BigEndian.PutUint64(b[8:], uint64(ino))
	b[16] = byte(t)
	r, _ := nfsserver.MakeRef(b[:])
	return r
}

// parse splits a Ref. No Ref has the number of a trash directory or a file of JuiceFS's own.
func (f *FS) parse(r *nfsserver.Ref) (ino meta.Ino, t nfsserver.FileType, err error) {
	b := r.Bytes()
	if len(b) != refSize || binary.BigEndian.Uint64(b) != f.volume || f.gone.Load() {
		return 0, 0, nfsserver.ErrStale
	}
	ino, t = meta.Ino(binary.BigEndian.Uint64(b[8:])), nfsserver.FileType(b[16])
	if !ino.IsNormal() {
		return 0, 0, nfsserver.ErrStale
	}
	return ino, t, nil
}

// An inode is an object's state at one moment.
type inode struct {
	ino    meta.Ino
	attr   nfsserver.Attr
	parent meta.Ino // directory of its only name; 0: it had several names
	acl    posixacl.ACL
	stamp  stamp // from the metadata
	base   identity
	// dflt: a directory with a default ACL.
	dflt bool
	// fixed: immutable or append-only, by chattr in a mount.
	fixed bool
}

// A stamp changes with a file's content or a directory's names. The change time reveals a change
// even if the modification time is set back.
type stamp struct {
	mtime, ctime nfsserver.Time
	length       uint64
}

func stampOf(a *meta.Attr) stamp {
	return stamp{asTime(a.Mtime, a.Mtimensec), asTime(a.Ctime, a.Ctimensec), a.Length}
}

// rights returns the state that permissions on n depend on.
func (n *inode) rights() perm.Object { return perm.Object{Attr: &n.attr, ACL: n.acl} }

// load returns the inode of a Ref with its ACL.
func (f *FS) load(r *nfsserver.Ref) (*inode, error) {
	ino, t, err := f.parse(r)
	if err != nil {
		return nil, err
	}
	n := new(inode)
	if err := f.loadInode(n, ino); err != nil {
		return nil, err
	}
	if n.attr.Type != t {
		return nil, nfsserver.ErrStale
	}
	return n, nil
}

// loadInode fills n, including the ACL.
func (f *FS) loadInode(n *inode, ino meta.Ino) error {
	a, is, err := f.files.getattr(ino)
	if err != nil {
		return err
	}
	return f.loaded(n, ino, &a, is)
}

// loaded is loadInode with known attributes.
func (f *FS) loaded(n *inode, ino meta.Ino, a *meta.Attr, is stamp) (err error) {
	f.fill(n, ino, a)
	n.stamp = is
	if a.AccessACL != 0 {
		n.acl, err = f.acl(ino, nfsserver.AccessACL)
	}
	return err
}

// loadDir is load for a directory.
func (f *FS) loadDir(r *nfsserver.Ref) (*inode, error) {
	n, err := f.load(r)
	if err == nil && n.attr.Type != nfsserver.TypeDir {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// loadFile is load for a regular file.
func (f *FS) loadFile(r *nfsserver.Ref) (*inode, error) {
	n, err := f.load(r)
	switch {
	case err != nil:
		return nil, err
	case n.attr.Type == nfsserver.TypeDir:
		return nil, syscall.EISDIR
	case n.attr.Type != nfsserver.TypeReg:
		return nil, syscall.EINVAL
	}
	return n, nil
}

// types maps JuiceFS's type numbers.
var types = [...]nfsserver.FileType{
	meta.TypeFile: nfsserver.TypeReg, meta.TypeDirectory: nfsserver.TypeDir, meta.TypeSymlink: nfsserver.TypeSymlink, meta.TypeFIFO: nfsserver.TypeFIFO,
	meta.TypeBlockDev: nfsserver.TypeBlock, meta.TypeCharDev: nfsserver.TypeChar, meta.TypeSocket: nfsserver.TypeSocket,
}

// kind returns JuiceFS's number for a type, or 0.
func kind(t nfsserver.FileType) uint8 {
	for k, other := range types {
		if other == t {
			return uint8(k)
		}
	}
	return 0
}

func typeOf(k uint8) nfsserver.FileType {
	if int(k) < len(types) {
		return types[k]
	}
	return 0
}

// blockBytes is JuiceFS's unit of space.
const blockBytes = 4096

// fill sets n to the attributes a, without the ACL.
func (f *FS) fill(n *inode, ino meta.Ino, a *meta.Attr) {
	n.ino, n.parent, n.dflt = ino, a.Parent, a.DefaultACL != 0
	n.fixed = a.Flags&(meta.FlagImmutable|meta.FlagAppend) != 0
	n.attr = nfsserver.Attr{
		Type: typeOf(a.Typ), Mode: uint32(a.Mode) & nfsserver.ModeAll, Nlink: a.Nlink, UID: a.Uid, GID: a.Gid, Size: a.Length,
		// Holes count, as in JuiceFS's quotas.
		Used: (a.Length + blockBytes - 1) &^ (blockBytes - 1),
		Fsid: f.volume, Fileid: uint64(ino),
		Atime: asTime(a.Atime, a.Atimensec), Mtime: asTime(a.Mtime, a.Mtimensec), Ctime: asTime(a.Ctime, a.Ctimensec),
	}
	if n.attr.Type == nfsserver.TypeBlock || n.attr.Type == nfsserver.TypeChar {
		n.attr.Rdev = unpackRdev(a.Rdev)
	}
	n.base = identify(a)
}

// Device numbers are stored in FUSE's form, as in a mount of the volume: 12 bits and 20.
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

func packRdev(d nfsserver.Rdev) (uint32, error) {
	if d.Major > maxMajor || d.Minor > maxMinor {
		return 0, syscall.EINVAL
	}
	return d.Minor&0xff | d.Major<<8 | (d.Minor&^0xff)<<12, nil
}

func unpackRdev(v uint32) nfsserver.Rdev {
	return nfsserver.Rdev{Major: v >> 8 & maxMajor, Minor: v&0xff | v>>12&^0xff}
}
