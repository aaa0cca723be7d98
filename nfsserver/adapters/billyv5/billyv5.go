// Package billyv5 serves a file system of go-billy, version 5, and shows an export as one.
//
//	tree, err := billyv5.New(memfs.New(), adapters.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	self := nfsserver.Self() // all callers act as the user of this process
//	server, err := nfsserver.New(nfsserver.Options{
//		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID},
//		Exports: []nfsserver.Export{{Name: "/tree", FS: tree}},
//	})
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package billyv5

import (
	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/billytree"
)

// New returns the FS over a file system. The error comes from its root or from the state directory.
// Calls to a file system which is not on this machine's disks are always serialized, because
// go-billy does not promise more. In an osfs.BoundOS clients can neither make nor remove symbolic
// links, because it would remove the objects that they lead to. Modes, owners and times that a file
// system does not keep are kept beside it.
func New(fsys billy.Filesystem, o adapters.Options) (nfsserver.FS, error) {
	_, bound := fsys.(*osfs.BoundOS)
	return billytree.New(fsys, billytree.Version{ReadOnly: billy.ErrReadOnly, NotSupported: billy.ErrNotSupported,
		CrossedBoundary: billy.ErrCrossedBoundary, FollowsLinks: bound}, o)
}
