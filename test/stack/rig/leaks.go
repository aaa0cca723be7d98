// Leaks of a test: goroutines of this module, and file descriptors.

package rig

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// NoLeaks fails the test if, after all its other cleanup, there are more descriptors or goroutines
// of this module than now. Call it first, and not in parallel tests.
func NoLeaks(t testing.TB) {
	t.Helper()
	fds, routines := Descriptors(), len(Goroutines())
	t.Cleanup(func() {
		var left []string
		n := 0
		for range 6000 {
			// some goroutines end without a waiter, and RoCE's end retries several times if its
			// peer is gone
			left, n = Goroutines(), Descriptors()
			if len(left) <= routines && n <= fds {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d descriptors were %d; %d goroutines were %d:\n%s", n, fds, len(left), routines, strings.Join(left, "\n\n"))
	})
}

// Descriptors returns the number of open file descriptors in this process.
func Descriptors() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no /proc: no comparison
	}
	return len(d)
}

// Goroutines returns the stacks of goroutines that run code of this module, except the tests' own.
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
