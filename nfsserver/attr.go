// Attributes as an FS gives and takes them.

package nfsserver

import (
	"strconv"
	"time"
)

// FileType is the kind of an object, numbered as ftype3 (RFC 1813 §2.5).
type FileType uint32

// The kinds.
const (
	TypeReg FileType = 1 + iota
	TypeDir
	TypeBlock
	TypeChar
	TypeSymlink
	TypeSocket
	TypeFIFO
)

var typeNames = [...]string{TypeReg: "file", "directory", "block device", "character device", "symbolic link", "socket", "FIFO"}

// String is the kind in words, with its number where it is none of those above.
func (t FileType) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "file type " + strconv.FormatUint(uint64(t), 10)
}

// Mode bits beside the nine of rwx.
const (
	ModeSetuid = 0o4000
	ModeSetgid = 0o2000
	ModeSticky = 0o1000
	ModeAll    = 0o7777
)

// Time is a point in time: seconds of the Unix epoch and nanoseconds.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Now is the present time.
func Now() Time {
	t := time.Now()
	return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Rdev is the number of a device.
type Rdev struct{ Major, Minor uint32 }

// Attr is all attributes of an object, fattr3 of RFC 1813 §2.5. Mode holds the
// permission bits only (ModeAll).
type Attr struct {
	Type                FileType
	Mode, Nlink         uint32
	UID, GID            uint32
	Size, Used          uint64
	Rdev                Rdev
	Fsid, Fileid        uint64
	Atime, Mtime, Ctime Time
}

// SetMask says which attributes a SetAttr sets.
type SetMask uint8

// The attributes. SetAtimeNow and SetMtimeNow set the FS's own present time.
const (
	SetMode SetMask = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow

	setTimes = SetAtime | SetMtime | SetAtimeNow | SetMtimeNow
)

// SetAttr is a set of new attributes: those that Mask names.
type SetAttr struct {
	Mask         SetMask
	Mode         uint32
	UID, GID     uint32
	Size         uint64
	Atime, Mtime Time
}

// Has reports whether any of m is set.
func (s *SetAttr) Has(m SetMask) bool { return s.Mask&m != 0 }

// HasTimes reports whether any time is set.
func (s *SetAttr) HasTimes() bool { return s.Mask&setTimes != 0 }
