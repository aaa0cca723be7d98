// Credentials: AUTH_NONE and AUTH_SYS (RFC 5531 §8, §10 and appendix A).

package transport

import (
	"bytes"
	"os"
	"slices"
	"sync"

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

// authenticate checks a credential of AUTH_NONE or AUTH_SYS, and its verifier.
func (c *Call) authenticate(h *oncrpc.CallHeader, creds *credCache) oncrpc.AuthStat {
	switch h.Cred.Flavor {
	case oncrpc.FlavorNone:
		c.Cred = Cred{}
	case oncrpc.FlavorSys:
		cred, ok := creds.sys(h.Cred.Body)
		if !ok {
			return oncrpc.AuthBadCred
		}
		c.Cred = cred
	}
	// Both flavours use a verifier of AUTH_NONE (RFC 5531 §10.1, appendix A).
	if h.Verf.Flavor != oncrpc.FlavorNone {
		return oncrpc.AuthBadVerf
	}
	return oncrpc.AuthOK
}

// A credCache remembers a connection's last credentials by their bytes, so that a caller's next
// call costs a comparison and no allocation.
type credCache struct {
	mu sync.Mutex // guards all

	entries [4]struct {
		body []byte
		cred Cred
	}
	hand int
}

// sys returns the credential encoded in body. All calls with the same bytes share its memory.
func (cc *credCache) sys(body []byte) (Cred, bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for i := range cc.entries {
		if e := &cc.entries[i]; e.body != nil && bytes.Equal(e.body, body) {
			return e.cred, true
		}
	}
	var a oncrpc.AuthSys
	if a.Parse(body) != nil {
		return Cred{}, false
	}
	e := &cc.entries[cc.hand]
	cc.hand = (cc.hand + 1) % len(cc.entries)
	e.body = slices.Clone(body)
	e.cred = Cred{Flavor: oncrpc.FlavorSys, Machine: string(a.Machine), UID: a.UID, GID: a.GID, GIDs: slices.Clone(a.Groups())}
	return e.cred, true
}
