// No test may leave a goroutine or a file descriptor behind.

package nfsclient_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	goroutines, fds := runtime.NumGoroutine(), openFiles()
	code := m.Run()
	// the fuzzing engine has goroutines of its own
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	if code == 0 && !fuzzing && !endsWith(goroutines, fds) {
		fmt.Fprintf(os.Stderr, "left behind: goroutines %d, were %d; descriptors %d, were %d\n",
			runtime.NumGoroutine(), goroutines, openFiles(), fds)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		code = 1
	}
	os.Exit(code)
}

// endsWith waits for goroutines and descriptors to end, and reports whether no more than these
// numbers are left.
func endsWith(goroutines, fds int) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if runtime.NumGoroutine() <= goroutines && openFiles() <= fds {
			return true
		}
		<-tick.C
	}
	return false
}

// openFiles counts the open descriptors, except those of Go's runtime poller, which are opened with
// the first socket.
func openFiles() (n int) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && len(to) > 0 && to[0] != 'a' {
			n++ // skips the poller's: anon_inode:[eventpoll] and its eventfd
		}
	}
	return n
}
