// The write verifier: how clients learn that what they have not committed may be lost.

package nfsserver

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A writeVerifier is that of one export: a disk that fails makes the clients of its own
// export write again, and no others.
type writeVerifier struct{ v atomic.Uint64 }

// renew changes the verifier: clients send again what they have written and not
// committed (RFC 1813 §3.3.7). It happens with each start, and when the export's
// stable storage has failed.
func (w *writeVerifier) renew() {
	var b [8]byte
	rand.Read(b[:])
	w.v.Store(binary.BigEndian.Uint64(b[:]))
}

func (w *writeVerifier) get() (v nfs3.Verf) {
	binary.BigEndian.PutUint64(v[:], w.v.Load())
	return v
}
