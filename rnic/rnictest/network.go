// A network of a test's own: all of its ports are free, and nobody else has them.

package rnictest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnNetwork moves the test's goroutine into a network namespace that has a loopback interface and
// nothing else. It is for tests that need ports of their choice, or take all of them, which other
// tests of this machine would miss. Sockets that the goroutine makes are of that network; what it
// starts makes its own in the network of the process. The namespace ends with the test and its
// sockets: the goroutine keeps its thread, which nobody uses again.
//
// It needs root, and fails the test where namespaces cannot be made.
func OwnNetwork(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // for good: a thread cannot be trusted to come back
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("a network namespace: %v", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatalf("its loopback interface: %v", err)
	}
}
