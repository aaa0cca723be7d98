// FileInfo: an object's attributes in Go's form.

package nfsclient

import (
	"io/fs"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A FileInfo describes an object; it implements fs.FileInfo. Sys returns the *nfs3.Fattr.
type FileInfo struct {
	name string
	Node
}

// Name returns the last component of the requested path.
func (i *FileInfo) Name() string { return i.name }

// Size returns the length in bytes.
func (i *FileInfo) Size() int64 { return int64(i.Attr.Size) }

// Mode returns type and permission bits.
func (i *FileInfo) Mode() fs.FileMode { return GoMode(i.Attr.Type, i.Attr.Mode) }

// ModTime returns the time of the last content change.
func (i *FileInfo) ModTime() time.Time { return i.Attr.Mtime.Time() }

// AccessTime returns the time of the last read.
func (i *FileInfo) AccessTime() time.Time { return i.Attr.Atime.Time() }

// IsDir reports whether the object is a directory.
func (i *FileInfo) IsDir() bool { return i.Attr.Type == nfs3.TypeDir }

// Sys returns the *nfs3.Fattr.
func (i *FileInfo) Sys() any { return &i.Attr }

// Bits of a mode above the permissions (RFC 1813 §2.5, mode3).
const (
	modeSetuid = 0o4000
	modeSetgid = 0o2000
	modeSticky = 0o1000
)

// GoMode converts a type and mode bits of NFSv3.
func GoMode(t nfs3.FileType, mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for _, b := range modeBits {
		if mode&b.nfs != 0 {
			m |= b.mode
		}
	}
	switch t {
	case nfs3.TypeReg:
		return m
	case nfs3.TypeDir:
		return m | fs.ModeDir
	case nfs3.TypeLnk:
		return m | fs.ModeSymlink
	case nfs3.TypeBlk:
		return m | fs.ModeDevice
	case nfs3.TypeChr:
		return m | fs.ModeDevice | fs.ModeCharDevice
	case nfs3.TypeSock:
		return m | fs.ModeSocket
	case nfs3.TypeFIFO:
		return m | fs.ModeNamedPipe
	}
	return m | fs.ModeIrregular
}

// WireMode converts a mode to NFSv3 mode bits, without the type.
func WireMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for _, b := range modeBits {
		if m&b.mode != 0 {
			mode |= b.nfs
		}
	}
	return mode
}

// modeBits maps the bits above the permissions.
var modeBits = [...]struct {
	nfs  uint32
	mode fs.FileMode
}{{modeSetuid, fs.ModeSetuid}, {modeSetgid, fs.ModeSetgid}, {modeSticky, fs.ModeSticky}}
