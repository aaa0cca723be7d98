// The write verifier, which shows clients a possible loss of uncommitted data.

package nfsserver

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A writeVerifier belongs to one export, so a failing disk makes only that export's clients resend.
type writeVerifier struct{ v atomic.Uint64 }

// renew changes the verifier, so clients resend their uncommitted data (RFC 1813 §3.3.7). It is
// called at each start, and after a failure of the export's stable storage.
func (w *writeVerifier) renew() {
	var b [8]byte
	rand.Read(b[:])
	w.v.Store(binary.BigEndian.Uint64(b[:]))
}

// get returns the verifier in wire form.
func (w *writeVerifier) get() (v nfs3.Verf) {
	binary.BigEndian.PutUint64(v[:], w.v.Load())
	return v
}
