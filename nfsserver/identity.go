// As whom a call acts: its AUTH_SYS identity, squashed as the exports ask.

package nfsserver

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/transport"
)

// Nobody is the user and group of callers who are not known.
const Nobody = 65534

// authSys is the flavor AUTH_SYS (RFC 5531 §8.1).
const authSys = 1

// Squash says as whom callers act. The zero value is what other servers call
// no_root_squash: callers are who they say they are, those of AUTH_NONE Nobody.
type Squash struct {
	Root bool // user and group 0 act as Nobody
	// All: every caller acts as UID, GID and GIDs. A server without privileges
	// sets it to its own user, as whom its file system calls are made anyway.
	All      bool
	UID, GID uint32
	GIDs     []uint32
}

// who returns the user as whom call c acts. GIDs may be part of c.
func (s *Server) who(c *transport.Call) Cred {
	if s.squash.All {
		return Cred{s.squash.UID, s.squash.GID, s.squash.GIDs}
	}
	if c.Cred.Flavor != authSys {
		return Cred{UID: Nobody, GID: Nobody}
	}
	w := Cred{c.Cred.UID, c.Cred.GID, c.Cred.GIDs}
	if !s.squash.Root {
		return w
	}
	if w.UID == 0 {
		return Cred{UID: Nobody, GID: Nobody}
	}
	if w.GID == 0 {
		w.GID = Nobody
	}
	if slices.Contains(w.GIDs, 0) {
		w.GIDs = slices.DeleteFunc(slices.Clone(w.GIDs), func(g uint32) bool { return g == 0 })
	}
	return w
}
