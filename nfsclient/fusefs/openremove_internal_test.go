// Removals of files whose names another client makes and removes.

package fusefs

import (
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An open file survives a removal although its name is unknown here: another client has removed and
// restored it, or a directory was expected under it.
func TestOpenFileUnderAnUnknownName(t *testing.T) {
	f := withoutKernel(t, new(sync.RWMutex))
	f.notices.stopped = true // there is no kernel
	defer f.stop()
	k := &kernel{f, make(chan struct{}, 1)}
	anothers := func(name, to string) {
		t.Helper()
		root := f.table.root.fh
		args := nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: root, Name: []byte(name)}, To: nfs3.DirOpArgs{Dir: root, Name: []byte(to)}}
		var res nfs3.RenameRes
		if err := f.client.Do(t.Context(), nfs3.ProcRename, &args, &res, &res.Status, nil, 0); err != nil {
			t.Fatalf("rename: %v", err)
		}
	}
	h := header(fuse.Caller{}, rootID)
	for name, remove := range map[string]func() fuse.Status{
		"unlinked": func() fuse.Status { return f.Unlink(nil, &h, "unlinked") },
		"replaced": func() fuse.Status {
			return f.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: rootID}, "other", "replaced")
		},
	} {
		files := make(map[string]openedFile)
		for _, name := range []string{name, "other"} {
			file, st := k.open(fuse.Caller{}, name, true)
			if st != fuse.OK {
				t.Fatal(st)
			}
			files[name] = file
		}
		if name == "unlinked" {
			anothers(name, "away")
			f.expire(f.table.get(files[name].node)) // makes the lookup ask the server
			if node, st := k.lookup(fuse.Caller{}, name); st != fuse.OK || node != 0 {
				t.Errorf("got node %d, %v of a name that was taken away, want none", node, st)
			}
			anothers("away", name)
		} else if st := f.Mkdir(nil, &fuse.MkdirIn{InHeader: h}, name, new(fuse.EntryOut)); st != fuse.Status(syscall.EEXIST) {
			t.Errorf("got %v of a directory with the name, want EEXIST", st)
		}
		if st := remove(); st != fuse.OK {
			t.Errorf("%s: got %v, want success", name, st)
		}
		if st := k.read(fuse.Caller{}, files[name]); st != fuse.OK {
			t.Errorf("%s: got %v of a read, want success", name, st)
		}
		for _, file := range files {
			k.close(fuse.Caller{}, file)
		}
	}
}
