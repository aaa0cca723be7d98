// How the process of a mount ends by a signal, where the mount cannot simply be unmounted.

package mount

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestTerminatedUnderAnotherMount: a mount has another mount on top. On SIGTERM the lower mount's
// process writes back and ends, and the upper mount stays.
func TestTerminatedUnderAnotherMount(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		name := "under-" + filepath.Base(dir)
		hold := startWorker(t, "hold", filepath.Join(dir, name))
		pid := processOf(t, dir)
		must.Succeed(t, syscall.Mount("top", dir, "tmpfs", 0, ""))
		top := true
		uncover := func() {
			if top {
				top = syscall.Unmount(dir, syscall.MNT_DETACH) != nil
			}
		}
		t.Cleanup(uncover)
		must.Succeed(t, syscall.Kill(pid, syscall.SIGTERM))
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

// TestTerminatedInTwoNamespaces: the process of a mount ends although another mount namespace has a
// copy of the mount.
func TestTerminatedInTwoNamespaces(t *testing.T) {
	t.Parallel()
	need(t, "unshare")
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		leave := copyElsewhere(t, dir)
		defer leave()
		pid := processOf(t, dir)
		must.Succeed(t, syscall.Kill(pid, syscall.SIGTERM))
		waitFor(t, "the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
		if isMounted(dir) {
			t.Error("it is still mounted")
		}
	})
}

// TestUnmountInOneOfTwoNamespaces: an unmount does not wait for the copy in another mount
// namespace, for which the process goes on. When it returns, data written here is on the server.
// Programs in the other namespace see this data, and write, until that namespace ends.
func TestUnmountInOneOfTwoNamespaces(t *testing.T) {
	t.Parallel()
	need(t, "unshare")
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		leave := copyElsewhere(t, dir)
		defer leave()
		pid, name := processOf(t, dir), "held-"+filepath.Base(dir)
		if out, code := command(t, "", nil, "sh", "-c", `echo written > "$0"`, filepath.Join(dir, name)); code != 0 {
			t.Fatal(out)
		}
		out, code := nfsrdma(t, "umount", dir)
		if want := "nfsrdma: " + dir + ": unmounted, and what was written is stable; another mount namespace still has the mount, and its process goes on for that"; code != heldStatus ||
			out != want || isMounted(dir) {
			t.Errorf("status %d, %q", code, out)
		}
		if b, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(b) != "written\n" {
			t.Errorf("on the server: %q, %v", b, err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("the process of the copy has ended: %v", err)
		}
		if got := leave(); got != "written\nthere\n" {
			t.Errorf("in the other namespace: %q", got)
		}
		waitFor(t, "the end of the process", func() bool { return findProcess(dir) == 0 })
	})
}

// copyElsewhere keeps a copy of the mount, and of no other test's, in another mount namespace until
// leave is called for the first time. Then a program there appends a line to the file whose name
// ends with the mount's. leave returns the content that this program reads.
func copyElsewhere(t *testing.T, dir string) (leave func() string) {
	t.Helper()
	script := machine.LeaveMounts(`"$0"`) + `echo there; read end; cd "$0" && f=$(echo *-"${0##*/}") && test -f "$f" && echo there >> "$f" && cat "$f"`
	other := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", script, dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := other.Start(); err != nil {
		t.Fatalf("other.Start: %v", err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("there\n"))); err != nil {
		t.Fatalf("io.ReadFull: %v", err)
	}
	return sync.OnceValue(func() string {
		in.Close()
		text, _ := io.ReadAll(out)
		_ = other.Wait()
		return string(text)
	})
}
