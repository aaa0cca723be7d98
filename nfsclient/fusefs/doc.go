// The package: what it offers, and its rooms.

// Package fusefs mounts an nfsclient.FS on a directory by way of FUSE, so that any program can use
// it, without the kernel's NFS client, and with no other privilege than FUSE's own.
//
//	client, err := nfsclient.Dial(ctx, "server.example", nfsclient.Options{CallTimeout: -1}) // hard
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer client.Close()
//	export, err := client.Mount(ctx, "/export")
//	if err != nil {
//		log.Fatal(err)
//	}
//	mount, err := fusefs.Mount(ctx, export, "/mnt", fusefs.Options{Source: "server.example:/export"})
//
// It behaves as nfs(5) describes an NFSv3 mount: close-to-open consistency, an attribute cache with
// growing times, weak cache consistency, permissions that the server decides for the calling user,
// and hidden names for files that are removed while they are open.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package fusefs

// The parts, in the order in which a request of the kernel goes through them:
//
//   - request.go, creds.go: who asks, and what ends the request.
//   - lookup.go, access.go, open.go, io.go, dirs.go, setattr.go, create.go, remove.go,
//     sillyrename.go, statfs.go, locks.go: the operations.
//   - node.go, namecache.go, attrs.go: what is known: nodes by handle, the names of directories,
//     and attributes with all that is decided by them. Pure, with no I/O.
//   - handle.go: which node a file handle of this machine is of, after the kernel has forgotten it.
//   - openremove.go, namechanges.go, reopen.go: the order of calls in flight on a file or a name.
//   - fuseloop, a package of its own, is the connection to the kernel.
//   - calls.go: calls to the server, and what is learned from each reply.
//   - notify.go: what the kernel is told to forget.
//   - pagecache.go: dropping pages of the kernel, which can take long.
//   - io.go joins nfsclient/internal/datapath, which has written data until it is stable, and locks.go
//     nfsclient/nlm, which has the locks.
