// Directory entries in the getdents64(2) format.

package osfs

import (
	"bytes"
	"encoding/binary"
)

// A rawDirent is a struct linux_dirent64 (getdents64(2)), in the machine's byte order:
//
//	offset  size  field
//	0       8     d_ino
//	8       8     d_off    position behind this entry
//	16      2     d_reclen length of the record
//	18      1     d_type
//	19      …     d_name, ended by NUL
type rawDirent struct {
	ino, off uint64
	typ      uint8
	name     []byte // part of the buffer
	zname    []byte // the name with its NUL; nil if the entry has no NUL
}

const direntHeader = 19

// next reads the entry at b's start and returns the bytes after it, or nil if b has no entry.
func (d *rawDirent) next(b []byte) []byte {
	if len(b) < direntHeader {
		return nil
	}
	n := int(binary.NativeEndian.Uint16(b[16:]))
	if n < direntHeader || n > len(b) {
		return nil
	}
	d.ino = binary.NativeEndian.Uint64(b)
	d.off = binary.NativeEndian.Uint64(b[8:])
	d.typ = b[18]
	d.name, d.zname = b[direntHeader:n], nil
	if i := bytes.IndexByte(d.name, 0); i >= 0 {
		d.name, d.zname = d.name[:i], d.name[:i+1]
	}
	return b[n:]
}

// dots reports whether the name is "." or "..".
func (d *rawDirent) dots() bool { return string(d.name) == "." || string(d.name) == ".." }
