// The faults in a run.

package sim

import (
	"fmt"
	"slices"
	"sync"
)

// faults are the broken invariants in one run, each reported once.
type faults struct {
	mu       sync.Mutex
	failures []string
}

// fail notes a broken invariant.
func (f *faults) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := fmt.Sprintf(format, args...); !slices.Contains(f.failures, s) {
		f.failures = append(f.failures, s)
	}
}
