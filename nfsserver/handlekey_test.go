// Handles of a file system that several servers serve: valid at each server, and sealed only with
// the file system's key.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A keyed is a tree with a key of its own.
type keyed struct {
	nfsserver.FS
	key [nfsserver.KeySize]byte
}

func (k *keyed) Info() nfsserver.Info {
	in := k.FS.Info()
	in.HandleKey = k.key
	return in
}

// TestHandlesOfSharedFileSystem: two servers with different keys accept each other's handles of the
// shared file system, and no other handles. A handle of it that is made with a server's own key is
// invalid.
func TestHandlesOfSharedFileSystem(t *testing.T) {
	shared, own := memory(t), [nfsserver.KeySize]byte{9}
	start := func(key byte, of [nfsserver.KeySize]byte) (*client, *client) {
		h := serve(t, nfsserver.Options{Squash: believeAll, Key: [nfsserver.KeySize]byte{key}, Exports: []nfsserver.Export{
			{Name: "/vol", FS: &keyed{shared, of}}, {Name: "/here", FS: memory(t)}}})
		return h.dial(root).mount("/vol"), h.dial(root).mount("/here")
	}
	a, aHere := start(1, own)
	b, bHere := start(2, own)
	_, otherHere := start(1, [nfsserver.KeySize]byte{3})
	file := a.file(a.root, "f", 0o644)
	if at := b.getattr(file); at.Status != nfs3.OK || at.Attr.Type != nfs3.TypeReg {
		t.Errorf("a handle of the other server: %+v", at)
	}
	b.want("RENAME", b.rename(a.root, "f", b.root, "g").Status, nfs3.OK)
	b.want("a handle of another export", b.getattr(aHere.root).Status, nfs3.ErrBadHandle)
	b.want("RENAME between exports", b.rename(b.root, "g", bHere.root, "g").Status, nfs3.ErrXDev)
	b.want("RENAME to the other server's export", b.rename(b.root, "g", aHere.root, "g").Status, nfs3.ErrBadHandle)
	// Another server has the same key of its own, and a volume with another key. Its handles are
	// invalid for this volume.
	aHere.want("a handle by its key, of another tree", aHere.getattr(otherHere.root).Status, nfs3.ErrStale)
	zero, _ := start(1, [nfsserver.KeySize]byte{})
	a.want("a handle of the volume by a server's key", a.getattr(zero.root).Status, nfs3.ErrBadHandle)
}

// TestKeyOfLateFileSystem: until a file system is open, its key is unknown. Meanwhile clients
// retry, and do not get BADHANDLE.
func TestKeyOfLateFileSystem(t *testing.T) {
	tree := memfs.New(memfs.Options{Mode: 0o777})
	first := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/vol", FS: &keyed{tree, [nfsserver.KeySize]byte{9}}}}})
	handle := first.dial(root).mount("/vol").root
	answers := make(chan struct{})
	late := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/vol", Open: func() (nfsserver.FS, error) {
		<-answers
		return &keyed{tree, [nfsserver.KeySize]byte{9}}, nil
	}}}})
	c := late.dial(root)
	c.want("before", c.getattr(handle).Status, nfs3.ErrJukebox)
	close(answers)
	for st := nfs3.ErrJukebox; st != nfs3.OK; {
		if st = c.getattr(handle).Status; st != nfs3.OK && st != nfs3.ErrJukebox {
			t.Fatalf("then: %v", st)
		}
	}
}
