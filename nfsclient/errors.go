// Errors: the Go errors for each status, in one table.

package nfsclient

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// ErrLostWrites is returned by File.Sync and File.Close if the server has restarted since data was
// written and may have lost it (its write verifier changed, RFC 1813 §3.3.7). Write everything
// again since the last successful Sync.
var ErrLostWrites = errors.New("the server restarted and may have lost data that was not synced: write it again")

// ErrOtherVolume is the error for one of several servers if its volume or its handles differ from
// those of the server in use.
var ErrOtherVolume = errors.New("it does not serve the same volume by the same handles")

// Errors for replies that no correct server sends.
var (
	errBadReply  = errors.New("the server's reply makes no sense")
	errBadName   = errors.New("the server lists a name that cannot be one")
	errNoForward = errors.New("the server's directory listing does not move forward")
)

// A StatusError is a refused procedure. errors.Is matches its nfs3.Status and the equivalent
// syscall.Errno. It also matches fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid and
// errors.ErrUnsupported if they are equivalent.
type StatusError struct {
	Proc   uint32 // NFSv3 procedure; NFSACL's are numbered from nfs3.NumProcs
	Status nfs3.Status
}

// Error has the system's text, the procedure and the status.
func (e *StatusError) Error() string {
	return e.Errno().Error() + " (" + procs[e.Proc].Name + ": " + e.Status.String() + ")"
}

// Errno returns the system's error for the status.
func (e *StatusError) Errno() syscall.Errno { return errno(e.Status) }

// Unwrap lets errors.Is and errors.As match the Errno.
func (e *StatusError) Unwrap() error { return e.Errno() }

// Is matches a status, and fs.ErrInvalid, which an Errno does not match.
func (e *StatusError) Is(target error) bool {
	return target == error(e.Status) || target == fs.ErrInvalid && e.Errno() == syscall.EINVAL
}

// ErrNoAccess is the error for a file that ACCESS does not let the user open.
var ErrNoAccess error = &StatusError{Proc: nfs3.ProcAccess, Status: nfs3.ErrAcces}

// A MountError is a refused mount.
type MountError struct {
	Path   string
	Status mount3.Status
}

func (e *MountError) Error() string {
	return "mount " + e.Path + ": " + errno(nfs3.Status(e.Status)).Error() + " (" + e.Status.String() + ")"
}

// Unwrap lets errors.Is and errors.As match the Errno. MOUNT and NFS number their statuses alike.
func (e *MountError) Unwrap() error { return errno(nfs3.Status(e.Status)) }

// Is matches a status, and fs.ErrInvalid.
func (e *MountError) Is(target error) bool {
	return target == error(e.Status) || target == fs.ErrInvalid && e.Unwrap() == error(syscall.EINVAL)
}

// errno maps the statuses of RFC 1813 §2.6 to system errors.
func errno(s nfs3.Status) syscall.Errno {
	switch s {
	case nfs3.ErrPerm:
		return syscall.EPERM
	case nfs3.ErrNoEnt:
		return syscall.ENOENT
	case nfs3.ErrNXIO:
		return syscall.ENXIO
	case nfs3.ErrAcces:
		return syscall.EACCES
	case nfs3.ErrExist:
		return syscall.EEXIST
	case nfs3.ErrXDev:
		return syscall.EXDEV
	case nfs3.ErrNoDev:
		return syscall.ENODEV
	case nfs3.ErrNotDir:
		return syscall.ENOTDIR
	case nfs3.ErrIsDir:
		return syscall.EISDIR
	case nfs3.ErrInval, nfs3.ErrBadType, nfs3.ErrTooSmall:
		return syscall.EINVAL
	case nfs3.ErrFBig:
		return syscall.EFBIG
	case nfs3.ErrNoSpc:
		return syscall.ENOSPC
	case nfs3.ErrROFS:
		return syscall.EROFS
	case nfs3.ErrMLink:
		return syscall.EMLINK
	case nfs3.ErrNameTooLong:
		return syscall.ENAMETOOLONG
	case nfs3.ErrNotEmpty:
		return syscall.ENOTEMPTY
	case nfs3.ErrDQuot:
		return syscall.EDQUOT
	case nfs3.ErrStale, nfs3.ErrBadHandle, nfs3.ErrBadCookie:
		return syscall.ESTALE
	case nfs3.ErrRemote:
		return syscall.EREMOTE
	case nfs3.ErrNotSupp:
		return syscall.ENOTSUP
	case nfs3.ErrJukebox, nfs3.ErrNotSync:
		return syscall.EAGAIN
	}
	return syscall.EIO
}

// pathError wraps err as the error of an operation on a path.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if name == "" {
		name = "/" // the root of the export
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
