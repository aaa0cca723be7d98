// Threads that act as callers act as the right one, without root's rights, and are restored
// afterwards.

package cred

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// credLines has the names of those lines in /proc/PID/status that show a thread's identity.
var credLines = []string{"Uid", "Gid", "Groups", "CapEff", "CapPrm"}

// TestActing: a thread that acts as a caller has the caller's effective identity and no
// capabilities. A thread that acts as root for a group keeps its capabilities. Afterwards each has
// its own identity.
func TestActing(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cr := New()
	before := machine.Status(t, "/proc/thread-self/status")
	for _, c := range []nfsserver.Cred{{UID: 1000, GID: 2000, GIDs: []uint32{1, 2, 3}}, {UID: 1000}, {GID: 5}, {}, {UID: 7, GID: 7, GIDs: make([]uint32, 16)}} {
		a, err := cr.Act(&c)
		must.Succeed(t, err)
		got := machine.Status(t, "/proc/thread-self/status")
		a.End()
		want := fmt.Sprintf("0 %d 0 %d", c.UID, c.UID)
		if got["Uid"] != want {
			t.Errorf("%v: users %q, want %q", c, got["Uid"], want)
		}
		if want := fmt.Sprintf("0 %d 0 %d", c.GID, c.GID); got["Gid"] != want {
			t.Errorf("%v: groups %q, want %q", c, got["Gid"], want)
		}
		if c.UID == 0 {
			if got["CapEff"] != before["CapEff"] {
				t.Errorf("%v: capabilities %s, want %s", c, got["CapEff"], before["CapEff"])
			}
		} else {
			if got["CapEff"] != "0000000000000000" {
				t.Errorf("%v: capabilities %s", c, got["CapEff"])
			}
			if groups := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.GIDs), ",", ""), "[]"); got["Groups"] != groups {
				t.Errorf("%v: supplementary groups %q, want %q", c, got["Groups"], groups)
			}
		}
		for after, i := machine.Status(t, "/proc/thread-self/status"), 0; i < len(credLines); i++ {
			if name := credLines[i]; after[name] != before[name] {
				t.Errorf("after acting as %v: %s is %s, was %s", c, name, after[name], before[name])
			}
		}
	}
}

// TestLostThreadEndsProcess: if a thread cannot become root again, the process ends before anything
// else runs on the thread.
func TestLostThreadEndsProcess(t *testing.T) {
	if os.Getenv("NFSRDMA_LOSE_THREAD") != "" {
		defer fmt.Println("went on")
		restore(func() error { return unix.ENOMEM })
		fmt.Println("went on")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLostThreadEndsProcess$")
	cmd.Env = append(os.Environ(), "NFSRDMA_LOSE_THREAD=1")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "went on") {
		t.Errorf("the process did not end: %v: %s", err, out)
	}
	if want := "its own identity"; !strings.Contains(string(out), want) {
		t.Errorf("the process wrote %q, want %q in it", out, want)
	}
}
