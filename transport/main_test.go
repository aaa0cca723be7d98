// All tests together leave no goroutine behind.

package transport

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" { // a client for owner_test.go
		ownerChild(spec)
		return
	}
	machine.QuietLog()
	probeWait = time.Minute // so that a busy machine loses no probe
	watchStandings()
	code := m.Run()
	if f := flag.Lookup("test.run").Value.String(); code == 0 && f == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		code = unseenStandings()
	}
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks waits for this module's goroutines to end, and prints those that do not.
func leaks() int {
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = ours(); len(left) == 0 {
			return 0
		}
	}
	fmt.Printf("%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
	return 1
}

// ours returns the stacks of this module's goroutines, except the main one.
func ours() (left []string) {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, s := range stacks[1:] {
		if strings.Contains(s, "nfsrdma/nfsrdma/") {
			left = append(left, s)
		}
	}
	return left
}
