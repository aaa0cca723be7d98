// An ACL's format in a Linux extended attribute.

package posixacl

import (
	"encoding/binary"
	"errors"
)

// The attributes for ACLs.
const (
	AttrAccess  = "system.posix_acl_access"
	AttrDefault = "system.posix_acl_default" // directories only
)

// The attribute's layout, all little endian: a header, then the entries.
//
//	0 4 version, 2
//
//	0 2 tag
//	2 2 permissions
//	4 4 id; 0xffffffff for other tags
const (
	version    = 2
	headerSize = 4
	entrySize  = 8
)

// ErrVersion means that an attribute has an unknown version (EOPNOTSUPP in Linux).
var ErrVersion = errors.New("unknown version of ACL")

// Size returns the number of bytes that Append adds for a list of n entries.
func Size(n int) int { return headerSize + n*entrySize }

// Append appends a's bytes to b. For the empty list Append appends only a header, with which
// setxattr(2) removes the ACL.
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

// Parse reads an attribute's value like setxattr(2). An empty value, or a value without entries,
// means no ACL: Parse returns the empty list. The result is valid, and shares no memory with b.
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
			e.ID = NoID // the kernel ignores this ID, too
		}
		a = append(a, e)
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}
