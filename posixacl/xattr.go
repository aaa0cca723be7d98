// The bytes of an ACL in an extended attribute of Linux.

package posixacl

import (
	"encoding/binary"
	"errors"
)

// The attributes that have an ACL.
const (
	AttrAccess  = "system.posix_acl_access"
	AttrDefault = "system.posix_acl_default" // of directories only
)

// The layout, all little endian: a header, then the entries.
//
//	0 4 version, 2
//
//	0 2 tag
//	2 2 permissions
//	4 4 id; 0xffffffff where the tag names nobody
const (
	version    = 2
	headerSize = 4
	entrySize  = 8
)

// ErrVersion is the error of an attribute of another version (EOPNOTSUPP in Linux).
var ErrVersion = errors.New("unknown version of ACL")

// Size is how many bytes Append adds for a list of n entries.
func Size(n int) int { return headerSize + n*entrySize }

// Append adds the bytes of a to b. Those of the empty list are a header, by which
// setxattr(2) takes the ACL away.
func (a ACL) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, version)
	for _, e := range a {
		id := e.ID
		if e.Tag != User && e.Tag != Group {
			id = NoID
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, e.Perm)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// Parse reads the value of an attribute as setxattr(2) does. A value without entries, or
// without a single byte, is the empty list: no ACL. What it returns is valid, and
// shares no memory with b.
func Parse(b []byte) (ACL, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case len(b) < headerSize:
		return nil, ErrInvalid
	case binary.LittleEndian.Uint32(b) != version:
		return nil, ErrVersion
	case (len(b)-headerSize)%entrySize != 0:
		return nil, ErrInvalid
	case len(b) == headerSize:
		return nil, nil
	}
	a := make(ACL, 0, (len(b)-headerSize)/entrySize)
	for b = b[headerSize:]; len(b) > 0; b = b[entrySize:] {
		e := Entry{Tag: Tag(binary.LittleEndian.Uint16(b)), Perm: binary.LittleEndian.Uint16(b[2:]), ID: binary.LittleEndian.Uint32(b[4:])}
		if e.Tag != User && e.Tag != Group {
			e.ID = NoID // whatever it is, it says nothing
		}
		a = append(a, e)
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}
