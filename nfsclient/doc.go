// The package: features and concurrency.

// Package nfsclient is an NFSv3 client (RFC 1813) over RPC-over-RDMA or TCP, in user space and
// without a mount. Use it to read and write a server's files from a program, without privileges and
// without the kernel's client.
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
// The examples show io/fs, errors and several servers of one volume; test/examples/download in this
// module is a whole program.
//
// There are three layers, each usable alone:
//
//   - Client has connections to one server. Its methods are the procedures of NFSv3 and
//     MOUNT on file handles: Getattr, Lookup, Read, …
//   - FS is a mounted export. Its methods take slash-separated paths, follow symbolic links, and
//     fail with *fs.PathError.
//   - File is an open file: ReadAt, WriteAt, Read, Write, Seek, Sync, Close.
//
// READ data is placed directly into the caller's slice, and WRITE data is sent from it: over RDMA
// the slice is the memory region for the server's transfer. The client owns a slice during the
// call.
//
// Everything is safe for concurrent use, and concurrent calls are in flight together. Errors
// satisfy errors.Is for fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid and for the
// equivalent syscall.Errno.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package nfsclient
