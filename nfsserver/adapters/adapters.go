// Package adapters has options for the packages below it, which serve other libraries' file trees
// as an nfsserver.FS, and show an nfsclient.FS as such a tree.
//
//	iofs       io/fs: embed.FS, archive/zip, os.DirFS; read-only
//	billyv5    github.com/go-git/go-billy/v5
//	billyv6    github.com/go-git/go-billy/v6
//	aferofs    github.com/spf13/afero
//	webdavfs   golang.org/x/net/webdav
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package adapters

import "github.com/nfsrdma/nfsrdma/nfsserver"

// Options configures a served tree. The zero value is right for most trees.
//
// A file handle names an object by an identity which follows renames. Trees have only paths, so the
// FS keeps a table with all objects that clients have seen, about 250 bytes for each. In a tree
// that io/fs describes, identities depend on paths alone, and the table is a cache.
type Options struct {
	// StateDir is a directory for the table, outside of the tree. With it, handles survive a
	// restart; a power failure can cost handles for objects that clients have looked up but
	// not changed in the last seconds. "": handles are stale after a restart. A
	// StateDir serves one tree at a time. io/fs trees need none.
	StateDir string
	// Name distinguishes io/fs trees without a StateDir: trees with one Name have equal fsids. Give
	// each such export its own, such as the export's name.
	Name string
	// Serialize makes at most one call to the tree at a time, for trees that are not safe for
	// concurrent use.
	Serialize bool
	// ReadOnly refuses all changes.
	ReadOnly bool
	// Owner has UID and GID for objects without an owner in the tree. nil: this process's user.
	Owner *nfsserver.Cred
	// MaxFileSize is in bytes. 0: no limit on this machine's disks, and 1 GiB in all other trees,
	// because one small write far behind the end can make a tree in memory allocate all before it.
	MaxFileSize uint64
	// MaxObjects bounds the table; 0: 4,194,304. Beyond it a writable tree returns ENOSPC for
	// objects that no client has seen yet.
	MaxObjects int
	// OpenFiles bounds the files kept open between calls; 0: 64.
	OpenFiles int
}
