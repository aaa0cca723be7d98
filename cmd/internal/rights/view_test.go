// Refusals explained by facts: users, modes, and the bits that ACCESS grants.

package rights

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Bits that ACCESS grants in a directory.
const (
	list  = nfs3.AccessRead | nfs3.AccessLookup
	alter = nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
)

func viewOf(uid, gid, mode, owner, group, access uint32) *View {
	return &View{UID: uid, GID: gid, GIDs: []uint32{60}, Attr: nfs3.Fattr{Mode: mode, UID: owner, GID: group}, Access: access}
}

func TestRefusal(t *testing.T) {
	const root, user = "root acts as another user there (root_squash; ", "uid 7 acts as another user there (all_squash or anonuid in exports(5)"
	const create = nfs3.ProcCreate
	for name, c := range map[string]struct {
		view   *View
		proc   uint32
		status nfs3.Status
		want   string // "": no text
		sure   bool
	}{
		"squashed":                  {viewOf(0, 0, 0o755, 0, 0, list), create, nfs3.ErrAcces, root, true},
		"squashed, private":         {viewOf(0, 0, 0o700, 7, 7, 0), create, nfs3.ErrAcces, root, true},
		"squashed, all may write":   {viewOf(0, 0, 0o777, 0, 0, list|alter), create, nfs3.ErrPerm, "perhaps " + root, false},
		"squashed to the owner":     {viewOf(0, 0, 0o755, 7, 7, list|alter), create, nfs3.ErrAcces, "perhaps " + root, false},
		"root is root":              {viewOf(0, 0, 0o755, 0, 0, list|alter), create, nfs3.ErrPerm, "", false},
		"read-only, root":           {viewOf(0, 0, 0o755, 0, 0, list), create, nfs3.ErrROFS, "the export is read-only for this host; to change it: rw in exports(5); nfsrdmad: no --read-only", true},
		"read-only, user":           {viewOf(7, 7, 0o755, 7, 7, list), create, nfs3.ErrROFS, "the export is read-only", true},
		"the owner is refused":      {viewOf(7, 7, 0o755, 7, 7, list), create, nfs3.ErrAcces, "perhaps " + user, false},
		"others are refused":        {viewOf(7, 7, 0o755, 0, 0, 0), create, nfs3.ErrAcces, "perhaps " + user, false},
		"by the mode":               {viewOf(7, 7, 0o755, 0, 0, list), create, nfs3.ErrAcces, "uid 7 is not allowed to write in the root directory of the export (mode 0755, owner 0): chown or chmod it", true},
		"by the mode of the group":  {viewOf(7, 60, 0o757, 0, 60, list), create, nfs3.ErrAcces, "uid 7 is not allowed to write", true},
		"by the mode of the owner":  {viewOf(7, 7, 0o577, 7, 7, list), nfs3.ProcRename, nfs3.ErrAcces, "uid 7 is not allowed to write", true},
		"of a file in it":           {viewOf(7, 7, 0o755, 0, 0, list), nfs3.ProcRead, nfs3.ErrAcces, "", false},
		"of a file that is changed": {viewOf(7, 7, 0o755, 0, 0, list), nfs3.ProcSetattr, nfs3.ErrPerm, "", false},
		"by the ACL of a group":     {viewOf(7, 7, 0o775, 0, 60, list), create, nfs3.ErrAcces, "", false},
		"a status of other causes":  {viewOf(0, 0, 0o755, 0, 0, list), create, nfs3.ErrNoSpc, "", false},
	} {
		got, sure := c.view.Refusal(nfsclient.StatusError{Proc: c.proc, Status: c.status})
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if sure != c.sure {
			t.Errorf("%s: sure is %v, want %v", name, sure, c.sure)
		}
	}
}

func TestAtMount(t *testing.T) {
	const notAllowed = "root is not allowed to write in the root directory of the export (mode 0755, owner 0): "
	const cure = "root_squash; to change it: no_root_squash in exports(5); nfsrdmad: --no-root-squash)"
	const squashed = "root acts as another user there (" + cure
	const readOnly = "the export is read-only for this host; to change it: rw in exports(5); nfsrdmad: no --read-only"
	for name, c := range map[string]struct {
		view              *View
		export            ExportKind
		readOnly, verbose bool
		want              string // "": no line
	}{
		"squashed or read-only":  {viewOf(0, 0, 0o755, 0, 0, list), NotAsked, false, false, notAllowed + squashed + ", or the export is read-only (to change it: rw in exports(5); nfsrdmad: no --read-only)"},
		"squashed":               {viewOf(0, 0, 0o755, 0, 0, list), ReadWrite, false, false, notAllowed + squashed},
		"read-only":              {viewOf(0, 0, 0o755, 0, 0, list), ReadOnly, false, false, readOnly + "; mount it with ro, and this line ends"},
		"read-only, for a user":  {viewOf(7, 7, 0o755, 0, 0, list), ReadOnly, false, false, readOnly + "; mount it with ro, and this line ends"},
		"a read-only mount":      {viewOf(0, 0, 0o755, 0, 0, list), NotAsked, true, true, ""},
		"a user's":               {viewOf(0, 0, 0o755, 7, 7, list), ReadWrite, false, false, ""},
		"a user's, verbose":      {viewOf(0, 0, 0o755, 7, 7, list), ReadWrite, false, true, "root is not allowed to write in the root directory of the export (mode 0755, owner 7): " + squashed},
		"a group's":              {viewOf(0, 0, 0o775, 0, 7, list), ReadWrite, false, false, ""},
		"a user's, private":      {viewOf(0, 0, 0o700, 7, 7, 0), NotAsked, false, false, ""},
		"root's, private":        {viewOf(0, 0, 0o700, 0, 0, 0), NotAsked, true, false, squashed},
		"root is root":           {viewOf(0, 0, 0o700, 7, 7, list|alter), NotAsked, false, true, ""},
		"the owner is refused":   {viewOf(7, 7, 0o755, 7, 7, list), ReadWrite, false, false, "uid 7 is not allowed to write in the root directory of the export (mode 0755, owner 7): uid 7 acts as another user there (all_squash or anonuid in exports(5), or the server runs as another user)"},
		"by the mode":            {viewOf(7, 7, 0o755, 0, 0, list), ReadWrite, false, false, "uid 7 is not allowed to write in the root directory of the export (mode 0755, owner 0): the directory's mode and owner decide; chown or chmod it on the server, or use it as a user who has the right"},
		"by the mode, read-only": {viewOf(7, 7, 0o755, 0, 0, list), NotAsked, true, true, ""},
		"by the ACL of a group":  {viewOf(7, 7, 0o775, 0, 60, list), ReadWrite, false, true, ""},
	} {
		c.view.Export = c.export
		if got := c.view.AtMount(c.readOnly, c.verbose); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestAmong(t *testing.T) {
	host := netip.MustParseAddr("192.0.2.7")
	for _, c := range []struct {
		groups string
		host   netip.Addr
		want   Membership
	}{
		{"", host, Listed}, {"*", host, Listed}, {"192.0.2.7", host, Listed}, {"192.0.2.0/24(rw)", host, Listed},
		{"192.0.2.8 198.51.100.0/24", host, NotListed}, {"192.0.2.8 pc.example.org", host, Unknown},
		{"192.0.2.7", netip.Addr{}, Unknown}, {"*", netip.Addr{}, Listed},
	} {
		if got := Among(strings.Fields(c.groups), c.host); got != c.want {
			t.Errorf("%v among %q: %d, want %d", c.host, c.groups, got, c.want)
		}
	}
}
