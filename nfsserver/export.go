// An export as the procedures use it, with the interfaces of its FS.

package nfsserver

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An export is an Export as the procedures use it. Whatever a call holds while its file
// system keeps it waiting belongs to one export.
type export struct {
	// Set once.
	id     uint32
	name   string
	linked bool // Export.ByPath
	lane   int  // of the transport's, as an index of Program.Lanes

	// Set once, before ready.
	fs    FS
	opt   optional
	root  Ref
	info  Info
	verf  nfs3.Verf // of directory cookies
	key   *sipKey   // of its handles; nil: the server's
	ready atomic.Bool

	opening opening
	calls   atomic.Int64             // that use it (enter)
	retired atomic.Bool              // it is in no table any more: no call may begin to use it
	closing atomic.Bool              // somebody closes, or has closed, its FS
	stuck   atomic.Bool              // calls were left behind in fs, which stays open
	asked   atomic.Pointer[question] // of Exports, without an answer yet
	written writeVerifier
	locks   lockTable
	syncs   syncTable
}

// served sets the fields that come from the FS; nothing reads them before ready.
func (x *export) served(fs FS) {
	x.fs, x.opt, x.root, x.info = fs, optionalOf(fs), fs.Root(), fs.Info().filled()
	binary.BigEndian.PutUint64(x.verf[:], x.info.CookieVerf)
	if x.info.HandleKey != ([KeySize]byte{}) {
		own := newSipKey(&x.info.HandleKey)
		x.key = &own
	}
	x.ready.Store(true)
}
