// File: an open file with a position.

package vmware

import (
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A File is an open file with all methods of nfsclient.File. As in go-nfs-client, Close commits
// written data to stable storage.
type File struct {
	*nfsclient.File
	v *Target
}

// OpenFile opens a file for reading and writing, and makes it if it is missing.
func (v *Target) OpenFile(p string, perm os.FileMode) (*File, error) {
	n, err := v.walk(p)
	if os.IsNotExist(err) {
		n, err = v.create(p, perm)
	}
	if err != nil {
		return nil, err
	}
	return v.file(n, p, os.O_RDWR), nil
}

// Open opens a file for reading.
func (v *Target) Open(p string) (*File, error) {
	n, err := v.walk(p)
	if err != nil {
		return nil, err
	}
	return v.file(n, p, os.O_RDONLY), nil
}

func (v *Target) file(n nfsclient.Node, p string, flag int) *File {
	return &File{v.fsys.OpenNode(v.ctx, n.FH, p, flag), v}
}

// Readlink returns the content of a symbolic link.
func (f *File) Readlink() (string, error) {
	target, err := f.v.fsys.Client().Readlink(f.v.ctx, f.FH())
	return target, wire(err)
}

// Read reads from the position on.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end of the file
		return n, err
	}
	return n, wire(err)
}

// Write writes at the position.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, wire(err)
}

// Close commits written data to stable storage.
func (f *File) Close() error { return wire(f.File.Close()) }
