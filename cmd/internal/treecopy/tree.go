// What a copy reads from and writes to: directories, here or on a server.

// Package treecopy copies and moves files and trees, between directories of this
// machine and of NFS servers, with the results of cp(1) and mv(1).
//
// A Run takes operands. Each is a path of a Tree, which resolves it to a Dir and
// a name in it; from there on names have one component, so that nothing a server
// lists can lead elsewhere. Directories are walked in parallel (walk.go); what to
// do about each name, and about what already has it at the destination, is
// decided in entry.go; content goes to a temporary name and is renamed when it is
// complete (file.go); pump.go moves the bytes.
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

// Meta is what is known of a file, a directory or another object.
type Meta struct {
	Name         string
	Mode         fs.FileMode // type and permission bits, setuid, setgid, sticky
	Size         int64       // bytes, as far as is known: never trusted
	Used         uint64      // bytes of disk
	Nlink        uint32
	UID, GID     uint32
	Major, Minor uint32 // of a device
	Atime, Mtime time.Time
	Ctime        time.Time

	Fsid, Fileid uint64  // st_dev and st_ino of a local object
	FH           nfs3.FH // length 0 for a local object
	domain       any     // within which Fsid and Fileid are comparable
	followed     bool    // Name is a symbolic link, the rest is what it leads to
}

// sparse reports whether parts of the file have no disk space.
func (m *Meta) sparse() bool { return m.Mode.IsRegular() && m.Used < uint64(max(m.Size, 0)) }

// key names an object within its domain.
type key struct{ fsid, fileid uint64 }

func (m *Meta) key() key { return key{m.Fsid, m.Fileid} }

// same reports whether a and b are one object. Within one domain, this machine or
// one connection, numbers tell. Between two, as a server's export that is mounted
// here too, or one server over two transports, the file's number has to be the
// same and all that a server shows of it: no two files share those.
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

// Attr is attributes to set. The zero value of a field leaves one as it is.
type Attr struct {
	SetMode      bool
	Mode         fs.FileMode // with setuid, setgid and sticky
	SetOwner     bool
	UID, GID     int // -1 leaves one as it is
	Atime, Mtime time.Time
	SetACLs      bool           // before the mode
	ACLs         nfsclient.ACLs // Access must not be empty; where it says what a mode does, the object has no more than its mode
}

// A Source is an open file to read. ReadAt may be called at once from many
// goroutines; Read is for what has no positions.
type Source interface {
	io.Reader
	io.ReaderAt
	io.Closer
	// Stream reports whether only Read is to be used: a FIFO, a device, a file of
	// /proc.
	Stream() bool
	// NextData returns where the data at or after off begins and ends. io.EOF says
	// that there is none; ok is false when that cannot be known.
	NextData(off int64) (start, end int64, ok bool, err error)
	// Size is the size now.
	Size() (int64, error)
	// ACLs are the file's; errors.ErrUnsupported says that its file system has none.
	ACLs(ctx context.Context) (nfsclient.ACLs, error)
}

// A Sink is a file being written, in any order of positions.
type Sink interface {
	io.WriterAt
	// Stream reports whether data must come in order: a FIFO or a device.
	Stream() bool
	Truncate(size int64) error
	// Sync brings the data to stable storage. nfsclient.ErrLostWrites says that
	// all of it has to be written again.
	Sync() error
	// Stat is the file's attributes as they are known without asking again after a
	// Create, and as they are otherwise.
	Stat() (Meta, error)
	SetAttr(ctx context.Context, a Attr) error
	// Adopt gives the new file owner, mode and ACL of old, a file of the same
	// directory that it will replace. An error means that it cannot have them.
	Adopt(ctx context.Context, old *Meta) error
	Close() error
}

// A Dir is one open directory. Names have one component: neither empty, nor "."
// nor "..", with no slash; "." is allowed to SetAttr and ACLs. Methods may be called at
// once. Nothing follows a symbolic link unless it says so, or its Meta was found through one.
type Dir interface {
	// Self is the directory when it was opened.
	Self() *Meta
	// Text is the path of name in the directory, as the user would write it.
	Text(name string) string
	// Above returns the directory and all above it, the nearest first, as far as they can be reached.
	Above(ctx context.Context) []Meta
	// Entries lists the directory in no order, without "." and "..".
	Entries(ctx context.Context) iter.Seq2[Meta, error]
	Lstat(ctx context.Context, name string) (Meta, error)
	// Stat follows symbolic links; what it returns does so from then on.
	Stat(ctx context.Context, name string) (Meta, error)
	// Follow returns the directory, to be closed, and the name that the symbolic
	// link name leads to in the end, where something is. inPlace is set when what is there can
	// only be opened through the link, as /dev/stdout.
	Follow(ctx context.Context, name string) (d Dir, base string, inPlace bool, err error)
	Sub(ctx context.Context, m Meta) (Dir, error)
	// ACLs are those of m; errors.ErrUnsupported says that its file system has none.
	ACLs(ctx context.Context, m Meta) (nfsclient.ACLs, error)
	// Open opens a file to read.
	Open(ctx context.Context, m Meta) (Source, error)
	Readlink(ctx context.Context, m Meta) (string, error)

	// Mkdir makes a subdirectory that is not there.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) (Dir, error)
	// Create makes a file that is not there. whole is its size when one WriteAt will
	// bring all of it, else -1.
	Create(ctx context.Context, name string, perm fs.FileMode, whole int) (Sink, error)
	// Overwrite empties a file that is there and opens it to write.
	Overwrite(ctx context.Context, m Meta) (Sink, error)
	// Writable reports, by an error, that the file m must not be written.
	Writable(ctx context.Context, m Meta) error
	Symlink(ctx context.Context, target, name string) (Meta, error)
	// Mknod makes a FIFO, a socket or a device like m.
	Mknod(ctx context.Context, name string, perm fs.FileMode, m Meta) (Meta, error)
	// LinkTo gives m, which is in this directory, the further name newName in to, a
	// directory of the same Tree.
	LinkTo(ctx context.Context, m Meta, to Dir, newName string) error
	// RenameTo moves a name to a directory; EXDEV where that cannot be.
	RenameTo(ctx context.Context, name string, to Dir, newName string) error
	Remove(ctx context.Context, name string) error
	Rmdir(ctx context.Context, name string) error
	SetAttr(ctx context.Context, m Meta, a Attr) error
	// CaseInsensitive reports whether two names that differ may be one.
	CaseInsensitive(ctx context.Context) bool
	// Commit brings what was made in and below the directory to stable storage.
	Commit() error
	Close() error
}

// A Tree resolves the paths of one export, or of this machine.
type Tree interface {
	// Stat describes what is at a path; a symbolic link that is its last component is followed when follow is set.
	Stat(ctx context.Context, path string, follow bool) (Meta, error)
	// OpenDir opens a directory, through symbolic links. text is the path for messages.
	OpenDir(ctx context.Context, path, text string) (Dir, error)
	// Parent opens the directory that the last component of path is in. That
	// component is neither empty, nor "." nor "..".
	Parent(ctx context.Context, path, text string) (d Dir, base string, err error)
}

// badName reports whether a name from a directory listing could lead elsewhere.
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

// join is the text of a path below another.
func join(dir, name string) string {
	if dir == "" || dir[len(dir)-1] == '/' {
		return dir + name
	}
	return dir + "/" + name
}
