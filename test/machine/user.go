// Another user during a part of a test.

package machine

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// NeedRoot skips a test unless it is run by root and all the programs exist. why is the part that a
// skip leaves untested.
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

// AsUser runs f as another user. Goroutines started by f run as root. Without root AsUser skips the
// test.
func AsUser(t testing.TB, uid uintptr, f func()) {
	t.Helper()
	NeedRoot(t, "acts as another user: needs root")
	errno, done := syscall.Errno(0), make(chan struct{})
	go func() {
		defer close(done)      // also after a failed test
		runtime.LockOSThread() // never unlocked, so the thread is not reused
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno == 0 {
			f()
		}
	}()
	if <-done; errno != 0 {
		t.Fatal(errno)
	}
}
