// The package: what it offers, and who may call what from where.

// Package nfsclient is an NFSv3 client (RFC 1813) over RPC-over-RDMA or TCP,
// in user space and without a mount. Use it to read and write the files of a
// server from a program, with no privilege and no kernel client.
//
//	target, err := nfsclient.ParseTarget("nfsrdma://" + addr + "/share") // nfs:// is TCP
//	if err != nil {
//		log.Fatal(err)
//	}
//	tree, _, err := nfsclient.Open(ctx, target, nfsclient.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer tree.Client().Close()
//	data, err := tree.ReadFile(ctx, "greeting")
//
// The examples show io/fs, errors and several servers of one volume;
// test/examples/download of this module is a whole program.
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
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package nfsclient
