// The package: features and files.

// Package fusefs mounts an nfsclient.FS on a directory through FUSE. Any program can use it,
// without the kernel's NFS client and with no privilege except FUSE's own.
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
// growing timeouts, weak cache consistency, server-side permission checks for the calling user, and
// silly renames of open files on removal.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package fusefs

// The files, in the order of a kernel request's path:
//
//  - request.go, creds.go: the caller, and the end of a request.
//  - lookup.go, access.go, open.go, io.go, dirs.go, setattr.go, create.go, remove.go,
//    sillyrename.go, statfs.go, locks.go: the operations.
//  - node.go, namecache.go, attrs.go: the caches: nodes by handle, directory names, and attributes
//    with the decisions based on them. Pure, without I/O.
//  - localhandles.go: finding the node of a local file handle after the kernel has forgotten it.
//  - openremove.go, namechanges.go, reopen.go: the order of calls in flight on a file or a name.
//  - fuseloop, another package, is the connection to the kernel.
//  - calls.go: calls to the server, and learning from each reply.
//  - notify.go: invalidating the kernel's caches.
//  - pagecache.go: dropping the kernel's pages, which can take long.
//  - io.go uses nfsclient/internal/datapath, which keeps written data until it is stable. locks.go
//    uses nfsclient/nlm, which keeps the locks.
