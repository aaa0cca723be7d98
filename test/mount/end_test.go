// How the process of a mount ends by a signal, where the mount cannot simply be unmounted.

package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A mount that another one stands on: the process writes back, ends, and leaves the other one alone.
func TestTerminatedUnderAnotherMount(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		name := "under-" + filepath.Base(dir)
		hold := startWorker(t, "hold", filepath.Join(dir, name))
		pid := processOf(t, dir)
		if err := syscall.Mount("top", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		top := true
		uncover := func() {
			if top {
				top = syscall.Unmount(dir, syscall.MNT_DETACH) != nil
			}
		}
		t.Cleanup(uncover)
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
		if line := mountLine(dir); !strings.Contains(line, " - tmpfs top ") {
			t.Errorf("what was mounted on top is gone: %s", line)
		}
		if st, err := os.Stat(filepath.Join(s.dir, name)); err != nil || st.Size() != heldSize {
			t.Errorf("on the server: %v, %v", st, err)
		}
		_, _ = hold.stop()
		uncover()
		if out, code := nfsrdma(t, "umount", dir); code != 0 || isMounted(dir) {
			t.Errorf("umount of what is left: status %d, %s", code, out)
		}
	})
}

// A mount that another mount namespace has a copy of: the process ends all the same.
func TestTerminatedInTwoNamespaces(t *testing.T) {
	t.Parallel()
	need(t, "unshare")
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		other := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", "echo there; read end")
		in, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { in.Close(); _ = other.Wait() }()
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		pid := processOf(t, dir)
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
		if isMounted(dir) {
			t.Error("it is still mounted")
		}
	})
}
