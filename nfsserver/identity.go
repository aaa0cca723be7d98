// Trust in callers, and the effective user of a call: its flavor, the socket owner, squashing.

package nfsserver

import (
	"net"
	"slices"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Nobody is the user and group of unknown callers.
const Nobody = 65534

// Squash decides which callers are trusted, and their effective users. The zero value fits trusted
// machines with untrusted users. Callers from other machines have the identity they claim
// (AUTH_SYS), but root, and callers with AUTH_NONE, become Nobody. On this machine root may claim
// any user, as a kernel mount does. The kernel identifies other local users as owners of their
// sockets, with the groups known to this machine.
type Squash struct {
	// NoRootSquash keeps user and group 0 of callers (no_root_squash of exports(5)).
	NoRootSquash bool
	// All: every caller acts as UID, GID and GIDs. A server without privileges sets these to its
	// own user, because it makes its file system calls as that user anyway. Then only root and UID
	// are admitted of local users, unless UID is Nobody.
	All      bool
	UID, GID uint32
	GIDs     []uint32
	// ManageGIDs replaces a caller's supplementary groups by the user's groups on this machine,
	// because AUTH_SYS carries at most 16 (manage-gids of Linux's server). The primary group stays
	// as claimed. A user that is unknown, or not found in time, has no supplementary groups.
	ManageGIDs bool
	// TrustLocal trusts local callers like remote ones.
	TrustLocal bool
	// ReservedPort refuses TCP callers with a source port of 1024 and above, because other machines
	// give lower ports only to root (secure of exports(5)). Local callers with a known user are
	// exempt. RDMA is exempt too, because Linux's client connects from any port, and so are calls
	// with RPCSEC_GSS, which prove their user.
	ReservedPort bool
}

// reservedPorts is the first port usable without privilege.
const reservedPorts = 1024

// authorize is Authorize for MOUNT and Listen.Programs, to which the exports' demands do not apply.
func (s *Server) authorize(c *transport.Call) oncrpc.AuthStat {
	return s.admit(c, s.trusts(c))
}

// authorizeNFS is authorize for NFS, under the demands of the export.
func (s *Server) authorizeNFS(c *transport.Call) oncrpc.AuthStat {
	n := c.Number()
	atMount := n == nfs3.ProcGetattr || n == nfs3.ProcFsinfo
	return s.admit(c, s.trusts(c) && s.strongEnough(c, atMount))
}

// authorizeACL is authorize for NFSACL, under the demands of the export.
func (s *Server) authorizeACL(c *transport.Call) oncrpc.AuthStat {
	return s.admit(c, s.trusts(c) && s.strongEnough(c, false))
}

// admit counts an admitted call for its user.
func (s *Server) admit(c *transport.Call, ok bool) oncrpc.AuthStat {
	if !ok {
		return oncrpc.AuthTooWeak
	}
	if m := memoOf(c); m != nil {
		m.users.count(userOf(c))
	}
	return oncrpc.AuthOK
}

// trusts reports whether the caller is trusted, and logs the reason against it.
func (s *Server) trusts(c *transport.Call) bool {
	why := s.distrust(c)
	if why != "" {
		s.log.Warn("caller refused: "+why, "peer", c.Remote, "owner", c.Owner, "claims-uid", c.Cred.UID)
	}
	return why == ""
}

// distrust returns the reason to refuse the caller; "": trusted.
func (s *Server) distrust(c *transport.Call) transport.Cause {
	q := &s.squash
	switch owner := s.owner(c); {
	case owner.Kind == transport.OwnerUnknown:
		return "the kernel does not say whose connection it is: see --trust-local (Squash.TrustLocal in Go)"
	case owner.Kind == transport.OwnerRemote:
		if q.ReservedPort && !isGSS(c.Cred.Flavor) && s.fromOpenPort(c) {
			return "its source port is not below 1024: mount as root, or serve without --secure (Squash.ReservedPort in Go)"
		}
	case owner.UID == 0: // root speaks for others
	case q.All:
		if owner.UID != q.UID && q.UID != Nobody {
			return "another user of this machine would act as the one who runs the server: see --trust-local (Squash.TrustLocal in Go)"
		}
	case c.Cred.Flavor == oncrpc.FlavorSys && c.Cred.UID != owner.UID:
		return "a user of this machine claims to be another: see --trust-local (Squash.TrustLocal in Go)"
	}
	return ""
}

// owner returns the owner of the peer's socket; with TrustLocal every peer counts as remote.
func (s *Server) owner(c *transport.Call) transport.Owner {
	if s.squash.TrustLocal {
		return transport.Owner{Kind: transport.OwnerRemote}
	}
	return c.Owner
}

// port returns an address's port; for other addresses it returns an unreserved port.
func port(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return reservedPorts
}

// who returns call c's effective user under its caller's rights in the export. GIDs may alias c.
// The call has been authorized.
func (s *Server) who(c *transport.Call, may *rights) Cred {
	if may.all || !namesUser(&c.Cred) {
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

// squashRoot replaces user and group 0 by anon's (root_squash of exports(5)).
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
