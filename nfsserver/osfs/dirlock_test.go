// Another process holds a directory's lock, so only calls that need this lock wait.

package osfs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// heldDir is set in the separate process that runs the test; its value is the directory to export.
const heldDir = "NFSRDMA_TEST_HELD_DIR"

// TestHeldDirectory: a process that lists a directory of a tmpfs into missing memory holds the
// directory's lock. If another process waits there to create a name, look-ups of missing names
// wait. Calls on the receive loop do not wait, and the rest of the process continues. The test runs
// in a separate process, because a process that hangs cannot fail.
func TestHeldDirectory(t *testing.T) {
	if dir := os.Getenv(heldDir); dir != "" {
		lookHeld(t, dir)
		return
	}
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "mount")
	dir := filepath.Join(t.TempDir(), "held")
	mountOn(t, dir, "-t", "tmpfs", "held")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHeldDirectory$")
	cmd.Env = append(os.Environ(), heldDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// lookHeld runs in the separate process: it tests, and ends the process.
func lookHeld(t *testing.T, dir string) {
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	f := newFS(t, dir, Options{})
	self := nfsserver.Self()
	d, _, err := f.Lookup(self, f.Root(), "d")
	must.Succeed(t, err)
	// also caches the caller's permission
	if _, _, err := f.Lookup(self, d, "none"); err != unix.ENOENT {
		t.Fatalf("look up a missing name: got %v, want ENOENT", err)
	}
	hold(t, filepath.Join(dir, "d"))
	if _, _, ok := f.LookupInUse(self, d, "none"); ok {
		t.Fatal("a name that is not there was found")
	}
	go f.Lookup(self, d, "none")
	// a shorter time would miss faults, but never report a false one
	time.Sleep(100 * time.Millisecond)
	// GC waits for all goroutines that the scheduler takes for running
	runtime.GC()
	os.Exit(0)
}

// hold makes one thread hold a directory's lock in shared mode, and another thread wait for it.
func hold(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Succeed(t, err)
	page := missingPage(t)
	go unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), page, 4096)
	time.Sleep(100 * time.Millisecond)
	go os.Mkdir(filepath.Join(dir, "new"), 0o755)
	time.Sleep(100 * time.Millisecond)
}

// missingPage returns the address of a missing page: an access to the page waits for ever.
func missingPage(t *testing.T) uintptr {
	const (
		uffdAPI, uffdioAPI, uffdioRegister, registerMissing = 0xaa, 0xc018aa3f, 0xc020aa00, 1
		size                                                = 4096
	)
	u, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	must.Succeed(t, errnoError(errno))
	api := [3]uint64{uffdAPI}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, u, uffdioAPI, uintptr(unsafe.Pointer(&api)))
	must.Succeed(t, errnoError(errno))
	page, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	must.Succeed(t, errnoError(errno))
	region := [4]uint64{uint64(page), size, registerMissing}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, u, uffdioRegister, uintptr(unsafe.Pointer(&region)))
	must.Succeed(t, errnoError(errno))
	return page
}
