// Programs in another PID namespace, which the mount's process cannot see.

package fusefs_test

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A caller in another PID namespace gets the groups that its user has on this machine.
func TestUnseenProgramHasItsUsersGroups(t *testing.T) {
	m := mount(t, options{AllowOther: true, OwnPIDs: true})
	m.say("unseen")
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("data"), 0o640))
	must.Succeed(t, os.Chown(m.there("file"), 1001, 1001))
	if out, ok := as(t, 1002, 1002, nil, "cat "+m.at("file")); !ok || out != "data" {
		t.Errorf("got %q, want %q", out, "data")
	}
	must.Succeed(t, os.Chown(m.there("file"), 1001, 1003))
	if out, ok := as(t, 1002, 1002, []uint32{1003}, "cat "+m.at("file")); ok {
		t.Errorf("read %q by a group that its user is not in", out)
	}
}

// A program in another PID namespace can be killed while it waits for a silent server.
func TestUnseenProgramCanBeKilled(t *testing.T) {
	m := mount(t, options{OwnPIDs: true})
	m.say("unseen")
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("data"), 0o600))
	m.say("stall")
	asked := m.stats().Operations["LOOKUP"]
	cmd := exec.Command("cat", m.at("file"))
	must.Succeed(t, cmd.Start())
	must.Become(t, "the program waits for the server", func() bool { return m.stats().Operations["LOOKUP"] > asked })
	must.Succeed(t, cmd.Process.Signal(syscall.SIGKILL))
	if err := cmd.Wait(); err == nil {
		t.Error("the program ends well though the server is silent")
	}
	m.say("go")
}

// A process gets its user's login groups only if it has the login's group.
func TestLoginGroupsAreOfTheLoginsGroup(t *testing.T) {
	if got := fusefs.LoginGroups("0", "0"); !slices.Contains(got, "0") {
		t.Errorf("got %q of root, want 0 among them", got)
	}
	if got := fusefs.LoginGroups("0", "12345"); got != nil {
		t.Errorf("got %q of root with another group, want none", got)
	}
}
