// Calls that come again at another server: what tells a call from all others.

package nfsserver

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A CallID identifies a call that changes names, by the same bytes at each server that its client
// sends it to. It is a hash of the client's address without the port, the client's own name, its
// user, the XID, and a checksum of the arguments, as in a duplicate request cache. It is no secret,
// and does not contain the procedure.
type CallID struct {
	Sum [sha256.Size]byte
	// Moved: the connection is so new that another server has possibly executed the call already.
	// It has not if this server has a call of the same bytes over another client's live connection.
	Moved bool
}

const (
	// callSummed is how many leading bytes of the arguments the checksum covers: both names of a
	// RENAME.
	callSummed = 1024
	// movedFor is how long a connection is a new one. A client sends what was not answered as soon
	// as it has connected again; the rest is for a server that is busy with that.
	movedFor = time.Minute
)

// identify sets id to that of a call with arguments args, which have not been read.
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
	id.Moved = true // where there is no connection, as over UDP
	if m := memoOf(c); m != nil {
		id.Moved = time.Since(m.began) < movedFor && !c.Distinct
	}
}
