// A server without privileges, and files of its own that it may not open.

package osfs

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// TestOwnFilesWithoutPrivilege: who made a file with a mode that keeps himself out
// writes and reads it, also once its descriptors are closed; the mode stays.
func TestOwnFilesWithoutPrivilege(t *testing.T) {
	const name = "NFSRDMA_OWN_FILES"
	if dir := os.Getenv(name); dir != "" {
		ownFiles(t, dir)
		return
	}
	dir := tempDir(t, os.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^TestOwnFilesWithoutPrivilege$")
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir, 1000, 1000))
		program := tempDir(t, os.TempDir()) // user 1000 cannot reach what go test has built
		must(t, os.Chmod(program, 0o755))
		run(t, "cp", os.Args[0], program+"/test")
		cmd = exec.Command(program+"/test", "-test.run=^TestOwnFilesWithoutPrivilege$")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), name+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func ownFiles(t *testing.T, dir string) {
	f := newFS(t, dir, Options{})
	for _, mode := range []uint32{0o444, 0, 0o4111, 0o555} {
		r, _, err := f.Create(me, f.Root(), "f", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
		must(t, err)
		for range 2 {
			_, err := f.WriteAt(me, r, []byte("content"), 0)
			must(t, err)
			if n, err := f.ReadAt(me, r, make([]byte, 7), 0); n != 7 || err != nil {
				t.Errorf("mode %04o: read %d, %v", mode, n, err)
			}
			for f.cache.nodes.Load() > 0 { // until they are closed
				time.Sleep(10 * time.Millisecond)
			}
			if a, err := f.Getattr(r); err != nil || a.Mode != mode&^nfsserver.ModeSetuid {
				t.Errorf("mode %04o after a write to a file with mode %04o, %v", a.Mode, mode, err)
			}
		}
		if _, err := f.ReadAt(nfsserver.Cred{UID: me.UID + 1}, r, make([]byte, 1), 0); !errors.Is(err, syscall.EACCES) {
			t.Errorf("mode %04o: read by another: %v", mode, err)
		}
		must(t, f.Remove(me, f.Root(), "f"))
	}
}
