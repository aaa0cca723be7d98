// Package juicefs is the FS of a JuiceFS volume: names and attributes in a metadata service, contents in an object
// storage, both asked for in this process, with no FUSE mount in between.
//
// It stands on JuiceFS's metadata client (pkg/meta), its block store (pkg/chunk) and the buffers of its readers and
// writers (pkg/vfs), below the file handles that JuiceFS keeps for a kernel: NFS has none.
//
// # Refs
//
// A Ref is the volume, an inode number and the type. JuiceFS gives no number a second time, so a number is all the
// generation that there is to check; what was removed is stale, also while the volume's trash still has it. Names
// and inodes of the trash are not reachable: `juicefs mount` is the way to them. The key that file handles are sealed with is
// the volume's (key.go), so that they are good at all of its servers.
//
// # Rights
//
// They are decided here, by package perm, as for a local process, from attributes and ACL that JuiceFS
// has. JuiceFS is called as one who may do everything: its own checks differ from a kernel's, which decides before it in a
// mount, where the set-id bits, the times of others' files, sticky directories and moves of a directory below itself
// are concerned. A check and the change that follows are two transactions; JuiceFS's conditions on names (exists, is
// empty, is a directory) hold in the second.
//
// # Durability
//
// WriteAt gives data to JuiceFS's buffer, in which it is lost with the process. Sync has the file's buffers uploaded and
// its metadata committed, and returns when both services have them (file.go). What the metadata service or the object
// storage acknowledged is as durable as they are; those that are a directory of this machine, Badger and "file", do not sync by themselves,
// and so Sync does (local.go). Changes of names and attributes are transactions of the metadata service, in force when
// their method returns. Data that JuiceFS took and could not store is told by the next Sync of the file, once.
//
// # Locks
//
// They are those of the server's session in the volume, which other clients of the volume respect (locks.go). A process that is started after
// one which was killed goes on with the session (session.go), and holds what that one had locked while clients reclaim it (kept.go), until
// the lock manager calls EndGrace.
//
// # Cookies
//
// JuiceFS's positions in a directory are ordinals within one listing. A cookie here is a hash of the name (listing.go), so
// it stays what it is while others come and go, after a restart, and on any other server of the volume.
package juicefs
