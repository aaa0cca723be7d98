// Refusals explained by facts: users, modes, and the bits that ACCESS grants.

package rights

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// The bits that ACCESS grants in a directory.
const (
	list  = nfs3.AccessRead | nfs3.AccessLookup
	alter = nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
)

func viewOf(uid, gid, mode, owner, group, access uint32) *View {
	return &View{UID: uid, GID: gid, GIDs: []uint32{60}, Attr: nfs3.Fattr{Mode: mode, UID: owner, GID: group}, Access: access}
}

func TestRefusal(t *testing.T) {
	const root, user = "root acts as another user there (root_squash; ", "uid 7 acts as another user there (all_squash or anonuid in exports(5)"
	for name, c := range map[string]struct {
		view   *View
		status nfs3.Status
		want   string // "": no text
		sure   bool
	}{
		"squashed":                 {viewOf(0, 0, 0o755, 0, 0, list), nfs3.ErrAcces, root, true},
		"squashed, private":        {viewOf(0, 0, 0o700, 7, 7, 0), nfs3.ErrAcces, root, true},
		"squashed, all may write":  {viewOf(0, 0, 0o777, 0, 0, list|alter), nfs3.ErrPerm, "perhaps " + root, false},
		"squashed to the owner":    {viewOf(0, 0, 0o755, 7, 7, list|alter), nfs3.ErrAcces, "perhaps " + root, false},
		"root is root":             {viewOf(0, 0, 0o755, 0, 0, list|alter), nfs3.ErrPerm, "", false},
		"read-only, root":          {viewOf(0, 0, 0o755, 0, 0, list), nfs3.ErrROFS, "the export is read-only for this host; to change it: rw in exports(5); nfsrdmad: no --read-only", true},
		"read-only, user":          {viewOf(7, 7, 0o755, 7, 7, list), nfs3.ErrROFS, "the export is read-only", true},
		"the owner is refused":     {viewOf(7, 7, 0o755, 7, 7, list), nfs3.ErrAcces, "perhaps " + user, false},
		"others are refused":       {viewOf(7, 7, 0o755, 0, 0, 0), nfs3.ErrAcces, "perhaps " + user, false},
		"by the mode":              {viewOf(7, 7, 0o755, 0, 0, list), nfs3.ErrAcces, "", false},
		"by the ACL of a group":    {viewOf(7, 7, 0o775, 0, 60, list), nfs3.ErrAcces, "", false},
		"a status of other causes": {viewOf(0, 0, 0o755, 0, 0, list), nfs3.ErrNoSpc, "", false},
	} {
		got, sure := c.view.Refusal(c.status)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if sure != c.sure {
			t.Errorf("%s: sure is %v, want %v", name, sure, c.sure)
		}
	}
}

func TestAtMount(t *testing.T) {
	for name, c := range map[string]struct {
		view     *View
		readOnly bool
		want     string // "": no line
	}{
		"squashed or read-only": {viewOf(0, 0, 0o755, 0, 0, list), false, "root is not allowed to write in the root directory of the export (mode 0755, owner 0): root acts as another user there"},
		"a read-only mount":     {viewOf(0, 0, 0o755, 0, 0, list), true, ""},
		"squashed, private":     {viewOf(0, 0, 0o700, 7, 7, 0), true, "root acts as another user there (root_squash; to change it: no_root_squash in exports(5); nfsrdmad: --no-root-squash)"},
		"root is root":          {viewOf(0, 0, 0o700, 7, 7, list|alter), false, ""},
		"the owner is refused":  {viewOf(7, 7, 0o755, 7, 7, list), false, "uid 7 is not allowed to write in the root directory"},
		"by the mode":           {viewOf(7, 7, 0o755, 0, 0, list), false, ""},
	} {
		got := c.view.AtMount(c.readOnly)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
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
