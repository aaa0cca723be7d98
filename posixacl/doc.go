// The package: what an ACL is, and how Linux decides by one.

// Package posixacl holds POSIX access control lists as Linux has them: the model, its rules, and
// the bytes of the extended attributes system.posix_acl_access and system.posix_acl_default.
//
// An access ACL decides about its own object, a default ACL of a directory about what is made in
// it. The format of acl(5) is checked as the kernel checks it, which is less than setfacl(1) does:
// the entries stand in the order of their tags, there is one each for the owner, the owning group
// and all others, at most one mask, and one where users or groups are named. Named ids are neither
// sorted nor unique there, and so need not be here.
//
// Linux decides in this order: the owner has what the entry for the owner says, and no mask counts.
// A user who is named has that entry's permissions, less what the mask leaves out. Of the owning
// group and the named groups that the caller is in, one entry has to give all that is asked for,
// less the mask; where several match and none gives it, access is refused, though "others" would
// give it. All others have what the entry for others says.
//
// Mode and ACL are one: the bits of the owner and of others are those entries, the bits of the
// group are the mask where there is one, else the entry of the owning group. chmod(2) writes them
// there.
package posixacl
