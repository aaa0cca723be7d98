// The user as a server sees it: ACCESS grants compared with the directory's mode.

// Package rights explains a server's refusals from facts that the client has.
package rights

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A View is a user's position in a directory of an export, as far as a client can see it.
type View struct {
	UID, GID uint32
	GIDs     []uint32   // the user's supplementary groups
	Dir      string     // the directory in messages; "": the root directory of the export
	Attr     nfs3.Fattr // attributes of Dir
	Access   uint32     // the bits that ACCESS grants in Dir
	Export   ExportKind // set by AskReadOnly
}

// An ExportKind states whether an export is read-only for this host.
type ExportKind uint8

// The kinds.
const (
	NotAsked ExportKind = iota
	ReadOnly
	ReadWrite
)

// Look asks the server for the View of a directory. cred is the user of the calls.
func Look(ctx context.Context, c *nfsclient.Client, dir nfs3.FH, cred transport.Cred) (v View, err error) {
	v = View{UID: cred.UID, GID: cred.GID, GIDs: cred.GIDs}
	if v.Attr, err = c.Getattr(ctx, dir); err != nil {
		return v, err
	}
	v.Access, err = c.Access(ctx, dir, nfs3.AccessAll)
	return v, err
}

// AskReadOnly sets v.Export if the user cannot write in the directory. It sends a REMOVE of a
// nonexistent name, because ACCESS also denies for other reasons. Servers check for a read-only
// export before the name, so the status of REMOVE shows a read-only export.
func (v *View) AskReadOnly(ctx context.Context, c *nfsclient.Client, dir nfs3.FH) {
	if v.granted()&write != 0 {
		return
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	switch err := c.Remove(ctx, dir, ".nfsrdma-none-"+hex.EncodeToString(id[:])); {
	case errors.Is(err, nfs3.ErrROFS):
		v.Export = ReadOnly
	case errors.Is(err, nfs3.ErrAcces), errors.Is(err, nfs3.ErrPerm), errors.Is(err, nfs3.ErrNoEnt):
		v.Export = ReadWrite
	}
}

// Permission bits for one class of users, as in the last three bits of a mode.
const (
	read  = 0o4
	write = 0o2
	enter = 0o1
)

// granted returns the permissions that ACCESS grants.
func (v *View) granted() (perm uint32) {
	for bit, access := range map[uint32]uint32{read: nfs3.AccessRead, write: nfs3.AccessModify | nfs3.AccessExtend, enter: nfs3.AccessLookup} {
		if v.Access&access == access {
			perm |= bit
		}
	}
	return perm
}

// byMode returns the permissions that the mode gives the user.
func (v *View) byMode() uint32 {
	switch {
	case v.UID == 0:
		return read | write | enter
	case v.UID == v.Attr.UID:
		return v.Attr.Mode >> 6 & 0o7
	case v.member():
		return v.Attr.Mode >> 3 & 0o7
	}
	return v.Attr.Mode & 0o7
}

// member reports whether the user is in the directory's group.
func (v *View) member() bool { return v.GID == v.Attr.GID || slices.Contains(v.GIDs, v.Attr.GID) }

// missing returns the permissions that the mode gives and ACCESS denies. An ACL can give a group
// less than the mode shows, so the result is 0 for group members.
func (v *View) missing() uint32 {
	if v.UID != 0 && v.UID != v.Attr.UID && v.member() {
		return 0
	}
	return v.byMode() &^ v.granted()
}

// modeForbids reports whether the mode is the reason why the user cannot write.
func (v *View) modeForbids() bool { return v.byMode()&write == 0 && v.granted()&write == 0 }

// AtMount returns the log line for a new mount: that the server maps the user to another user, or
// that nothing can be changed. It returns "" if the export's root directory shows neither, or if it
// only shows that a readOnly mount is read-only.
//
// For a squashed root the line is returned only if no other user could write there either. A mount
// by root serves all users, who write in their home directories, so the line would be noise at each
// boot. verbose returns the line nevertheless.
func (v *View) AtMount(readOnly, verbose bool) string {
	missing := v.missing()
	switch {
	case v.granted()&write == 0 && readOnly && missing&^write == 0:
		return ""
	case v.Export == ReadOnly:
		return readOnlyText + "; mount it with ro, and this line ends"
	case missing == 0 && !v.modeForbids():
		return ""
	case v.UID == 0 && !v.rootHasAll() && !verbose:
		return ""
	case missing&^write == 0:
		return v.noRight() + ": " + v.NoWrite()
	}
	return v.mapped()
}

// noRight says that the user has no write permission.
func (v *View) noRight() string {
	return fmt.Sprintf("%s is not allowed to write in %s (mode %04o, owner %d)", v.name(), cmp.Or(v.Dir, "the root directory of the export"), v.Attr.Mode&0o7777, v.Attr.UID)
}

// NoWrite returns the cause of missing write permission in a directory, or several possible causes.
func (v *View) NoWrite() string {
	switch {
	case v.Export == ReadOnly:
		return readOnlyText
	case v.missing()&write == 0:
		return "the directory's mode and owner" + v.orReadOnly(", and ro or rw in exports(5) (nfsrdmad: --read-only)") + " decide; " + modeCure
	}
	return v.mapped() + v.orReadOnly(", or the export is read-only (to change it: "+readWrite+")")
}

// orReadOnly returns text unless the export is known to be writable.
func (v *View) orReadOnly(text string) string {
	if v.Export == ReadWrite {
		return ""
	}
	return text
}

const (
	readOnlyText = "the export is read-only for this host; to change it: " + readWrite

	readWrite = "rw in exports(5); nfsrdmad: no --read-only"
	modeCure  = "chown or chmod it on the server, or use it as a user who has the right"
	rootCure  = "no_root_squash in exports(5); nfsrdmad: --no-root-squash"
)

// name returns the user's name for messages.
func (v *View) name() string {
	if v.UID == 0 {
		return "root"
	}
	return fmt.Sprintf("uid %d", v.UID)
}

// mapped returns a text about the mapping as the cause of missing rights, with the options to
// change.
func (v *View) mapped() string {
	if v.UID == 0 {
		return "root acts as another user there (root_squash; to change it: " + rootCure + ")"
	}
	return fmt.Sprintf("uid %d acts as another user there (all_squash or anonuid in exports(5), or the server runs as another user)", v.UID)
}

// changesNames lists the procedures that need write permission for a directory.
var changesNames = []uint32{nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod, nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink}

// Refusal explains a refused call, or returns "" if v's facts explain nothing. sure reports that no
// other explanation is possible.
func (v *View) Refusal(e nfsclient.StatusError) (text string, sure bool) {
	missing := v.missing()
	root := v.UID == 0
	switch {
	case e.Status == nfs3.ErrROFS:
		return readOnlyText, true
	case e.Status != nfs3.ErrAcces && e.Status != nfs3.ErrPerm:
		return "", false
	case root && missing != 0:
		return v.mapped() + ", so run this as a user who has the right", true
	case root && v.rootHasAll():
		return "", false
	case root || missing != 0:
		return "perhaps " + v.mapped(), false
	case v.modeForbids() && slices.Contains(changesNames, e.Proc):
		return v.noRight() + ": " + modeCure, true
	}
	return "", false
}

// rootHasAll reports whether the mode lets only root write in the directory.
func (v *View) rootHasAll() bool {
	const others = 0o022
	return v.Attr.UID == 0 && v.Attr.Mode&others == 0
}
