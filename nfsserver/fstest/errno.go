// Errors that checks want.

package fstest

import "syscall"

const (
	noEnt       = syscall.ENOENT
	exist       = syscall.EEXIST
	notDir      = syscall.ENOTDIR
	isDir       = syscall.EISDIR
	notEmpty    = syscall.ENOTEMPTY
	inval       = syscall.EINVAL
	perm        = syscall.EPERM
	fbig        = syscall.EFBIG
	nameTooLong = syscall.ENAMETOOLONG
	errStale    = syscall.ESTALE
)
