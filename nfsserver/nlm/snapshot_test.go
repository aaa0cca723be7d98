// Snapshot lists locks, waiters and shares without waiting for a file system.

package nlm

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// TestSnapshot: locks held and waited for are listed with owner, place and time, and no more of
// them than requested.
func TestSnapshot(t *testing.T) {
	begin := time.Now()
	r, _, b, fh := waiting(t) // a has bytes 0 to 9 for svid 1, b waits for 5 to 14 for svid 2
	snap := r.locks.Snapshot(100)
	slices.SortFunc(snap.Locks, func(x, y LockInfo) int { return int(x.Svid - y.Svid) })
	must.Equal(t, "number of locks", len(snap.Locks), 2)
	must.Equal(t, "there are more", snap.More, false)
	must.Equal(t, "number of files that are busy", snap.Busy, 0)
	path, err := filepath.EvalSymlinks(filepath.Join(r.dir, "f"))
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	for i, l := range snap.Locks {
		must.Equal(t, "owner", l.Owner, "owner")
		must.Equal(t, "address", l.Addr.String(), "127.0.0.1")
		must.Equal(t, "export", l.Export, "/disk")
		must.Equal(t, "path", l.Path, path)
		must.Equal(t, "it has a reference", l.Ref != "", true)
		must.Equal(t, "it is a share", l.Share, false)
		if l.Since.Before(begin) || l.Since.After(time.Now()) {
			t.Errorf("since %v", l.Since)
		}
		if want := []LockState{lockHeld, lockWaiting}[i]; l.State != want {
			t.Errorf("%v, want %v", l.State, want)
		}
	}
	for i, want := range []string{"a 1 0 9 true", "b 2 5 14 true"} {
		l := snap.Locks[i]
		must.Equal(t, "host, process, range, exclusive", fmt.Sprint(l.Host, " ", l.Svid, " ", l.Start, " ", l.End, " ", l.Exclusive), want)
	}
	if snap := r.locks.Snapshot(1); len(snap.Locks) != 1 || !snap.More {
		t.Errorf("%+v", snap)
	}
	b.want("LOCK to the end", b.lock(fh, 2, 100, 0, false), nlm4.Granted)
	snap = r.locks.Snapshot(100)
	if !slices.ContainsFunc(snap.Locks, func(l LockInfo) bool { return l.Start == 100 && l.End == EndOfFile && !l.Exclusive }) {
		t.Errorf("%+v", snap)
	}
}

// TestSnapshotLeavesOutWhatHangs: a file is left out while a call blocks in its file system.
func TestSnapshotLeavesOutWhatHangs(t *testing.T) {
	r, _, _, _ := waiting(t)
	r.newFile("g", 0o666)
	p := r.rdma("c", rootCred)
	p.want("LOCK", p.lock(p.file("/disk", "g"), 1, 0, 1, true), nlm4.Granted)
	r.locks.mu.Lock()
	files := slices.Collect(maps.Values(r.locks.files))
	r.locks.mu.Unlock()
	var hung *file
	for _, f := range files {
		f.mu.Lock()
		if len(f.waiters) > 0 {
			hung = f // this file's mutex stays locked
		} else {
			f.mu.Unlock()
		}
	}
	snap := r.locks.Snapshot(100)
	hung.mu.Unlock()
	must.Equal(t, "number of files that are busy", snap.Busy, 1)
	must.Equal(t, "number of locks", len(snap.Locks), 1)
	must.Equal(t, "host", snap.Locks[0].Host, "c")
}
