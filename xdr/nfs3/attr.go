// A file system object's attributes (ftype3, nfstime3, fattr3; RFC 1813 §2.5, §2.6).

package nfs3

import (
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A FileType is an object's type.
type FileType uint32

// The object types.
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

// decode reads a file type; invalid values fail with xdr.ErrValue.
func (t *FileType) decode(d *xdr.Decoder) {
	*t = FileType(d.Uint32())
	if *t < TypeReg || *t > TypeFIFO {
		d.Fail(xdr.ErrValue)
	}
}

// A Time has seconds since 1970 and nanoseconds (nfstime3). Seconds are unsigned on the wire:
// 1970 to 2106.
type Time struct{ Sec, Nsec uint32 }

// MakeTime converts t, clamping it to the wire's range.
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

// Time returns t as a time.Time, in local time.
func (t Time) Time() time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

func (t *Time) encode(e *xdr.Encoder) { t.put(e.Space(8)) }

// put writes t's 8 bytes.
func (t *Time) put(b []byte) { binary.BigEndian.PutUint64(b, uint64(t.Sec)<<32|uint64(t.Nsec)) }

// get reads t's 8 bytes.
func (t *Time) get(b []byte) {
	v := binary.BigEndian.Uint64(b)
	t.Sec, t.Nsec = uint32(v>>32), uint32(v)
}

func (t *Time) decode(d *xdr.Decoder) {
	t.Sec = d.Uint32()
	t.Nsec = d.Uint32()
}

// A Specdata is a device file's device number (specdata3).
type Specdata struct{ Major, Minor uint32 }

func (s *Specdata) encode(e *xdr.Encoder) {
	e.Uint32(s.Major)
	e.Uint32(s.Minor)
}

func (s *Specdata) decode(d *xdr.Decoder) {
	s.Major = d.Uint32()
	s.Minor = d.Uint32()
}

// fattrSize is an Fattr's length on the wire, in bytes.
const fattrSize = 84

// An Fattr has an object's attributes (fattr3), 84 bytes:
//
//	offset  size  field
//	0       4     type
//	4       4     mode
//	8       4     nlink
//	12      4     uid
//	16      4     gid
//	20      8     size
//	28      8     used
//	36      8     rdev    specdata1, specdata2
//	44      8     fsid
//	52      8     fileid
//	60      8     atime   seconds, nanoseconds
//	68      8     mtime
//	76      8     ctime
type Fattr struct {
	Type   FileType
	Mode   uint32 // permission bits, 07777
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64 // bytes
	Used   uint64 // bytes on disk
	Rdev   Specdata
	Fsid   uint64
	Fileid uint64
	Atime  Time
	Mtime  Time
	Ctime  Time
}

// EncodeXDR appends the attributes.
func (a *Fattr) EncodeXDR(e *xdr.Encoder) { a.put((*[fattrSize]byte)(e.Space(fattrSize))) }

// put writes the attributes in wire form.
func (a *Fattr) put(b *[fattrSize]byte) {
	binary.BigEndian.PutUint32(b[0:], uint32(a.Type))
	binary.BigEndian.PutUint32(b[4:], a.Mode)
	binary.BigEndian.PutUint32(b[8:], a.Nlink)
	binary.BigEndian.PutUint32(b[12:], a.UID)
	binary.BigEndian.PutUint32(b[16:], a.GID)
	binary.BigEndian.PutUint64(b[20:], a.Size)
	binary.BigEndian.PutUint64(b[28:], a.Used)
	binary.BigEndian.PutUint32(b[36:], a.Rdev.Major)
	binary.BigEndian.PutUint32(b[40:], a.Rdev.Minor)
	binary.BigEndian.PutUint64(b[44:], a.Fsid)
	binary.BigEndian.PutUint64(b[52:], a.Fileid)
	a.Atime.put(b[60:])
	a.Mtime.put(b[68:])
	a.Ctime.put(b[76:])
}

// DecodeXDR reads attributes; an invalid type fails with xdr.ErrValue. After an error the
// attributes are zero.
func (a *Fattr) DecodeXDR(d *xdr.Decoder) {
	b := d.Fixed(fattrSize)
	if b == nil {
		*a = Fattr{}
		return
	}
	if !a.get((*[fattrSize]byte)(b)) {
		d.Fail(xdr.ErrValue)
	}
}

// get decodes attributes; it returns false for an invalid type.
func (a *Fattr) get(b *[fattrSize]byte) bool {
	a.Type = FileType(binary.BigEndian.Uint32(b[0:]))
	a.Mode = binary.BigEndian.Uint32(b[4:])
	a.Nlink = binary.BigEndian.Uint32(b[8:])
	a.UID = binary.BigEndian.Uint32(b[12:])
	a.GID = binary.BigEndian.Uint32(b[16:])
	a.Size = binary.BigEndian.Uint64(b[20:])
	a.Used = binary.BigEndian.Uint64(b[28:])
	a.Rdev.Major = binary.BigEndian.Uint32(b[36:])
	a.Rdev.Minor = binary.BigEndian.Uint32(b[40:])
	a.Fsid = binary.BigEndian.Uint64(b[44:])
	a.Fileid = binary.BigEndian.Uint64(b[52:])
	a.Atime.get(b[60:])
	a.Mtime.get(b[68:])
	a.Ctime.get(b[76:])
	return a.Type >= TypeReg && a.Type <= TypeFIFO
}
