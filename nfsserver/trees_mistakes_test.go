// Trees whose program makes mistakes.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A fixed has one tree, and always returns rest from Mount.
type fixed struct {
	fs   nfsserver.FS
	rest string
}

func (f fixed) Mount(nfsserver.Caller, string) (uint64, string, error) { return 1, f.rest, nil }
func (fixed) May(nfsserver.Caller, uint64) error                       { return nil }
func (f fixed) Open(nfsserver.Caller, uint64) (nfsserver.FS, error)    { return f.fs, nil }

// A longRefs is a tree whose Refs are too long for handles of trees, except the root's.
type longRefs struct {
	nfsserver.FS
	root bool // the root's Ref is too long as well
}

func (longRefs) long() nfsserver.Ref {
	r, _ := nfsserver.MakeRef(make([]byte, nfsserver.MaxTreeRef+1))
	return r
}

func (f longRefs) Root() nfsserver.Ref {
	if f.root {
		return f.long()
	}
	return f.FS.Root()
}

func (f longRefs) Lookup(c nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	_, a, err := f.FS.Lookup(c, dir, name)
	return f.long(), a, err
}

// TestTreesWithMistakes: if Mount invents paths, or Refs leave no room, the result is an error and
// no bad handle.
func TestTreesWithMistakes(t *testing.T) {
	for _, rest := range []string{"x", "..", "/a", "a/"} {
		h := serveUsers(t, fixed{memory(t), rest}, 0)
		for _, path := range []string{"/home", "/home/a", "/home/ax"} {
			if st := h.dial(root).mnt(path).Status; st != mount3.ErrServerFault {
				t.Errorf("MNT of %s, of which %q is in the tree: %v", path, rest, st)
			}
		}
	}
	h := serveUsers(t, fixed{fs: longRefs{memory(t), true}}, 0)
	if st := h.dial(root).mnt("/home").Status; st != mount3.ErrIO {
		t.Errorf("MNT of a root with a long Ref: %v", st)
	}
	h = serveUsers(t, fixed{fs: longRefs{FS: memory(t)}}, 0)
	c := h.dial(root).mount("/home")
	c.file(c.root, "f", 0o666)
	c.want("LOOKUP of a long Ref", c.lookup(c.root, "f").Status, nfs3.ErrServerFault)
}
