// No test may leak a goroutine or a file descriptor: a run closes everything it opens, however it
// ends.

package treecopy

import (
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
	if code == 0 && !endsWith(goroutines, fds) {
		fmt.Fprintf(os.Stderr, "left behind: goroutines %d, were %d; descriptors %d, were %d\n",
			runtime.NumGoroutine(), goroutines, openFiles(), fds)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		code = 1
	}
	os.Exit(code)
}

// endsWith waits for running ends, and reports whether no more than the given numbers remain.
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
