// An export as the procedures use it, with its FS's optional interfaces.

package nfsserver

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An export is an Export as the procedures use it. All locks and counters that a call may hold
// while its file system blocks belong to one export.
type export struct {
	// Set once.
	id     uint32
	name   string
	linked bool // Export.ByPath
	lane   int  // index of Program.Lanes

	// Set once, before ready.
	fs    FS
	opt   optional
	root  Ref
	info  Info
	verf  nfs3.Verf // of directory cookies
	key   *sipKey   // for its handles; nil: the server's key
	ready atomic.Bool

	opening  opening
	calls    atomic.Int64                // running calls that use it (enter)
	retired  atomic.Bool                 // in no table any more: no new call may use it
	closing  atomic.Bool                 // its FS is being closed, or is closed
	stuck    atomic.Bool                 // calls were abandoned in fs, which stays open
	checking atomic.Pointer[healthCheck] // a check by Exports that fs has not answered yet
	written  writeVerifier
	locks    lockTable
	syncs    syncTable
}

// served sets the fields that come from the FS. No other goroutine reads them before ready.
func (x *export) served(fs FS) {
	x.fs, x.opt, x.root, x.info = fs, optionalOf(fs), fs.Root(), fs.Info().filled()
	binary.BigEndian.PutUint64(x.verf[:], x.info.CookieVerf)
	if x.info.HandleKey != ([KeySize]byte{}) {
		own := newSipKey(&x.info.HandleKey)
		x.key = &own
	}
	x.ready.Store(true)
}
