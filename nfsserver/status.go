// The mapping from errors to nfsstat3.

package nfsserver

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// status returns an error's nfsstat3 (RFC 1813 §2.6).
func status(err error) nfs3.Status {
	if err == nil {
		return nfs3.OK
	}
	var st nfs3.Status
	var no syscall.Errno
	switch {
	case errors.As(err, &st):
		return st
	case errors.As(err, &no):
		return errnoStatus(no)
	case errors.Is(err, ErrStale):
		return nfs3.ErrStale
	case errors.Is(err, ErrBadType):
		return nfs3.ErrBadType
	case errors.Is(err, ErrBadCookie):
		return nfs3.ErrBadCookie
	case errors.Is(err, ErrBusy):
		return nfs3.ErrJukebox
	case errors.Is(err, fs.ErrNotExist):
		return nfs3.ErrNoEnt
	case errors.Is(err, fs.ErrExist):
		return nfs3.ErrExist
	case errors.Is(err, fs.ErrPermission):
		return nfs3.ErrAcces
	case errors.Is(err, fs.ErrInvalid):
		return nfs3.ErrInval
	}
	return nfs3.ErrIO
}

// statusOfErrno maps the errors that have their own nfsstat3.
var statusOfErrno = map[syscall.Errno]nfs3.Status{
	syscall.EPERM: nfs3.ErrPerm, syscall.ENOENT: nfs3.ErrNoEnt, syscall.EIO: nfs3.ErrIO, syscall.ENXIO: nfs3.ErrNXIO,
	syscall.EACCES: nfs3.ErrAcces, syscall.EEXIST: nfs3.ErrExist, syscall.EXDEV: nfs3.ErrXDev, syscall.ENODEV: nfs3.ErrNoDev,
	syscall.ENOTDIR: nfs3.ErrNotDir, syscall.EISDIR: nfs3.ErrIsDir, syscall.EINVAL: nfs3.ErrInval, syscall.EFBIG: nfs3.ErrFBig,
	syscall.EOVERFLOW: nfs3.ErrFBig, syscall.ENOSPC: nfs3.ErrNoSpc, syscall.EROFS: nfs3.ErrROFS, syscall.EMLINK: nfs3.ErrMLink,
	syscall.ENAMETOOLONG: nfs3.ErrNameTooLong, syscall.ENOTEMPTY: nfs3.ErrNotEmpty, syscall.EDQUOT: nfs3.ErrDQuot,
	syscall.ESTALE: nfs3.ErrStale, syscall.EOPNOTSUPP: nfs3.ErrNotSupp, syscall.ENOSYS: nfs3.ErrNotSupp,
	syscall.ELOOP: nfs3.ErrInval,
	// A file in use, or running as a program: ACCES, because a retry would not help.
	syscall.EBUSY: nfs3.ErrAcces, syscall.ETXTBSY: nfs3.ErrAcces,
	// Temporary errors: the client should retry.
	syscall.EAGAIN: nfs3.ErrJukebox, syscall.ETIMEDOUT: nfs3.ErrJukebox, syscall.ENOMEM: nfs3.ErrJukebox,
	syscall.EINTR: nfs3.ErrJukebox, syscall.EMFILE: nfs3.ErrJukebox, syscall.ENFILE: nfs3.ErrJukebox, syscall.ENOBUFS: nfs3.ErrJukebox,
}

func errnoStatus(no syscall.Errno) nfs3.Status {
	if st, ok := statusOfErrno[no]; ok {
		return st
	}
	return nfs3.ErrIO
}
