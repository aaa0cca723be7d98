// The interfaces of the two sides of a copy: directories, local or on a server.

// Package treecopy copies and moves files and trees, between local directories and directories on
// NFS servers, with the results of cp(1) and mv(1).
//
// A Run takes operands. Each is a path in a Tree, which resolves it to a Dir and a name in it. From
// there on all names have one component, so names listed by a server cannot lead elsewhere.
// Directories are walked in parallel (walk.go). Each name is a job (run.go); existing.go decides
// about an existing target. Content goes to a temporary file that is renamed when complete
// (file.go). pump.go copies the bytes.
package treecopy

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Meta has the known attributes of a file, directory or other object.
type Meta struct {
	Name         string
	Mode         fs.FileMode // type and permission bits, setuid, setgid, sticky
	Size         int64       // bytes as reported: never trusted
	Used         uint64      // bytes on disk
	Nlink        uint32
	UID, GID     uint32
	Major, Minor uint32 // a device's numbers
	Atime, Mtime time.Time
	Ctime        time.Time

	Fsid, Fileid uint64  // st_dev and st_ino of a local object
	FH           nfs3.FH // length 0 for a local object
	domain       any     // Fsid and Fileid are comparable within a domain
	followed     bool    // Name is a symbolic link, and the other fields describe its target
}

// sparse reports whether parts of the file have no disk space.
func (m *Meta) sparse() bool { return m.Mode.IsRegular() && m.Used < uint64(max(m.Size, 0)) }

// key identifies an object within its domain.
type key struct{ fsid, fileid uint64 }

func (m *Meta) key() key { return key{m.Fsid, m.Fileid} }

// same reports whether a and b are one object. Within a domain (this machine, or one connection)
// the numbers decide. Between two domains, such as a server's export that is also mounted here or
// one server over two transports, the attributes compared below must match. No two files share
// them.
func same(a, b *Meta) bool {
	if a.domain == b.domain {
		return a.key() == b.key()
	}
	if a.FH.Len() > 0 && b.FH.Len() > 0 && a.Fsid != b.Fsid {
		return false
	}
	return a.Fileid == b.Fileid && a.Mode == b.Mode && a.Size == b.Size && a.UID == b.UID &&
		a.Mtime.Equal(b.Mtime) && a.Ctime.Equal(b.Ctime)
}

// Attr has attributes to set. Zero fields change nothing.
type Attr struct {
	SetMode      bool
	Mode         fs.FileMode // with setuid, setgid and sticky
	SetOwner     bool
	UID, GID     int // -1: no change
	Atime, Mtime time.Time
	SetACLs      bool // set before the mode
	// Access must not be empty; if it equals a mode, the object gets only the mode
	ACLs nfsclient.ACLs
}

// A Source is a file opened for reading. ReadAt is safe for concurrent use. Read is for files
// without positions.
type Source interface {
	io.Reader
	io.ReaderAt
	io.Closer
	// Stream reports whether only Read works: for a FIFO, a device, or a file in /proc.
	Stream() bool
	// NextData returns the first data segment at or after off. io.EOF means that no data follows;
	// ok is false if that is unknown.
	NextData(off int64) (start, end int64, ok bool, err error)
	// Size returns the current size.
	Size() (int64, error)
	// ACLs returns the file's ACLs, or errors.ErrUnsupported if its file system has no ACLs.
	ACLs(ctx context.Context) (nfsclient.ACLs, error)
}

// A Sink is a file being written, at positions in any order.
type Sink interface {
	io.WriterAt
	// Stream reports whether data must be written sequentially: to a FIFO or a device.
	Stream() bool
	Truncate(size int64) error
	// Sync brings the data to stable storage. After nfsclient.ErrLostWrites all of it must be
	// written again.
	Sync() error
	// Stat returns the file's attributes: a local file's present ones, a remote file's ones at its
	// opening, without a call.
	Stat() (Meta, error)
	SetAttr(ctx context.Context, a Attr) error
	// Adopt gives the new file the owner, mode and ACL of old, a file in the same directory that
	// the new file will replace. It fails if the new file cannot have them.
	Adopt(ctx context.Context, old *Meta) error
	Close() error
}

// A Dir is one open directory. Names have one component: no slash, and neither "" nor "." nor "..",
// except that SetAttr and ACLs accept ".". Methods are safe for concurrent use. They do not follow
// symbolic links, unless documented or m was found through one.
type Dir interface {
	// Self returns the directory's attributes at its opening.
	Self() *Meta
	// Text returns the path of name in the directory, as the user would write it.
	Text(name string) string
	// Above returns the directory and its reachable ancestors, the nearest first.
	Above(ctx context.Context) []Meta
	// Entries lists the directory unordered, without "." and "..".
	Entries(ctx context.Context) iter.Seq2[Meta, error]
	Lstat(ctx context.Context, name string) (Meta, error)
	// Stat follows symbolic links. Methods that get its result also follow them.
	Stat(ctx context.Context, name string) (Meta, error)
	// Follow returns the directory and the name of the existing target behind the symbolic link
	// name. The caller closes d. inPlace means that the target can only be opened through the link,
	// like /dev/stdout.
	Follow(ctx context.Context, name string) (d Dir, base string, inPlace bool, err error)
	Sub(ctx context.Context, m Meta) (Dir, error)
	// ACLs returns the ACLs of m, or errors.ErrUnsupported if its file system has no ACLs.
	ACLs(ctx context.Context, m Meta) (nfsclient.ACLs, error)
	// Open opens a file for reading.
	Open(ctx context.Context, m Meta) (Source, error)
	Readlink(ctx context.Context, m Meta) (string, error)

	// Mkdir makes a new subdirectory.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) (Dir, error)
	// Create makes a new file. whole is its size if one WriteAt will write all of it, otherwise -1.
	Create(ctx context.Context, name string, perm fs.FileMode, whole int) (Sink, error)
	// Overwrite truncates an existing file and opens it for writing.
	Overwrite(ctx context.Context, m Meta) (Sink, error)
	// Writable returns an error if the file m is not writable.
	Writable(ctx context.Context, m Meta) error
	Symlink(ctx context.Context, target, name string) (Meta, error)
	// Mknod makes a FIFO, socket or device like m.
	Mknod(ctx context.Context, name string, perm fs.FileMode, m Meta) (Meta, error)
	// LinkTo gives m, in this directory, the additional name newName in to, a directory of the same
	// Tree.
	LinkTo(ctx context.Context, m Meta, to Dir, newName string) error
	// RenameTo moves a name to another directory. It returns EXDEV if that is impossible.
	RenameTo(ctx context.Context, name string, to Dir, newName string) error
	Remove(ctx context.Context, name string) error
	Rmdir(ctx context.Context, name string) error
	SetAttr(ctx context.Context, m Meta, a Attr) error
	// CaseInsensitive reports whether two different names may be one file.
	CaseInsensitive(ctx context.Context) bool
	// Commit brings the objects created in and below the directory to stable storage.
	Commit() error
	Close() error
}

// A Tree resolves the paths of one export, or local paths.
type Tree interface {
	// Stat returns the attributes at a path. With follow it follows a symbolic link in the last
	// component.
	Stat(ctx context.Context, path string, follow bool) (Meta, error)
	// OpenDir opens a directory and follows symbolic links. text is the path for messages.
	OpenDir(ctx context.Context, path, text string) (Dir, error)
	// Parent opens the directory that contains the last component of path. That component must not
	// be "", "." or "..".
	Parent(ctx context.Context, path, text string) (d Dir, base string, err error)
}

// badName reports whether a name in a listing could lead elsewhere.
func badName(name string) bool {
	if name == "" || name == "." || name == ".." {
		return true
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return true
		}
	}
	return false
}

// join returns the text of a path below another.
func join(dir, name string) string {
	if dir == "" || dir[len(dir)-1] == '/' {
		return dir + name
	}
	return dir + "/" + name
}
