// The frame of context creation's tokens (RFC 4121 §4.1, RFC 2743 §3.1).

package krb5

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// OID is the DER of Kerberos 5's object identifier, 1.2.840.113554.1.2.2 (RFC 4121 §1), with tag
// and length.
const OID = "\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// frameTag is [APPLICATION 0], constructed.
const frameTag = asn1.Tag(0x60)

// frame puts the identifiers before a message.
func frame(id uint16, message []byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(frameTag, func(b *cryptobyte.Builder) {
		b.AddBytes([]byte(OID))
		b.AddUint16(id)
		b.AddBytes(message)
	})
	return b.BytesOrPanic() // fails only for lengths above four bytes
}

// unframe returns the token identifier and the message. mech is false for another mechanism.
func unframe(token []byte) (id uint16, message []byte, mech, ok bool) {
	s := cryptobyte.String(token)
	var inner cryptobyte.String
	if !s.ReadASN1(&inner, frameTag) || !s.Empty() {
		return 0, nil, false, false
	}
	var oid cryptobyte.String
	rest := inner
	if !rest.ReadASN1Element(&oid, asn1.OBJECT_IDENTIFIER) || len(rest) < 2 {
		return 0, nil, false, false
	}
	if !bytes.Equal(oid, []byte(OID)) {
		return 0, nil, false, true
	}
	return binary.BigEndian.Uint16(rest), rest[2:], true, true
}
