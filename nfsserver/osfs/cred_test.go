// Threads that act as callers act as the right one, without root's rights, and are restored
// afterwards.

package osfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// credLines has the names of those lines in /proc/PID/status that show a thread's identity.
var credLines = []string{"Uid", "Gid", "Groups", "CapEff", "CapPrm"}

// TestThreadsAreRestored: there are many concurrent callers, and threads begin and end meanwhile.
// Each call is made as its caller, and afterwards every thread has the server's identity again.
func TestThreadsAreRestored(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o777))
	f := newFS(t, dir, Options{})
	own := machine.Status(t, "/proc/self/status")
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for k := range 40 {
				c := nfsserver.Cred{UID: uint32(1000 + i), GID: uint32(2000 + k%3), GIDs: []uint32{uint32(3000 + i)}}
				name := fmt.Sprintf("%d-%d", i, k)
				r, a, err := f.Create(c, f.Root(), name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600})
				if err != nil {
					t.Errorf("Create as %v: %v", c, err)
					continue
				}
				if a.UID != c.UID || a.GID != c.GID {
					t.Errorf("Create as %v: got user %d, group %d", c, a.UID, a.GID)
				}
				if _, err := f.WriteAt(c, r, []byte(name), 0); err != nil {
					t.Errorf("WriteAt as %v: %v", c, err)
				}
				other := nfsserver.Cred{UID: 5000, GID: 5000}
				if _, err := f.ReadAt(other, r, make([]byte, 8), 0); !errors.Is(err, syscall.EACCES) {
					t.Errorf("ReadAt by another: %v", err)
				}
				if err := f.Setattr(other, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}); !errors.Is(err, syscall.EPERM) {
					t.Errorf("Setattr by another: %v", err)
				}
				if k%8 == 0 { // the thread ends with its goroutine
					wg.Go(func() {
						runtime.LockOSThread()
						f.Access(c, r, nfsserver.MayRead)
					})
				}
			}
		})
	}
	wg.Wait()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	must.Succeed(t, err)
	if len(tasks) < 2 {
		t.Fatalf("%d threads", len(tasks))
	}
	for _, task := range tasks {
		got := machine.Status(t, task)
		for _, name := range credLines {
			if got != nil && got[name] != own[name] {
				t.Errorf("%s: %s is %q, want %q", task, name, got[name], own[name])
			}
		}
	}
}

// TestRightsAreRemembered: reads, writes and look-ups allocate nothing in the steady state, for the
// owner and for others. A permission that is removed through the server is gone at once.
func TestRightsAreRemembered(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o666))
	must.Succeed(t, os.Chmod(filepath.Join(dir, "f"), 0o666))
	f := newFS(t, dir, Options{})
	r, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	b := make([]byte, 7)
	for _, c := range []nfsserver.Cred{me, {UID: 1000, GID: 1000, GIDs: []uint32{1, 2, 3}}} {
		if n := testing.AllocsPerRun(200, func() {
			_, err1 := f.ReadAt(c, r, b, 0)
			_, err2 := f.WriteAt(c, r, b, 0)
			_, err3 := f.Access(c, r, nfsserver.MayRead)
			must.Succeed(t, err1, err2, err3)
		}); n != 0 {
			t.Errorf("user %d: %v allocations", c.UID, n)
		}
	}
	c := nfsserver.Cred{UID: 1000, GID: 1000}
	must.Succeed(t, second(f.ReadAt(c, r, b, 0)), second(f.WriteAt(c, r, b, 0)))
	must.Succeed(t, f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600}))
	for what, err := range map[string]error{"ReadAt": second(f.ReadAt(c, r, b, 0)), "WriteAt": second(f.WriteAt(c, r, b, 0))} {
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s after the mode has changed: %v", what, err)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestGrants: a grant applies to one caller, one permission and one state of the object, and the
// list of grants stays short.
func TestGrants(t *testing.T) {
	var g grants
	st := unix.Stat_t{Mode: unix.S_IFREG | 0o644}
	g.see(&st)
	c := nfsserver.Cred{UID: 1, GID: 2, GIDs: []uint32{3, 4}}
	g.add(&c, nfsserver.MayRead, g.state.Load())
	for _, o := range []nfsserver.Cred{{UID: 1, GID: 2}, {UID: 1, GID: 3, GIDs: c.GIDs}, {UID: 2, GID: 2, GIDs: c.GIDs}, {UID: 1, GID: 2, GIDs: []uint32{3, 5}}} {
		if g.have(&o, nfsserver.MayRead) {
			t.Errorf("%v has what was given to %v", o, c)
		}
	}
	if !g.have(&c, nfsserver.MayRead) || g.have(&c, nfsserver.MayWrite) {
		t.Error("not as given")
	}
	c.GIDs[0] = 9 // as if the call had ended and its memory were reused
	if c.GIDs[0] = 3; !g.have(&c, nfsserver.MayRead) {
		t.Error("forgotten")
	}
	for what, change := range map[string]func(*unix.Stat_t){
		"mode": func(s *unix.Stat_t) { s.Mode = unix.S_IFREG | 0o600 }, "owner": func(s *unix.Stat_t) { s.Uid = 7 },
		"group": func(s *unix.Stat_t) { s.Gid = 7 }, "ctime": func(s *unix.Stat_t) { s.Ctim.Nsec = 7 },
	} {
		now := st
		change(&now)
		if g.see(&now); g.have(&c, nfsserver.MayRead) {
			t.Errorf("still given after a change of the %s", what)
		}
		g.see(&st)
	}
	for i := range 100 {
		g.add(&nfsserver.Cred{UID: uint32(i)}, nfsserver.MayRead, g.state.Load())
	}
	if n := len(*g.given.Load()); n != maxGrants {
		t.Errorf("%d are remembered", n)
	}
	expired := slices.Clone(*g.given.Load())
	for i := range expired {
		expired[i].expiry = 0
	}
	g.given.Store(&expired)
	if g.have(&expired[0].cred, nfsserver.MayRead) {
		t.Error("given for ever")
	}
}
