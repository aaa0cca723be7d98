// Attributes in the form an FS gives and takes.

package nfsserver

import (
	"strconv"
	"time"
)

// FileType is an object's type, numbered as ftype3 (RFC 1813 §2.5).
type FileType uint32

// The file types.
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

// String returns the type in words, or the number of an unknown type.
func (t FileType) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "file type " + strconv.FormatUint(uint64(t), 10)
}

// Mode bits besides the nine permission bits (rwx).
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

// Now returns the current time.
func Now() Time {
	t := time.Now()
	return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Rdev is a device number.
type Rdev struct{ Major, Minor uint32 }

// Attr holds an object's attributes, fattr3 in RFC 1813 §2.5. Mode has only ModeAll's bits.
type Attr struct {
	Type                FileType
	Mode, Nlink         uint32
	UID, GID            uint32
	Size, Used          uint64
	Rdev                Rdev
	Fsid, Fileid        uint64
	Atime, Mtime, Ctime Time
}

// SetMask lists the attributes that SetAttr sets.
type SetMask uint8

// The attributes. SetAtimeNow and SetMtimeNow set the present time, from the FS's clock.
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

// SetAttr holds new values for the attributes in Mask.
type SetAttr struct {
	Mask         SetMask
	Mode         uint32
	UID, GID     uint32
	Size         uint64
	Atime, Mtime Time
}

// Has reports whether any attribute of m is set.
func (s *SetAttr) Has(m SetMask) bool { return s.Mask&m != 0 }

// HasTimes reports whether any time is set.
func (s *SetAttr) HasTimes() bool { return s.Mask&setTimes != 0 }
