// Credentials: AUTH_NONE and AUTH_SYS (RFC 5531 §8, §10 and appendix A).

package transport

import (
	"os"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Cred is a caller's credential: AUTH_NONE, AUTH_SYS (RFC 5531 §8.2, appendix A), or what a
// SecurityFlavor has established.
type Cred struct {
	// Flavor is oncrpc.FlavorNone, FlavorSys, or an inbound RPCSEC_GSS call's pseudo-flavor
	// (oncrpc.FlavorKrb5).
	Flavor  oncrpc.Flavor
	Machine string
	UID     uint32
	GID     uint32
	GIDs    []uint32 // at most 16 in AUTH_SYS
	// Principal is the name that RPCSEC_GSS has authenticated ("alice@EXAMPLE.ORG"); otherwise "".
	// UID, GID and GIDs are then the server's own for that name.
	Principal string
}

// SysCred returns this process's AUTH_SYS credential.
func SysCred() Cred {
	c := Cred{Flavor: oncrpc.FlavorSys, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	c.Machine, _ = os.Hostname()
	c.Machine = c.Machine[:min(len(c.Machine), oncrpc.MaxMachine)]
	groups, _ := os.Getgroups()
	c.GIDs = credGroups(c.GID, groups)
	return c
}

// credGroups returns a credential's supplementary groups, without gid, as many as fit.
func credGroups(gid uint32, groups []int) (gids []uint32) {
	for _, g := range groups {
		if len(gids) < oncrpc.MaxGIDs && uint32(g) != gid {
			gids = append(gids, uint32(g))
		}
	}
	return gids
}

// body returns the credential's encoded body for each call.
func (c *Cred) body() []byte {
	if c.Flavor != oncrpc.FlavorSys {
		return nil
	}
	a := oncrpc.AuthSys{Machine: []byte(c.Machine[:min(len(c.Machine), oncrpc.MaxMachine)]), UID: c.UID, GID: c.GID}
	a.SetGroups(c.GIDs)
	e := xdr.NewEncoder(nil)
	a.EncodeXDR(e)
	return e.Bytes()
}

// An Auth is an encoded credential, for one caller's calls by Client.CallAs. It is immutable and
// safe for concurrent use.
type Auth struct {
	opaque  oncrpc.OpaqueAuth
	session Session // instead of opaque, if not nil
}

// NewAuth encodes a credential.
func NewAuth(c Cred) *Auth {
	return &Auth{opaque: oncrpc.OpaqueAuth{Flavor: c.Flavor, Body: c.body()}}
}
