// The user as a server sees it: what ACCESS grants in a directory beside what its mode promises.

// Package rights explains the refusals of a server by the facts that a client has.
package rights

import (
	"context"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A View is the position of a user in a directory of an export, as far as a client can see it.
type View struct {
	UID, GID uint32
	GIDs     []uint32   // the supplementary groups
	Attr     nfs3.Fattr // of the directory
	Access   uint32     // the bits that ACCESS grants in it
}

// Look asks the server for the View of a directory. cred is the user of the calls.
func Look(ctx context.Context, c *nfsclient.Client, dir nfs3.FH, cred transport.Cred) (v View, err error) {
	v = View{UID: cred.UID, GID: cred.GID, GIDs: cred.GIDs}
	if v.Attr, err = c.Getattr(ctx, dir); err != nil {
		return v, err
	}
	v.Access, err = c.Access(ctx, dir, nfs3.AccessAll)
	return v, err
}

// The permissions of a directory, as in the last three bits of its mode.
const (
	read  = 0o4
	write = 0o2
	enter = 0o1
)

// granted is the permissions that the server grants.
func (v *View) granted() (perm uint32) {
	for bit, access := range map[uint32]uint32{read: nfs3.AccessRead, write: nfs3.AccessModify | nfs3.AccessExtend, enter: nfs3.AccessLookup} {
		if v.Access&access == access {
			perm |= bit
		}
	}
	return perm
}

// missing is the permissions that the mode gives to the user and that the server does not grant. An
// ACL can give a group less than the mode shows, so members of the group miss nothing.
func (v *View) missing() uint32 {
	perm := v.Attr.Mode & 0o7
	switch {
	case v.UID == 0:
		perm = read | write | enter
	case v.UID == v.Attr.UID:
		perm = v.Attr.Mode >> 6 & 0o7
	case v.GID == v.Attr.GID || slices.Contains(v.GIDs, v.Attr.GID):
		perm = 0
	}
	return perm &^ v.granted()
}

// AtMount is the line for the log of a new mount, which is readOnly or not: that the user acts as
// another one there, or that nothing can be changed. "" if the root directory of the export does
// not show it.
func (v *View) AtMount(readOnly bool) string {
	switch missing := v.missing(); {
	case missing == 0, missing == write && readOnly:
		return ""
	case missing == write:
		return fmt.Sprintf("%s is not allowed to write in the root directory of the export (mode %04o, owner %d): %s", v.name(), v.Attr.Mode&0o7777, v.Attr.UID, v.NoWrite())
	}
	return v.mapped()
}

// NoWrite is the two causes of a directory that its mode lets the user write, and the server does
// not; "" if the mode is the cause.
func (v *View) NoWrite() string {
	if v.missing()&write == 0 {
		return ""
	}
	return v.mapped() + ", or the export is read-only (to change it: " + readWrite + ")"
}

const (
	readWrite = "rw in exports(5); nfsrdmad: no --read-only"
	rootCure  = "no_root_squash in exports(5); nfsrdmad: --no-root-squash"
)

// name is the user in messages.
func (v *View) name() string {
	if v.UID == 0 {
		return "root"
	}
	return fmt.Sprintf("uid %d", v.UID)
}

// mapped is the cause of missing rights, with the options that change it.
func (v *View) mapped() string {
	if v.UID == 0 {
		return "root acts as another user there (root_squash; to change it: " + rootCure + ")"
	}
	return fmt.Sprintf("uid %d acts as another user there (all_squash or anonuid in exports(5), or the server runs as another user)", v.UID)
}

// Refusal explains a call that the server refused with a status; "" if the facts point to nothing.
// sure reports that they allow no other explanation.
func (v *View) Refusal(status nfs3.Status) (text string, sure bool) {
	missing := v.missing()
	root := v.UID == 0
	switch {
	case status == nfs3.ErrROFS:
		return "the export is read-only for this host; to change it: " + readWrite, true
	case status != nfs3.ErrAcces && status != nfs3.ErrPerm:
		return "", false
	case root && missing != 0:
		return v.mapped() + ", so run this as a user who has the right", true
	case root && v.rootHasAll():
		return "", false
	case root || missing != 0:
		return "perhaps " + v.mapped(), false
	}
	return "", false
}

// rootHasAll reports whether root has rights that no other user has there.
func (v *View) rootHasAll() bool {
	const others = 0o022
	return v.Attr.UID == 0 && v.Attr.Mode&others == 0
}
