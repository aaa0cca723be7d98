// The checksum of an authenticator, which has the flags of the context (RFC 4121 §4.1.1).

package krb5

import "encoding/binary"

// Flags of a context (RFC 4121 §4.1.1.1, RFC 4757 §7.1).
const (
	contextDelegate = 1 << 0
	contextMutual   = 1 << 1
	contextConf     = 1 << 4
	contextInteg    = 1 << 5
	contextDCE      = 1 << 12
)

// bindings is the size of the channel bindings' hash in bytes. Without bindings the hash is zeros.
const bindings = 16

// newChecksum encodes flags without channel bindings and without delegation.
func newChecksum(flags uint32) []byte {
	b := make([]byte, 4+bindings+4)
	binary.LittleEndian.PutUint32(b, bindings)
	binary.LittleEndian.PutUint32(b[4+bindings:], flags)
	return b
}

// parseChecksum returns the flags. Channel bindings are ignored, as by an acceptor without any (RFC
// 4121 §4.1.1.2). With contextDelegate, a delegated ticket must follow, and
// is ignored.
func parseChecksum(b []byte) (flags uint32, ok bool) {
	if len(b) < 4+bindings+4 || binary.LittleEndian.Uint32(b) != bindings {
		return 0, false
	}
	flags = binary.LittleEndian.Uint32(b[4+bindings:])
	if flags&contextDelegate == 0 {
		return flags, true
	}
	rest := b[4+bindings+4:]
	if len(rest) < 4 || binary.LittleEndian.Uint16(rest) != 1 {
		return 0, false
	}
	return flags, len(rest) >= 4+int(binary.LittleEndian.Uint16(rest[2:]))
}
