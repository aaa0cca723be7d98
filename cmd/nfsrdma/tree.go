// What a copy reads from and writes to: a directory tree, here or on a server.

package main

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// meta is what a copy keeps of a file, a directory or a symbolic link.
type meta struct {
	name         string
	mode         fs.FileMode // type and permission bits, setuid, setgid, sticky
	size         int64
	atime, mtime time.Time
	fh           nfs3.FH // on a server; length 0 when not known or not remote
}

// A source is an open file to read. ReadAt of one goroutine does not wait for that of another.
type source interface {
	io.ReaderAt
	io.Closer
}

// A sink is a new file to write; data comes in any order. It ends in exactly one of finish and abort.
type sink interface {
	io.WriterAt
	// finish brings the data to where it is safe, sets mode and times, and
	// compares the size with m's.
	finish(ctx context.Context, m meta) error
	abort()
}

// A dir is one directory of a tree. Names have one component: neither empty,
// nor "." nor "..", with no slash. Methods may be called at once.
type dir interface {
	// entries lists the directory in no order, without "." and "..".
	entries(ctx context.Context) iter.Seq2[meta, error]
	// sub opens a subdirectory; it does not follow a symbolic link.
	sub(ctx context.Context, m meta) (dir, error)
	open(ctx context.Context, m meta) (source, error)
	readlink(ctx context.Context, m meta) (string, error)

	// mkdir makes a subdirectory, or opens the one that is there.
	mkdir(ctx context.Context, name string, perm fs.FileMode) (dir, error)
	// create makes a file of m's name, or empties the one that is there.
	create(ctx context.Context, m meta) (sink, error)
	// put writes a whole file whose content is at hand, mode and times too.
	put(ctx context.Context, m meta, data []byte) error
	symlink(ctx context.Context, target string, m meta) error
	// setMeta sets mode and times of the directory itself.
	setMeta(ctx context.Context, m meta) error

	close() error
}

// permBits are the mode bits that a copy carries.
const permBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// badName says whether a name from a directory listing could lead elsewhere.
func badName(name string) bool {
	if name == "" || name == "." || name == ".." {
		return true
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 || os.IsPathSeparator(name[i]) {
			return true
		}
	}
	return false
}
