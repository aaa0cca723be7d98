// Whom the server believes, and as whom a call acts: AUTH_SYS, the owner of the peer's socket,
// squashing.

package nfsserver

import (
	"net"
	"slices"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Nobody is the user and group of callers who are not known.
const Nobody = 65534

// Squash says who is believed, and as whom callers act. The zero value is right where
// machines are trusted and their users are not: callers from other machines are who
// they say they are (AUTH_SYS), but their root is Nobody, and so are those of AUTH_NONE.
// On this machine root speaks for others, as a kernel's mount does; everybody else
// is who the kernel says owns their socket, with the groups that this machine knows of.
type Squash struct {
	// NoRootSquash leaves user and group 0 of callers what they are (no_root_squash of exports(5)).
	NoRootSquash bool
	// All: every caller acts as UID, GID and GIDs. A server without privileges
	// sets it to its own user, as whom its file system calls are made anyway. On this
	// machine nobody but root and UID itself is let in, unless UID is Nobody.
	All      bool
	UID, GID uint32
	GIDs     []uint32
	// ManageGIDs gives callers the supplementary groups that this machine knows of for
	// their user, instead of the at most 16 that AUTH_SYS has room for (manage-gids of
	// Linux's server). The primary group stays what they say; who is not known here,
	// or not in time, has no others.
	ManageGIDs bool
	// TrustLocal believes callers on this machine as it does those on others.
	TrustLocal bool
	// ReservedPort refuses callers over TCP whose source port is not below 1024, which
	// other machines give to root only (secure of exports(5)). Callers on this machine
	// whose user is known need none, and over RDMA there is none to ask for: Linux's
	// client connects from any port.
	ReservedPort bool
}

// reservedPorts is the end of those that a process needs privilege for.
const reservedPorts = 1024

// authorize decides for each call of all programs, NULL apart, whether it is let in, and notes
// whose it is.
func (s *Server) authorize(c *transport.Call) oncrpc.AuthStat {
	why := s.distrust(c)
	if why == "" {
		if m := memoOf(c); m != nil {
			m.users.count(userOf(c))
		}
		return oncrpc.AuthOK
	}
	s.log.Warn("caller refused: "+why, "peer", c.Remote, "owner", c.Owner, "claims-uid", c.Cred.UID)
	return oncrpc.AuthTooWeak
}

// distrust says why the caller is not believed; "": it is.
func (s *Server) distrust(c *transport.Call) transport.Cause {
	q := &s.squash
	switch owner := s.owner(c); {
	case owner.Kind == transport.OwnerUnknown:
		return "the kernel does not say whose connection it is: see --trust-local (Squash.TrustLocal in Go)"
	case owner.Kind == transport.OwnerRemote:
		if q.ReservedPort && !c.RDMA && port(c.Remote) >= reservedPorts {
			return "its source port is not below 1024: mount as root, or serve without --secure (Squash.ReservedPort in Go)"
		}
	case owner.UID == 0: // speaks for others
	case q.All:
		if owner.UID != q.UID && q.UID != Nobody {
			return "another user of this machine would act as the one who runs the server: see --trust-local (Squash.TrustLocal in Go)"
		}
	case c.Cred.Flavor == oncrpc.FlavorSys && c.Cred.UID != owner.UID:
		return "a user of this machine claims to be another: see --trust-local (Squash.TrustLocal in Go)"
	}
	return ""
}

// owner is who has the peer's socket, as far as that is asked for.
func (s *Server) owner(c *transport.Call) transport.Owner {
	if s.squash.TrustLocal {
		return transport.Owner{Kind: transport.OwnerRemote}
	}
	return c.Owner
}

// port is that of an address, or one that is not reserved.
func port(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return reservedPorts
}

// who returns the user as whom call c acts, with the rights of its caller in the export. GIDs may
// be part of c. The call has been authorized.
func (s *Server) who(c *transport.Call, may *rights) Cred {
	if may.all || c.Cred.Flavor != oncrpc.FlavorSys {
		return may.anon
	}
	w := Cred{UID: c.Cred.UID, GID: c.Cred.GID, GIDs: c.Cred.GIDs}
	if owner := s.owner(c); owner.Kind == transport.OwnerLocal && owner.UID != 0 {
		s.groups.limit(&w)
	}
	if s.squash.ManageGIDs {
		s.groups.replace(&w)
	}
	if may.root {
		return w
	}
	if w.UID == 0 {
		s.logSquash(c, may)
	}
	return w.squashRoot(&may.anon)
}

// squashRoot takes user and group 0 away (root_squash of exports(5)); anon takes their place.
func (w Cred) squashRoot(anon *Cred) Cred {
	if w.UID == 0 {
		return *anon
	}
	if w.GID == 0 {
		w.GID = anon.GID
	}
	if slices.Contains(w.GIDs, 0) {
		w.GIDs = slices.DeleteFunc(slices.Clone(w.GIDs), func(g uint32) bool { return g == 0 })
	}
	return w
}
