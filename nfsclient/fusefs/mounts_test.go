// Working directories and mounts in a directory that another client changes.

package fusefs_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A directory gets a new foreign name, or a chmod that denies nothing. Mounts and working
// directories below it stay valid.
func TestForeignChangeKeepsMountsAndWorkingDirectories(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: 50 * time.Millisecond, AcMax: 50 * time.Millisecond})
	for _, dir := range []string{"d", "d/in", "d/on"} {
		must.Succeed(t, os.Mkdir(m.there(dir), 0o755))
	}
	_, err := os.Stat(m.at("d/in"))
	must.Succeed(t, err)
	cmd := exec.Command("sh", "-c", "read x; true")
	cmd.Dir = m.at("d/in")
	in, err := cmd.StdinPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	must.Succeed(t, syscall.Mount("tmpfs", m.at("d/on"), "tmpfs", 0, ""))
	defer syscall.Unmount(m.at("d/on"), syscall.MNT_DETACH)
	must.Succeed(t, os.WriteFile(m.at("d/on/x"), nil, 0o644))

	must.Succeed(t, os.WriteFile(m.there("d/a file"), []byte("below"), 0o644))
	must.Succeed(t, os.WriteFile(m.there("above"), []byte("above"), 0o644))
	must.Succeed(t, syscall.Mount(m.there("above"), m.at("d/a file"), "", syscall.MS_BIND, ""))
	defer syscall.Unmount(m.at("d/a file"), syscall.MNT_DETACH)

	_, err = os.ReadDir(m.at("d"))
	must.Succeed(t, err)
	before := m.stats().ForeignChanges
	must.Succeed(t, os.WriteFile(m.there("d/new"), nil, 0o644))
	must.Become(t, "the new name is seen", func() bool {
		_, _ = os.Stat(m.at("d"))
		return m.stats().ForeignChanges > before
	})
	must.Succeed(t, os.Chmod(m.at("d"), 0o775))
	time.Sleep(300 * time.Millisecond) // gives unwanted effects time to appear
	if _, err := os.Stat(m.at("d/on/x")); err != nil {
		t.Errorf("stat: %v", err)
	}
	if b, err := os.ReadFile(m.at("d/a file")); err != nil || string(b) != "above" {
		t.Errorf("the file that is mounted on another: %q, %v", b, err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", cmd.Process.Pid)); err != nil || cwd != m.at("d/in") {
		t.Errorf("the working directory is %s, %v", cwd, err)
	}
	in.Close()
	must.Succeed(t, cmd.Wait())
}
