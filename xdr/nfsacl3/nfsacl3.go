// Numbers of the NFSACL protocol, version 3.

// Package nfsacl3 holds the message types of NFSACL version 3, the program beside NFS that reads
// and sets POSIX access control lists (ACLs). No RFC describes it: the format is Solaris's, as
// Linux speaks it.
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

// Bits of a mask: what is asked for, and what travels.
const (
	MaskAccess       uint32 = 1 << 0 // NFS_ACL: the access ACL
	MaskAccessCount  uint32 = 1 << 1 // NFS_ACLCNT: how many entries it has
	MaskDefault      uint32 = 1 << 2 // NFS_DFACL: the default ACL of a directory
	MaskDefaultCount uint32 = 1 << 3 // NFS_DFACLCNT: how many entries it has
	MaskAll                 = MaskAccess | MaskAccessCount | MaskDefault | MaskDefaultCount
)

// MaxEntries is the most entries of an ACL on the wire (NFS_ACL_MAX_ENTRIES).
const MaxEntries = 1024

// Tags of entries: whom an entry is about. They have the numbers of Linux's ACL_* (acl(5)).
const (
	TagUserObj  uint32 = 0x01 // the owner
	TagUser     uint32 = 0x02 // the user ID
	TagGroupObj uint32 = 0x04 // the owning group
	TagGroup    uint32 = 0x08 // the group ID
	TagMask     uint32 = 0x10 // the most that TagUser, TagGroupObj and TagGroup allow
	TagOther    uint32 = 0x20 // everybody else
)

// tagDefault is set beside the tag of a default ACL's entries, on the wire only.
const tagDefault uint32 = 0x1000

// noID is the user or group that none is.
const noID = ^uint32(0)
