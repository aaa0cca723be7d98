// Numbers for the NFSACL protocol, version 3.

// Package nfsacl3 has the message types for NFSACL version 3, a companion program to NFS that
// gets and sets POSIX access control lists (ACLs). No RFC describes it: the format is Solaris's,
// as in Linux.
package nfsacl3

// Program and Version name NFSACL version 3 in an RPC call.
const (
	Program = 100227
	Version = 3
)

// Procedure numbers.
const (
	ProcNull   uint32 = 0
	ProcGetACL uint32 = 1
	ProcSetACL uint32 = 2
)

// Mask bits: the requested or included parts.
const (
	MaskAccess       uint32 = 1 << 0 // NFS_ACL: the access ACL
	MaskAccessCount  uint32 = 1 << 1 // NFS_ACLCNT: the access ACL's number of entries
	MaskDefault      uint32 = 1 << 2 // NFS_DFACL: a directory's default ACL
	MaskDefaultCount uint32 = 1 << 3 // NFS_DFACLCNT: the default ACL's number of entries
	MaskAll                 = MaskAccess | MaskAccessCount | MaskDefault | MaskDefaultCount
)

// MaxEntries is the most entries in an ACL on the wire (NFS_ACL_MAX_ENTRIES).
const MaxEntries = 1024

// Entry tags, with the numbers of Linux's ACL_* (acl(5)).
const (
	TagUserObj  uint32 = 0x01 // the owner
	TagUser     uint32 = 0x02 // the user ID
	TagGroupObj uint32 = 0x04 // the owning group
	TagGroup    uint32 = 0x08 // the group ID
	TagMask     uint32 = 0x10 // limits TagUser, TagGroupObj and TagGroup
	TagOther    uint32 = 0x20 // all others
)

// tagDefault marks a default ACL's entries, only on the wire.
const tagDefault uint32 = 0x1000

// noID is never a valid user or group.
const noID = ^uint32(0)
