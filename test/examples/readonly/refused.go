// The methods for changes: all are refused.

package main

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// refused returns the results of methods that would create an object.
func refused() (nfsserver.Ref, nfsserver.Attr, error) {
	return nfsserver.Ref{}, nfsserver.Attr{}, syscall.EROFS
}

func (t *tree) Setattr(nfsserver.Cred, nfsserver.Ref, *nfsserver.SetAttr) error { return syscall.EROFS }

func (t *tree) WriteAt(nfsserver.Cred, nfsserver.Ref, []byte, uint64) (int, error) {
	return 0, syscall.EROFS
}

func (t *tree) Create(nfsserver.Cred, nfsserver.Ref, string, *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return refused()
}

func (t *tree) Mkdir(nfsserver.Cred, nfsserver.Ref, string, *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return refused()
}

func (t *tree) Symlink(nfsserver.Cred, nfsserver.Ref, string, string, *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return refused()
}

func (t *tree) Mknod(nfsserver.Cred, nfsserver.Ref, string, nfsserver.FileType, nfsserver.Rdev, *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return refused()
}

func (t *tree) Link(nfsserver.Cred, nfsserver.Ref, nfsserver.Ref, string) error { return syscall.EROFS }
func (t *tree) Remove(nfsserver.Cred, nfsserver.Ref, string) error              { return syscall.EROFS }
func (t *tree) Rmdir(nfsserver.Cred, nfsserver.Ref, string) error               { return syscall.EROFS }

func (t *tree) Rename(nfsserver.Cred, nfsserver.Ref, string, nfsserver.Ref, string) error {
	return syscall.EROFS
}
