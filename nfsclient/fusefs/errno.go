// Errors as the kernel's own NFS client has them.

package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// status returns the errno for a program.
func (f *fileSystem) status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	var refused *nfsclient.StatusError
	if errors.As(err, &refused) {
		if refused.Status == nfs3.ErrROFS {
			f.readOnly.Do(func() {
				f.logf("the server lets this host change nothing: the export is read-only (to change it: rw in exports(5); nfsrdmad: no --read-only)")
			})
		}
		return fuse.Status(refusal(refused.Status, refused.Errno()))
	}
	var errno syscall.Errno
	var auth *transport.AuthError
	var conn *transport.ConnectError
	switch {
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	case errors.As(err, &conn):
		if f.opt.SoftErr {
			return fuse.Status(syscall.ETIMEDOUT)
		}
		return fuse.EIO
	case errors.As(err, &errno):
		return fuse.Status(errno)
	case errors.As(err, &auth):
		return fuse.EACCES
	}
	return fuse.EIO
}

// refusal returns errno, or the errno that system calls use instead for a refusal with status s.
func refusal(s nfs3.Status, errno syscall.Errno) syscall.Errno {
	switch s {
	case nfs3.ErrBadHandle: // from a server without its handle table
		return syscall.ESTALE
	case nfs3.ErrBadCookie, nfs3.ErrTooSmall, nfs3.ErrServerFault:
		return syscall.EIO
	}
	return errno
}

// isStatus reports whether the server refused with s.
func isStatus(err error, s nfs3.Status) bool {
	var refused *nfsclient.StatusError
	return errors.As(err, &refused) && refused.Status == s
}

// isStale reports whether the server does not know the handle.
func isStale(err error) bool {
	return isStatus(err, nfs3.ErrStale) || isStatus(err, nfs3.ErrBadHandle)
}
