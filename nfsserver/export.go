// An export as the procedures use it, with its FS's optional interfaces.

package nfsserver

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An export is an Export in use by the procedures. Each has its own locks and counters, because a
// call may hold them while its file system blocks.
type export struct {
	// Set once.
	id     uint32
	name   string
	linked bool // Export.ByPath
	lane   int  // index of Program.Lanes

	trees *treeTable // with Export.Trees, in place of fs; nil: x is one tree
	// Of a tree of another export, which has the same name, id and lane; also set once.
	of     *export // nil: x is an export
	number uint64
	used   atomic.Uint64 // treeTable.clock at the last use
	held   atomic.Int64  // open FileLocks, which keep the tree open

	// Set once, before ready.
	fs    FS
	opt   optional
	root  Ref
	info  Info
	verf  nfs3.Verf // for directory cookies
	key   *sipKey   // for the export's handles; nil: the server's key
	ready atomic.Bool

	opening  opening
	calls    atomic.Int64                // running calls that use the export (enter)
	retired  atomic.Bool                 // no table has the export, so no new call may use it
	closing  atomic.Bool                 // the FS is being closed, or is closed
	stuck    atomic.Bool                 // abandoned calls are still in fs, so it stays open
	checking atomic.Pointer[healthCheck] // a check by Exports that fs has not answered yet
	written  writeVerifier
	locks    lockTable
	syncs    syncTable
}

// chooses reports whether the export's handles have a tree's number.
func (x *export) chooses() bool { return x.trees != nil || x.of != nil }

// close closes the export's FS, or all its trees.
func (x *export) close() error {
	if x.trees != nil {
		return x.trees.end()
	}
	return x.fs.Close()
}

// served sets the fields derived from the FS. No other goroutine reads these fields before ready.
func (x *export) served(fs FS) {
	x.fs, x.opt, x.root, x.info = fs, optionalOf(fs), fs.Root(), fs.Info().filled()
	binary.BigEndian.PutUint64(x.verf[:], x.info.CookieVerf)
	if x.info.HandleKey != ([KeySize]byte{}) && x.of == nil {
		own := newSipKey(&x.info.HandleKey)
		x.key = &own
	}
	x.ready.Store(true)
}
