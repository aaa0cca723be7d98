// Overview: POSIX ACLs, and Linux's access check.

// Package posixacl implements POSIX access control lists like Linux's: the model, its rules, and
// the format of the extended attributes system.posix_acl_access and system.posix_acl_default.
//
// An access ACL controls access to its own object; a directory's default ACL applies to new
// objects in it. Validation follows the kernel, which checks less than setfacl(1). Entries are in
// tag order. There is exactly one entry each for the owner, the owning group and all others, and
// at most one mask, which named users or groups require. Named IDs need neither be sorted nor
// unique.
//
// Linux checks in this order. The owner gets the owner entry's permissions, without the mask. A
// named user gets that entry's permissions, limited by the mask. For the owning group and the
// caller's named groups, one entry must grant all requested permissions, limited by the mask. If
// such entries match but none grants them, access is refused, even if the entry for others would
// grant it. All others get the entry for others.
//
// Mode and ACL are one: the owner's and others' bits are those entries. The group bits are the
// mask, or without a mask the owning group's entry. chmod(2) changes these entries.
package posixacl
