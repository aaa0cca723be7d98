// Another user for a part of a test.

package machine

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// NeedRoot leaves a test out if it is not run by root, or without one of the programs, with a line
// that says what is not tested then.
func NeedRoot(t testing.TB, why string, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, why)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Skip(t, p+" is missing: "+why)
		}
	}
}

// AsUser runs f as another user. Goroutines that f starts stay those of root. The test is skipped
// if it is not root's.
func AsUser(t testing.TB, uid uintptr, f func()) {
	t.Helper()
	NeedRoot(t, "acts as another user: needs root")
	errno, done := syscall.Errno(0), make(chan struct{})
	go func() {
		defer close(done)      // at the end of a failed test, too
		runtime.LockOSThread() // never unlocked: the thread is not used again
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno == 0 {
			f()
		}
	}()
	if <-done; errno != 0 {
		t.Fatal(errno)
	}
}
