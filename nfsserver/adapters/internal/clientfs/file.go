// Open files and directories.

package clientfs

import (
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A File is an open file or directory. Only one goroutine lists a directory at a time.
type File struct {
	*nfsclient.File
	fs     *FS
	closed atomic.Bool

	listed bool
	left   []fs.DirEntry // of a directory, those that no call has returned
}

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return info, osError(err)
}

// Read reads at the position.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, osError(err)
}

// Write writes at the position.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, osError(err)
}

// WriteString is Write.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Close ends the use of the file, and brings its content to stable storage.
func (f *File) Close() error {
	f.closed.Store(true)
	return osError(f.File.Close())
}

// Seek sets the position for Read and Write.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.closed.Load() {
		return 0, &fs.PathError{Op: "seek", Path: f.Name(), Err: fs.ErrClosed}
	}
	n, err := f.File.Seek(offset, whence)
	return n, osError(err)
}

// Entries returns the next n entries of a directory, as fs.ReadDirFile describes, sorted by name.
func (f *File) Entries(n int) ([]fs.DirEntry, error) {
	if !f.listed {
		list, err := f.fs.List(f.Name())
		if err != nil {
			return nil, err
		}
		f.listed, f.left = true, list
	}
	if n > 0 && len(f.left) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.left) {
		n = len(f.left)
	}
	part := f.left[:n:n]
	f.left = f.left[n:]
	return part, nil
}

// Readdir is Entries with attributes.
func (f *File) Readdir(n int) ([]fs.FileInfo, error) {
	part, err := f.Entries(n)
	if err != nil {
		return nil, err
	}
	return infos(part)
}

// Readdirnames is Entries with names only.
func (f *File) Readdirnames(n int) ([]string, error) {
	part, err := f.Entries(n)
	names := make([]string, len(part))
	for i, e := range part {
		names[i] = e.Name()
	}
	return names, err
}
