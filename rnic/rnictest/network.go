// A private network for a test: all of its ports are free.

package rnictest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnNetwork moves the test's goroutine into a network namespace with only a loopback interface. It
// is for tests that need certain ports, or take all of them, without conflicts with other tests of
// this machine. The goroutine's sockets belong to that network; goroutines started by it use the
// process's network. The namespace ends with the test and its sockets: the goroutine keeps its
// thread, which is never reused.
//
// It needs root, and fails the test if namespaces are not available.
func OwnNetwork(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // permanently: the thread cannot return to the old namespace reliably
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("a network namespace: %v", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("Socket: %v", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatalf("NewIfreq: %v", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatalf("its loopback interface: %v", err)
	}
}
