// CallID: recognizing a call that the client repeats at another server.

package nfsserver

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A CallID identifies a call that changes names, with the same bytes at each server that receives
// the call from its client. It hashes the values compared by a duplicate request cache: the
// client's address without the port, the client's own name, the user, the XID, and a checksum of
// the arguments. It is no secret, and excludes the procedure.
type CallID struct {
	Sum [sha256.Size]byte
	// Moved: the connection is so new that another server may have executed the call already. Moved
	// is false if this server has an identical call over another client's live connection.
	Moved bool
}

const (
	// callSummed is the number of leading argument bytes in the checksum: enough for both names in
	// a RENAME.
	callSummed = 1024
	// movedFor is the age up to which a connection counts as new. A client resends unanswered calls
	// right after reconnecting; a minute leaves a margin for a server busy with such calls.
	movedFor = time.Minute
)

// identify sets id from a call and its undecoded arguments args.
func (id *CallID) identify(c *transport.Call, args *xdr.Decoder) {
	const words = 8
	var b [16 + 4*words + oncrpc.MaxMachine + callSummed]byte
	if a, ok := addrOf(c.Remote); ok {
		ip := a.As16()
		copy(b[:], ip[:])
	}
	var space [callSummed]byte
	length, lead := args.Unreduced(callSummed, space[:])
	for i, v := range [words]uint32{uint32(c.Owner.Kind), c.Owner.UID, uint32(c.Cred.Flavor), c.Cred.UID, c.Cred.GID, c.XID, uint32(len(c.Cred.Machine)), uint32(length)} {
		binary.BigEndian.PutUint32(b[16+4*i:], v)
	}
	n := 16 + 4*words
	n += copy(b[n:], c.Cred.Machine)
	n += copy(b[n:], lead)
	id.Sum = sha256.Sum256(b[:n])
	id.Moved = true // without a connection, as over UDP
	if m := memoOf(c); m != nil {
		id.Moved = time.Since(m.began) < movedFor && !c.Distinct
	}
}
