// The private data of connection set-up: inline thresholds and remote invalidation (RFC 8797).

package rpcrdma

import "encoding/binary"

// Layout of the private data (RFC 8797 §4), at any offset in the connection manager's private data:
//
//	offset  size  field
//	0       4     format identifier, f6ab0e18
//	4       1     version, 1
//	5       1     flags: bit 0 (R) = remote invalidation supported, others reserved
//	6       1     send size, bytes/1024 - 1
//	7       1     receive size, bytes/1024 - 1
const (
	privateDataLen  = 8
	privateDataID   = 0xf6ab0e18
	privateDataVers = 1
	flagRemoteInval = 1 << 0
)

// The sizes that the private data can express (RFC 8797 §4.2).
const (
	sizeUnit      = 1024
	minInlineSize = 1024
	maxInlineSize = 256 * sizeUnit
)

// unsaidInlineSize is the size for a peer that declares none (RFC 8166 §3.3.3).
const unsaidInlineSize = 1024

// PrivateData is one side's declaration at connection set-up.
type PrivateData struct {
	RemoteInvalidate bool // every STag of that side may be invalidated by Send with Invalidate
	SendSize         int  // the side's largest Send, in bytes
	RecvSize         int  // the side's smallest receive, in bytes
}

// defaultPrivateData applies to a peer without private data in a known format (RFC 8797 §5.1
// [R8797-019], RFC 8166 §3.3.3 [R8166-038]).
var defaultPrivateData = PrivateData{SendSize: unsaidInlineSize, RecvSize: unsaidInlineSize}

// AppendPrivateData appends the eight bytes. Sizes are rounded down to the format's steps; reserved
// bits are zero (RFC 8797 §4 [R8797-007]).
func AppendPrivateData(b []byte, p PrivateData) []byte {
	var flags byte
	if p.RemoteInvalidate {
		flags = flagRemoteInval
	}
	b = binary.BigEndian.AppendUint32(b, privateDataID)
	return append(b, privateDataVers, flags, encodeSize(p.SendSize), encodeSize(p.RecvSize))
}

// ParsePrivateData searches b for the identifier at any byte (RFC 8797 §5.2 [R8797-020]) and parses
// the fields after it. It returns the defaults and false when b has no private data of this
// version, or not all eight bytes (RFC 8797 §5.1 [R8797-019], RFC 8797 §5.2 [R8797-021 R8797-022]).
func ParsePrivateData(b []byte) (PrivateData, bool) {
	for ; len(b) >= privateDataLen; b = b[1:] {
		if binary.BigEndian.Uint32(b) != privateDataID {
			continue
		}
		if b[4] != privateDataVers {
			break
		}
		return PrivateData{
			// Other flag bits are ignored (RFC 8797 §4 [R8797-008]).
			RemoteInvalidate: b[5]&flagRemoteInval != 0,
			SendSize:         decodeSize(b[6]),
			RecvSize:         decodeSize(b[7]),
		}, true
	}
	return defaultPrivateData, false
}

func encodeSize(n int) byte {
	n = min(max(n, minInlineSize), maxInlineSize)
	return byte(n/sizeUnit - 1)
}

func decodeSize(v byte) int { return (int(v) + 1) * sizeUnit }

// Thresholds are a connection's inline thresholds as seen from one side: each bounds a whole Send,
// header included (RFC 8166 §3.3.2 [R8166-034]).
type Thresholds struct {
	Send int // upper limit in bytes for our messages
	Recv int // upper limit in bytes for the peer's messages
	// Invalidate: both sides declared remote invalidation, so replies may use it (RFC 8797 §4.1
	// [R8797-011 R8797-013]).
	Invalidate bool
}

// agree combines the declarations of both sides (RFC 8797 §4.2 [R8797-016 R8797-017 R8797-018]).
func agree(ours, peers PrivateData) Thresholds {
	return Thresholds{
		Send:       min(ours.SendSize, peers.RecvSize),
		Recv:       min(ours.RecvSize, peers.SendSize),
		Invalidate: ours.RemoteInvalidate && peers.RemoteInvalidate,
	}
}
