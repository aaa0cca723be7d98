// Names do not cross exports: RENAME and LINK between two exports fail with XDEV.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestNamesDoNotCrossExports: two exports have trees of the same kind, so a handle of one would
// have a meaning in the other. A refused call changes neither.
func TestNamesDoNotCrossExports(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{
		{Name: "/x", FS: memfs.New(memfs.Options{})}, {Name: "/y", FS: memfs.New(memfs.Options{})}}})
	x, y := h.dial(root).mount("/x"), h.dial(root).mount("/y")
	f, d := x.file(x.root, "f", 0o644), x.dir(x.root, "d", 0o755)
	x.want("WRITE", x.write(f, 0, "of x", nfs3.FileSync).Status, nfs3.OK)
	g := y.file(y.root, "g", 0o644)
	x.want("RENAME to another export", x.rename(x.root, "f", y.root, "f").Status, nfs3.ErrXDev)
	x.want("RENAME over a file of another export", x.rename(x.root, "f", y.root, "g").Status, nfs3.ErrXDev)
	x.want("RENAME of a directory", x.rename(x.root, "d", y.root, "d").Status, nfs3.ErrXDev)
	x.want("LINK in another export", x.link(f, y.root, "f").Status, nfs3.ErrXDev)
	for name, want := range map[string]nfs3.FH{"f": f, "d": d} {
		if res := x.lookup(x.root, name); res.Status != nfs3.OK || res.FH != want {
			t.Errorf("%s after the refused RENAME: %v", name, res.Status)
		}
		x.want("LOOKUP of it in the other export", y.lookup(y.root, name).Status, nfs3.ErrNoEnt)
	}
	if res := y.lookup(y.root, "g"); res.Status != nfs3.OK || res.FH != g {
		t.Errorf("the target after the refused RENAME: %v", res.Status)
	}
	x.want("LOOKUP of the target's name", x.lookup(x.root, "g").Status, nfs3.ErrNoEnt)
}
