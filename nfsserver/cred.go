// The user as whom a call acts, as file systems are told.

package nfsserver

import "os"

// A Cred is the user as whom a call acts on a file system. It is passed by value,
// so that a call allocates nothing for it; who keeps it longer than the call copies GIDs.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32 // supplementary groups, in no order
	// Call is that of a change of names, if Info.RecordsCalls is set; valid as long as the FS's
	// method runs. nil: it is not known.
	Call *CallID
}

// Permissions, as in one digit of a mode and in access(2).
const (
	MayExec  = 1 << iota // search, for a directory
	MayWrite             // make and remove names, for a directory
	MayRead
)

// Self returns the user as whom this process acts.
func Self() Cred {
	c := Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		c.GIDs = append(c.GIDs, uint32(g))
	}
	return c
}
