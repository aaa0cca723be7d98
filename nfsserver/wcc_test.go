// Attributes before and after an operation are from one moment, or omitted.

package nfsserver_test

import (
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A slowDisk runs meanwhile once, at the start of the next Sync.
type slowDisk struct {
	nfsserver.FS
	meanwhile atomic.Pointer[func()]
}

func (d *slowDisk) Sync(r nfsserver.Ref, dataOnly bool) error {
	if f := d.meanwhile.Swap(nil); f != nil {
		(*f)()
	}
	return d.FS.Sync(r, dataOnly)
}

// TestCommitHasAttributesOfOneMoment: another client writes while a COMMIT waits for the disk. That
// write is not between the COMMIT's attributes before and after. Otherwise the committing client
// would take it for its own, and keep its cache.
func TestCommitHasAttributesOfOneMoment(t *testing.T) {
	disk := &slowDisk{FS: memory(t)}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/e", FS: disk}}})
	a, b := h.dial(root).mount("/e"), h.dial(root).mount("/e")
	f := a.file(a.root, "f", 0o644)
	had := a.write(f, 0, "ours", nfs3.Unstable).Wcc.After.Attr
	write := func() {
		var res nfs3.WriteRes
		if err := b.try(nfs3.ProcWrite, &nfs3.WriteArgs{FH: f, Count: 9, Data: []byte("another's")}, &res); err != nil || res.Status != nfs3.OK {
			t.Errorf("WRITE: %v, %v", err, res.Status)
		}
	}
	disk.meanwhile.Store(&write)
	res := a.commit(f)
	a.want("COMMIT", res.Status, nfs3.OK)
	is := a.attr(f)
	if is.Size == had.Size {
		t.Fatalf("size %d, want another one after the write", is.Size)
	}
	if !res.Wcc.After.Present || res.Wcc.After.Attr != is {
		t.Fatalf("after: %+v, want %+v", res.Wcc.After, is)
	}
	if !res.Wcc.Before.Present || res.Wcc.Before.Attr != is.Wcc() {
		t.Errorf("before: %+v, after: %+v", res.Wcc.Before, is)
	}
}

// A sharedFS is an FS that other servers also serve.
type sharedFS struct{ nfsserver.FS }

func (f sharedFS) Info() nfsserver.Info {
	in := f.FS.Info()
	in.Shared = true
	return in
}

// TestSharedDirectoriesHaveNoAttributesBefore: replies omit a directory's attributes from before a
// change. Another server may change the directory between the query and the operation.
func TestSharedDirectoriesHaveNoAttributesBefore(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/e", FS: sharedFS{memory(t)}}}})
	c := h.dial(root).mount("/e")
	dir := c.dir(c.root, "d", 0o755)
	mode := nfs3.Sattr{SetMode: true, Mode: 0o644}
	var f nfs3.FH
	for _, op := range []struct {
		name string
		do   func() (nfs3.Status, []nfs3.WccData)
	}{
		{"CREATE", func() (nfs3.Status, []nfs3.WccData) {
			r := c.create(dir, "f", nfs3.Guarded, mode, nfs3.Verf{})
			f = r.FH.FH
			return r.Status, []nfs3.WccData{r.DirWcc}
		}},
		{"MKDIR", func() (nfs3.Status, []nfs3.WccData) {
			r := c.mkdir(dir, "sub", 0o755)
			return r.Status, []nfs3.WccData{r.DirWcc}
		}},
		{"SYMLINK", func() (nfs3.Status, []nfs3.WccData) {
			r := c.symlink(dir, "s", "f")
			return r.Status, []nfs3.WccData{r.DirWcc}
		}},
		{"MKNOD", func() (nfs3.Status, []nfs3.WccData) {
			r := c.mknod(dir, "p", nfs3.TypeFIFO, nfs3.Specdata{})
			return r.Status, []nfs3.WccData{r.DirWcc}
		}},
		{"LINK", func() (nfs3.Status, []nfs3.WccData) {
			r := c.link(f, dir, "l")
			return r.Status, []nfs3.WccData{r.DirWcc}
		}},
		{"RENAME in a directory", func() (nfs3.Status, []nfs3.WccData) {
			r := c.rename(dir, "l", dir, "m")
			return r.Status, []nfs3.WccData{r.FromWcc, r.ToWcc}
		}},
		{"RENAME to another one", func() (nfs3.Status, []nfs3.WccData) {
			r := c.rename(dir, "m", c.root, "m")
			return r.Status, []nfs3.WccData{r.FromWcc, r.ToWcc}
		}},
		{"REMOVE", func() (nfs3.Status, []nfs3.WccData) {
			r := c.remove(dir, "s")
			return r.Status, []nfs3.WccData{r.Wcc}
		}},
		{"RMDIR", func() (nfs3.Status, []nfs3.WccData) {
			r := c.rmdir(dir, "sub")
			return r.Status, []nfs3.WccData{r.Wcc}
		}},
		{"SETATTR of a directory", func() (nfs3.Status, []nfs3.WccData) {
			r := c.setattr(dir, nfs3.Sattr{SetMode: true, Mode: 0o700})
			return r.Status, []nfs3.WccData{r.Wcc}
		}},
	} {
		status, told := op.do()
		c.want(op.name, status, nfs3.OK)
		for _, wcc := range told {
			if wcc.Before.Present || !wcc.After.Present {
				t.Errorf("%s: before %v, after %v, want only after", op.name, wcc.Before.Present, wcc.After.Present)
			}
		}
	}
	before := c.attr(f)
	if r := c.write(f, 0, "x", nfs3.Unstable); !r.Wcc.Before.Present || r.Wcc.Before.Attr != before.Wcc() {
		t.Errorf("WRITE: %+v", r.Wcc.Before)
	}
	if r := c.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o600}); !r.Wcc.Before.Present {
		t.Error("SETATTR of a file: no attributes before")
	}
}
