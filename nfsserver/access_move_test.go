// Permissions that depend on two directories.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Moving a directory to another directory changes its "..", so it needs write permission on the
// moved one. A rename in place, and the move of a file, do not.
func TestMoveOfDirectory(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		a, b := c.dir(c.root, "a", 0o777), c.dir(c.root, "b", 0o777)
		c.dir(a, "d", 0o755) // root owns it
		c.file(a, "f", 0o644)
		u := h.dial(user)
		u.want("RENAME in its place", u.rename(a, "d", a, "e").Status, nfs3.OK)
		u.want("RENAME of a file", u.rename(a, "f", b, "f").Status, nfs3.OK)
		u.want("RENAME to another directory", u.rename(a, "e", b, "e").Status, nfs3.ErrAcces)
		c.want("by the superuser", c.rename(a, "e", b, "e").Status, nfs3.OK)
		fh := c.lookup(b, "e").FH
		c.want("SETATTR", c.setattr(fh, nfs3.Sattr{SetMode: true, Mode: 0o777}).Status, nfs3.OK)
		u.want("one that may be written to", u.rename(b, "e", a, "e").Status, nfs3.OK)
		u.want("nothing", u.rename(b, "e", a, "x").Status, nfs3.ErrNoEnt)
	})
}

// CREATE that truncates a file clears its set-id bits, like any other change of its content.
func TestCreateKillsSetID(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		c.want("SETATTR", c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o777}).Status, nfs3.OK)
		fh := c.file(c.root, "prog", 0o6777)
		c.write(fh, 0, "old", nfs3.FileSync)
		u := h.dial(user)
		u.want("CREATE", u.create(c.root, "prog", nfs3.Unchecked, nfs3.Sattr{SetSize: true}, nfs3.Verf{}).Status, nfs3.OK)
		if a := c.attr(fh); a.Size != 0 || a.Mode != 0o777 {
			t.Errorf("size %d, mode %04o", a.Size, a.Mode)
		}
	})
}
