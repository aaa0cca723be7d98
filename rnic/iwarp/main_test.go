// Tests leave no goroutine, and owners of the receive right change as drawn.

package iwarp

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

func TestMain(m *testing.M) {
	onOwner = watchOwner
	code := m.Run()
	if n := leftOver(); n > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left\n", n)
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		code = 1
	}
	// A receiver that spins forever would keep all others in the process from spinning.
	if n := rxwait.Spinning(); n > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d receivers still spin\n", n)
		code = 1
	}
	os.Exit(code)
}

func watchOwner(from, to owner) {
	if !slices.Contains(nextOwners[from], to) {
		panic(fmt.Sprintf("owner %d cannot become %d", from, to))
	}
}

// leftOver counts goroutines besides this one, after it has waited for those about to end. The
// fuzzing engine leaves one that listens for signals.
func leftOver() int {
	own := 1
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		own = 2
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= own {
			return 0
		}
	}
	return runtime.NumGoroutine() - own
}
