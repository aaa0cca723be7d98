// Attributes of a file system object (ftype3, nfstime3, fattr3; RFC 1813 §2.5, §2.6).

package nfs3

import (
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A FileType is the kind of a file system object.
type FileType uint32

// The kinds of objects.
const (
	TypeReg  FileType = 1
	TypeDir  FileType = 2
	TypeBlk  FileType = 3
	TypeChr  FileType = 4
	TypeLnk  FileType = 5
	TypeSock FileType = 6
	TypeFIFO FileType = 7
)

func (t FileType) String() string { return nameOf(typeNames[:], uint32(t), "ftype3") }

var typeNames = [...]string{"", "NF3REG", "NF3DIR", "NF3BLK", "NF3CHR", "NF3LNK", "NF3SOCK", "NF3FIFO"}

// decode reads a file type; values that are none fail with xdr.ErrValue.
func (t *FileType) decode(d *xdr.Decoder) {
	*t = FileType(d.Uint32())
	if *t < TypeReg || *t > TypeFIFO {
		d.Fail(xdr.ErrValue)
	}
}

// A Time is a point in time: seconds since 1970 and nanoseconds (nfstime3).
// Seconds are unsigned on the wire: 1970 to 2106.
type Time struct{ Sec, Nsec uint32 }

// MakeTime is t as the wire has it; what lies outside its years is brought to the nearest end.
func MakeTime(t time.Time) Time {
	switch s := t.Unix(); {
	case s < 0:
		return Time{}
	case s > 1<<32-1:
		return Time{Sec: 1<<32 - 1, Nsec: 999999999}
	default:
		return Time{Sec: uint32(s), Nsec: uint32(t.Nanosecond())}
	}
}

// Time is t as Go has it.
func (t Time) Time() time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

func (t *Time) encode(e *xdr.Encoder) {
	e.Uint32(t.Sec)
	e.Uint32(t.Nsec)
}

func (t *Time) decode(d *xdr.Decoder) {
	t.Sec = d.Uint32()
	t.Nsec = d.Uint32()
}

// A Specdata is the device number of a device file (specdata3).
type Specdata struct{ Major, Minor uint32 }

func (s *Specdata) encode(e *xdr.Encoder) {
	e.Uint32(s.Major)
	e.Uint32(s.Minor)
}

func (s *Specdata) decode(d *xdr.Decoder) {
	s.Major = d.Uint32()
	s.Minor = d.Uint32()
}

// fattrSize is the length of an Fattr on the wire, in bytes.
const fattrSize = 84

// An Fattr is the attributes of an object (fattr3), 84 bytes.
type Fattr struct {
	Type   FileType
	Mode   uint32 // permission bits, 07777
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64 // bytes
	Used   uint64 // bytes of disk
	Rdev   Specdata
	Fsid   uint64
	Fileid uint64
	Atime  Time
	Mtime  Time
	Ctime  Time
}

// EncodeXDR appends the attributes.
func (a *Fattr) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Uint32(a.Mode)
	e.Uint32(a.Nlink)
	e.Uint32(a.UID)
	e.Uint32(a.GID)
	e.Uint64(a.Size)
	e.Uint64(a.Used)
	a.Rdev.encode(e)
	e.Uint64(a.Fsid)
	e.Uint64(a.Fileid)
	a.Atime.encode(e)
	a.Mtime.encode(e)
	a.Ctime.encode(e)
}

// DecodeXDR reads attributes; a type that is none fails with xdr.ErrValue.
func (a *Fattr) DecodeXDR(d *xdr.Decoder) {
	a.Type.decode(d)
	a.Mode = d.Uint32()
	a.Nlink = d.Uint32()
	a.UID = d.Uint32()
	a.GID = d.Uint32()
	a.Size = d.Uint64()
	a.Used = d.Uint64()
	a.Rdev.decode(d)
	a.Fsid = d.Uint64()
	a.Fileid = d.Uint64()
	a.Atime.decode(d)
	a.Mtime.decode(d)
	a.Ctime.decode(d)
}
