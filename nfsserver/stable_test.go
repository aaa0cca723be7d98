// Replies report data as stable only after a sync.

package nfsserver_test

import (
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A forgetfulDisk records the losses if power failed now: bytes written, and directories, devices
// and attributes changed, since the last Sync.
type forgetfulDisk struct {
	nfsserver.FS
	mu    sync.Mutex
	data  map[nfsserver.Ref]bool // files whose contents would be lost
	other map[nfsserver.Ref]bool // objects whose attributes or names would be lost
}

func newForgetfulDisk(fs nfsserver.FS) *forgetfulDisk {
	return &forgetfulDisk{FS: fs, data: map[nfsserver.Ref]bool{}, other: map[nfsserver.Ref]bool{}}
}

func (d *forgetfulDisk) dirty(which map[nfsserver.Ref]bool, refs ...nfsserver.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range refs {
		which[r] = true
	}
}

func (d *forgetfulDisk) Sync(r nfsserver.Ref, dataOnly bool) error {
	err := d.FS.Sync(r, dataOnly)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.data, r)
	if !dataOnly {
		delete(d.other, r)
	}
	return err
}

func (d *forgetfulDisk) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	d.dirty(d.data, r)
	return d.FS.WriteAt(c, r, p, off)
}

func (d *forgetfulDisk) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	d.dirty(d.other, r)
	return d.FS.Setattr(c, r, s)
}

func (d *forgetfulDisk) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	r, a, err := d.FS.Create(c, dir, name, s)
	d.dirty(d.other, dir, r)
	return r, a, err
}

func (d *forgetfulDisk) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	r, a, err := d.FS.Mkdir(c, dir, name, s)
	d.dirty(d.other, dir, r)
	return r, a, err
}

func (d *forgetfulDisk) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	r, a, err := d.FS.Symlink(c, dir, name, target, s)
	d.dirty(d.other, dir) // a Sync of the directory makes the link stable too
	return r, a, err
}

// lost returns how many objects a power failure would damage now.
func (d *forgetfulDisk) lost() (data, other int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.data), len(d.other)
}

// settled makes all changes so far stable.
func (d *forgetfulDisk) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.data)
	clear(d.other)
}

func forgetful(t *testing.T) (*client, *forgetfulDisk) {
	disk := newForgetfulDisk(memory(t))
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/e", FS: disk}}})
	return h.dial(root).mount("/e"), disk
}

// COMMIT, and a stable WRITE, return only when the bytes are on the disk (RFC 1813 §3.3.7,
// §3.3.21). A COMMIT syncs only its own file.
func TestStableDataIsSynced(t *testing.T) {
	c, disk := forgetful(t)
	f := c.file(c.root, "f", 0o644)
	for _, how := range []nfs3.StableHow{nfs3.DataSync, nfs3.FileSync} {
		res := c.write(f, 0, "some bytes", how)
		if data, _ := disk.lost(); res.Committed < how || data != 0 {
			t.Errorf("WRITE %v is answered as %v while its bytes are not on the disk", how, res.Committed)
		}
	}
	for range 2 {
		res := c.write(f, 5, "other bytes", nfs3.Unstable)
		if data, _ := disk.lost(); data != 0 && res.Committed != nfs3.Unstable {
			t.Errorf("WRITE UNSTABLE is answered as %v while its bytes are not on the disk", res.Committed)
		}
		c.want("COMMIT", c.commit(f).Status, nfs3.OK)
		if data, _ := disk.lost(); data != 0 {
			t.Error("COMMIT is answered while bytes are not on the disk")
		}
	}
	disk.dirty(disk.other, nfsserver.Ref{}) // another file's change, which the COMMIT must leave
	c.write(f, 0, "x", nfs3.Unstable)
	c.want("COMMIT", c.commit(f).Status, nfs3.OK)
	if data, other := disk.lost(); data != 0 || other != 1 {
		t.Errorf("COMMIT of one file: %d files and %d others are not on the disk", data, other)
	}
}

// Changes of names and attributes are on the disk before they are answered (RFC 1813 §4.8).
func TestChangesAreSynced(t *testing.T) {
	c, disk := forgetful(t)
	f := c.file(c.root, "f", 0o644)
	for _, change := range []struct {
		name string
		do   func() nfs3.Status
	}{
		{"SETATTR", func() nfs3.Status { return c.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o600}).Status }},
		{"SETATTR of the size", func() nfs3.Status { return c.setattr(f, nfs3.Sattr{SetSize: true, Size: 1}).Status }},
		{"CREATE", func() nfs3.Status { return c.create(c.root, "g", nfs3.Guarded, nfs3.Sattr{}, nfs3.Verf{}).Status }},
		{"MKDIR", func() nfs3.Status { return c.mkdir(c.root, "d", 0o755).Status }},
		{"SYMLINK", func() nfs3.Status { return c.symlink(c.root, "l", "f").Status }},
	} {
		disk.settled()
		c.want(change.name, change.do(), nfs3.OK)
		if data, other := disk.lost(); data != 0 || other != 0 {
			t.Errorf("%s is answered while %d contents and %d others are not on the disk", change.name, data, other)
		}
	}
}
