// A call's effective user, as file systems receive it.

package nfsserver

import "os"

// A Cred is a call's effective user on a file system. It is passed by value, without an allocation.
// To keep a Cred longer than the call, copy GIDs.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32 // supplementary groups, unordered
	// Call identifies a call that changes names, if Info.RecordsCalls is set. It is valid while the
	// FS's method runs. nil: unknown.
	Call *CallID
}

// Permissions, as in one digit of a mode and in access(2).
const (
	MayExec  = 1 << iota // search, for a directory
	MayWrite             // create and remove names, for a directory
	MayRead
)

// Self returns this process's user as a Cred.
func Self() Cred {
	c := Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		c.GIDs = append(c.GIDs, uint32(g))
	}
	return c
}
