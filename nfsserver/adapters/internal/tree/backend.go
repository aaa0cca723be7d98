// The seam between the FS and a kind of tree: Backend and File, with their promises.

package tree

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"
)

// A Backend is a path tree. Paths have no slash at either end, and the root's is "".
//
// The FS never changes names while another call uses a path, unless others change the tree. A
// method that the tree does not have returns errors.ErrUnsupported; ReadOnly has these methods.
// Errors are those of nfsserver.FS.
type Backend interface {
	// Stat describes an object, and a symbolic link itself.
	Stat(path string) (fs.FileInfo, error)
	// List returns the names in a directory, in any order and without "." and "..".
	List(path string) ([]string, error)
	// Open opens a regular file by os.O_RDONLY, os.O_RDWR, or, exclusively, with os.O_CREATE and
	// os.O_EXCL too.
	Open(path string, flag int, perm fs.FileMode) (File, error)
	// Readlink returns a symbolic link's target.
	Readlink(path string) (string, error)

	// Mkdir makes one directory, which does not exist yet.
	Mkdir(path string, perm fs.FileMode) error
	// Symlink makes a symbolic link, which does not exist yet.
	Symlink(target, path string) error
	// Remove removes a file, a symbolic link or an empty directory.
	Remove(path string) error
	// Rename moves an object, over an existing one if the tree can: otherwise it
	// fails with fs.ErrExist.
	Rename(from, to string) error
	// Chmod, Chown and Chtimes change attributes. They never get a symbolic link's path.
	Chmod(path string, mode fs.FileMode) error
	Chown(path string, uid, gid int) error
	Chtimes(path string, atime, mtime time.Time) error
	// Sync brings an object, and a directory's names, to stable storage.
	Sync(path string) error
}

// A File is an open file. Its methods may be called concurrently unless Alone returns true.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync brings the content to stable storage. errors.ErrUnsupported: Close does so.
	Sync() error
	// Alone reports whether only one method may run at a time.
	Alone() bool
}

// ReadOnly has the methods of a Backend without changes.
type ReadOnly struct{}

func (ReadOnly) Mkdir(string, fs.FileMode) error            { return syscall.EROFS }
func (ReadOnly) Symlink(string, string) error               { return syscall.EROFS }
func (ReadOnly) Remove(string) error                        { return syscall.EROFS }
func (ReadOnly) Rename(string, string) error                { return syscall.EROFS }
func (ReadOnly) Chmod(string, fs.FileMode) error            { return syscall.EROFS }
func (ReadOnly) Chown(string, int, int) error               { return syscall.EROFS }
func (ReadOnly) Chtimes(string, time.Time, time.Time) error { return syscall.EROFS }
func (ReadOnly) Sync(string) error                          { return nil }

// ReadOnlyFile has the methods of a File without changes.
type ReadOnlyFile struct{}

func (ReadOnlyFile) WriteAt([]byte, int64) (int, error) { return 0, syscall.EROFS }
func (ReadOnlyFile) Truncate(int64) error               { return syscall.EROFS }
func (ReadOnlyFile) Sync() error                        { return nil }

// unsupported reports whether a tree lacks a method.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EROFS)
}

// absent reports whether an error means that no object has the path.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// serialized makes one call at a time to a Backend and its files.
type serialized struct {
	b  Backend
	mu sync.Mutex
}

func (s *serialized) Stat(path string) (fs.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Stat(path)
}

func (s *serialized) List(path string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.List(path)
}

func (s *serialized) Open(path string, flag int, perm fs.FileMode) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.b.Open(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &serializedFile{f, &s.mu}, nil
}

func (s *serialized) Readlink(path string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Readlink(path)
}

func (s *serialized) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *serialized) Mkdir(path string, perm fs.FileMode) error {
	return s.do(func() error { return s.b.Mkdir(path, perm) })
}

func (s *serialized) Symlink(target, path string) error {
	return s.do(func() error { return s.b.Symlink(target, path) })
}

func (s *serialized) Remove(path string) error {
	return s.do(func() error { return s.b.Remove(path) })
}

func (s *serialized) Rename(from, to string) error {
	return s.do(func() error { return s.b.Rename(from, to) })
}

func (s *serialized) Chmod(path string, mode fs.FileMode) error {
	return s.do(func() error { return s.b.Chmod(path, mode) })
}

func (s *serialized) Chown(path string, uid, gid int) error {
	return s.do(func() error { return s.b.Chown(path, uid, gid) })
}

func (s *serialized) Chtimes(path string, atime, mtime time.Time) error {
	return s.do(func() error { return s.b.Chtimes(path, atime, mtime) })
}

func (s *serialized) Sync(path string) error {
	return s.do(func() error { return s.b.Sync(path) })
}

// A serializedFile is a serialized Backend's file.
type serializedFile struct {
	f  File
	mu *sync.Mutex
}

func (s *serializedFile) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.ReadAt(p, off)
}

func (s *serializedFile) WriteAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.WriteAt(p, off)
}

func (s *serializedFile) Truncate(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.Truncate(size)
}

func (s *serializedFile) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.Sync()
}

func (s *serializedFile) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.Close()
}

func (s *serializedFile) Alone() bool { return false }
