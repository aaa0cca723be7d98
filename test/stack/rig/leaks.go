// What a test leaves behind: goroutines of this module, and file descriptors.

package rig

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// NoLeaks fails the test when, after all its other clean-up, there are more
// descriptors than now or goroutines of this module that are not there now.
// It is to be called first, and not in tests that run beside others.
func NoLeaks(t testing.TB) {
	t.Helper()
	fds, routines := Descriptors(), len(Goroutines())
	t.Cleanup(func() {
		var left []string
		n := 0
		for range 6000 { // ends are not all waited for by those who ask for them, and one of RoCE asks a peer that is away several times
			left, n = Goroutines(), Descriptors()
			if len(left) <= routines && n <= fds {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d descriptors were %d; %d goroutines were %d:\n%s", n, fds, len(left), routines, strings.Join(left, "\n\n"))
	})
}

// Descriptors is how many file descriptors this process has open.
func Descriptors() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no /proc here: nothing to compare
	}
	return len(d)
}

// Goroutines is the stacks of the goroutines that run code of this module, but
// for those of the tests themselves.
func Goroutines() (found []string) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for _, s := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(s, "nfsrdma/nfsrdma/") && !strings.Contains(s, "testing.tRunner") {
			found = append(found, s)
		}
	}
	return found
}
