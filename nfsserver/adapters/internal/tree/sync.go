// Stable storage, by the methods that a library's files have.

package tree

import (
	"errors"
	"io"
	"io/fs"
)

// SyncFile brings a file to stable storage if it has a method Sync. Otherwise it returns
// errors.ErrUnsupported.
func SyncFile(f any) error {
	s, ok := f.(interface{ Sync() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return s.Sync()
}

// SyncAndClose brings a file or directory to stable storage, as far as it can.
func SyncAndClose(f io.Closer) error {
	err := SyncFile(f)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Unsyncable returns the error for an object that could not be opened for Sync. An object without
// read permission stays as the kernel writes it.
func Unsyncable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
