// Removals of files whose names have come and gone by another client's hand.

package fusefs

import (
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestOpenFileUnderAnUnknownName: a file stays while it is open, if another client has taken its
// name away and given it back, and only the first was seen here, or if a directory was to have the
// name.
func TestOpenFileUnderAnUnknownName(t *testing.T) {
	f := withoutKernel(t, new(sync.RWMutex))
	f.notices.stopped = true // there is no kernel to tell
	defer f.stop()
	k := &kernel{f, make(chan struct{}, 1)}
	anothers := func(name, to string) {
		t.Helper()
		root := f.table.root.fh
		args := nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: root, Name: []byte(name)}, To: nfs3.DirOpArgs{Dir: root, Name: []byte(to)}}
		var res nfs3.RenameRes
		if err := f.client.Do(t.Context(), nfs3.ProcRename, &args, &res, &res.Status, nil, 0); err != nil {
			t.Fatal(err)
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
			f.expire(f.table.get(files[name].node)) // so that the server is asked
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
