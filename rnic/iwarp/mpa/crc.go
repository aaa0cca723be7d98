// CRC32c in MPA's form: the iSCSI digest, least significant byte first on the wire.

package mpa

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/internal/crc32c"
)

// CRCLen is the CRC field's size; every FPDU has one (RFC 5044 §4.4 [R5044-057]).
const CRCLen = 4

// CRC32C returns b's CRC (RFC 5044 §4.4).
func CRC32C(b []byte) uint32 { return crc32c.Update(0, b) }

// UpdateCRC extends crc, the earlier bytes' CRC, by b. Before the first byte it is 0.
func UpdateCRC(crc uint32, b []byte) uint32 { return crc32c.Update(crc, b) }

// PutCRC stores crc in the first four bytes of b. Unlike all other fields on this wire, it goes
// least significant byte first (RFC 5044 §4.4 [R5044-059]).
func PutCRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// getCRC parses a CRC field.
func getCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
