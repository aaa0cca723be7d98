// Package juicefs is a JuiceFS volume as an nfsserver.FS, without a FUSE mount in between. Use it
// to export a volume from a program of your own. Any number of servers can export the same volume.
//
//	url, err := juicefs.Local{Dir: dir, UID: me.UID, GID: me.GID, TrashDays: 1, ACL: true}.Make()
//	if err != nil {
//		log.Fatal(err)
//	}
//	vol, err := juicefs.Open(juicefs.Options{Meta: url})
//	if err != nil {
//		log.Fatal(err)
//	}
//	server, err := nfsserver.New(nfsserver.Options{
//		Squash:  me,
//		Exports: []nfsserver.Export{{Name: "/vol", FS: vol}},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer server.Close() // and the volume
//	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0"})
//
// Local is a volume in a directory of this machine, for one server at a time. New makes other
// volumes; Options.Meta is the URL of their metadata service. Names and attributes are in
// that service, and contents are in an object storage.
//
// # Durability
//
// WriteAt gives data to a buffer of JuiceFS, which is lost with the process. Sync uploads the data
// of a file and commits its metadata, and returns when both services have them. A change of names
// or attributes is a transaction of the metadata service, in force when its method returns. Such
// data is as durable as the services are. The next Sync of a file reports data that JuiceFS could
// not store, once.
//
// # Rights
//
// The FS checks them itself, as a kernel does for a local process, from the attributes and ACLs of
// the volume. The process needs no privileges.
//
// # Locks
//
// Locks are those of JuiceFS, so clients of other servers and mounts of JuiceFS respect them. With
// Options.StateDir, a restarted server holds the locks of the previous process while clients
// reclaim them.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package juicefs

// The FS calls JuiceFS's metadata client (pkg/meta), its block store (pkg/chunk) and the buffers of
// its readers and writers (pkg/vfs). JuiceFS keeps file handles for a kernel; NFS has none, so they
// are not used.
//
// Refs. A Ref is the volume, an inode number and the type. JuiceFS never gives a number again, so
// the number is also the generation. A removed object is stale, even while the volume's trash has
// it. Names and inodes of the trash are not reachable; `juicefs mount` reaches them. The key that
// seals file handles is the volume's (key.go), so handles are valid at all of its servers.
//
// Rights. Package perm decides, and JuiceFS is called as a user that may do everything. JuiceFS's
// own checks differ from a kernel's, which decides before them in a mount: set-id bits, times of
// files of other users, sticky directories, and a move of a directory below itself. A check and the
// change that follows are two transactions. JuiceFS's conditions on names (exists, is empty, is a
// directory) hold in the second.
//
// Durability. Badger and "file", the services of a volume in a directory, do not sync by
// themselves, so Sync does it (local.go). file.go has the rest.
//
// Locks. They belong to the server's session in the volume (locks.go). After a kill, the next
// process continues the session (session.go). It holds the locks of the previous one
// (gracelocks.go) until the lock manager calls EndGrace.
//
// Cookies. JuiceFS's positions in a directory are ordinals within one listing. A cookie here is a
// hash of the name (listing.go). So it stays the same while other names come and go, after a
// restart, and on any other server of the volume.
