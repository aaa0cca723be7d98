// The package: what it offers, and who may call what from where.

// Package nfsclient is an NFSv3 client (RFC 1813) over RPC-over-RDMA or TCP,
// in user space and without a mount.
//
// There are three floors, each usable alone:
//
//   - Client is a connection (or several) to one server. Its methods are the
//     procedures of NFSv3 and MOUNT on file handles: Getattr, Lookup, Read, …
//   - FS is a mounted export. Its methods take slash-separated paths, follow
//     symbolic links, and fail with *fs.PathError.
//   - File is an open file: ReadAt, WriteAt, Read, Write, Seek, Sync, Close.
//
// READ data is placed straight into the caller's slice and WRITE data is taken
// from it: over RDMA the slice is the memory region that the server writes or
// reads. A slice belongs to the client from the call until it has returned.
//
// Everything is safe for concurrent use, and calls made at once travel at once.
// Errors satisfy errors.Is for fs.ErrNotExist, fs.ErrExist, fs.ErrPermission,
// fs.ErrInvalid and for the syscall.Errno of the same meaning.
package nfsclient
