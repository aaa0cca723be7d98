// Every change of an object is made under the object's lock, so the attributes before and after
// include no other change.

package nfsserver_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A lockedFS checks that the server holds the locks of the objects that a call changes.
type lockedFS struct {
	nfsserver.FS
	*testing.T

	mu  sync.Mutex // guards the fields below
	srv *nfsserver.Server
	saw map[string]bool
}

// served sets the Server whose locks are checked, and forgets earlier calls.
func (l *lockedFS) served(s *nfsserver.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.srv, l.saw = s, map[string]bool{}
}

// seen returns which methods have been called.
func (l *lockedFS) seen() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.saw)
}

func (l *lockedFS) check(what string, changed ...nfsserver.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saw[what] = true
	for i, r := range changed {
		if !l.srv.Locked("/x", r) {
			l.Errorf("%s changes object %d without its lock", what, i)
		}
	}
}

func (l *lockedFS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	l.check("Setattr", r)
	return l.FS.Setattr(c, r, s)
}

func (l *lockedFS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	if len(p) > 0 {
		l.check("WriteAt", r)
	}
	return l.FS.WriteAt(c, r, p, off)
}

func (l *lockedFS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	l.check("Create", dir)
	return l.FS.Create(c, dir, name, s)
}

func (l *lockedFS) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	l.check("Mkdir", dir)
	return l.FS.Mkdir(c, dir, name, s)
}

func (l *lockedFS) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	l.check("Symlink", dir)
	return l.FS.Symlink(c, dir, name, target, s)
}

func (l *lockedFS) Mknod(c nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, rdev nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	l.check("Mknod", dir)
	return l.FS.Mknod(c, dir, name, t, rdev, s)
}

func (l *lockedFS) Link(c nfsserver.Cred, r, dir nfsserver.Ref, name string) error {
	l.check("Link", r, dir)
	return l.FS.Link(c, r, dir, name)
}

func (l *lockedFS) Remove(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	l.check("Remove", dir)
	return l.FS.Remove(c, dir, name)
}

func (l *lockedFS) Rmdir(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	l.check("Rmdir", dir)
	return l.FS.Rmdir(c, dir, name)
}

func (l *lockedFS) Rename(c nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	l.check("Rename", from, to)
	return l.FS.Rename(c, from, fromName, to, toName)
}

// TestChangesAreMadeUnderLocks: because of the file's lock, no other change comes between a WRITE's
// two reads of the attributes, not even CREATE UNCHECKED that truncates.
func TestChangesAreMadeUnderLocks(t *testing.T) {
	l := &lockedFS{FS: memory(t), T: t}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: l}}})
	l.served(h.srv)
	c := h.dial(root).mount("/x")
	f := c.file(c.root, "f", 0o644)
	d := c.dir(c.root, "d", 0o755)
	c.write(f, 0, "content", nfs3.Unstable)
	l.served(h.srv)
	res := c.create(c.root, "f", nfs3.Unchecked, nfs3.Sattr{SetSize: true, Size: 3}, nfs3.Verf{})
	c.want("CREATE UNCHECKED of 3 bytes", res.Status, nfs3.OK)
	if res.FH.FH != f || res.Attr.Attr.Size != 3 {
		t.Errorf("CREATE UNCHECKED: handle %v, size %d, want %v and 3", res.FH.FH, res.Attr.Attr.Size, f)
	}
	if seen := l.seen(); !seen["Setattr"] {
		t.Errorf("CREATE UNCHECKED called %v, want Setattr", seen)
	}
	c.want("WRITE", c.write(f, 0, "content", nfs3.FileSync).Status, nfs3.OK)
	c.want("SETATTR", c.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o600}).Status, nfs3.OK)
	c.want("SYMLINK", c.symlink(d, "l", "f").Status, nfs3.OK)
	c.want("MKNOD", c.mknod(d, "p", nfs3.TypeFIFO, nfs3.Specdata{}).Status, nfs3.OK)
	c.want("LINK", c.link(f, d, "f2").Status, nfs3.OK)
	c.want("RENAME", c.rename(d, "f2", c.root, "f3").Status, nfs3.OK)
	c.want("REMOVE", c.remove(d, "l").Status, nfs3.OK)
	c.dir(d, "e", 0o755)
	c.want("RMDIR", c.rmdir(d, "e").Status, nfs3.OK)
	if len(l.seen()) != 10 {
		t.Errorf("seen: %v", l.seen())
	}
}

// A vanishingFS removes a file when its size is set.
type vanishingFS struct{ nfsserver.FS }

func (v vanishingFS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	if s.Has(nfsserver.SetSize) {
		if err := v.Remove(c, v.Root(), "f"); err != nil {
			return err
		}
	}
	return v.FS.Setattr(c, r, s)
}

// TestCreateOfWhatGoesAway: a file is removed while CREATE UNCHECKED truncates it. The reply is not
// STALE, because the client has sent no handle of the file. When CREATE is repeated, it makes the
// file.
func TestCreateOfWhatGoesAway(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: vanishingFS{memory(t)}}}})
	c := h.dial(root).mount("/x")
	c.file(c.root, "f", 0o644)
	cut := nfs3.Sattr{SetSize: true}
	c.want("CREATE", c.create(c.root, "f", nfs3.Unchecked, cut, nfs3.Verf{}).Status, nfs3.ErrJukebox)
	c.want("CREATE again", c.create(c.root, "f", nfs3.Unchecked, cut, nfs3.Verf{}).Status, nfs3.OK)
}
