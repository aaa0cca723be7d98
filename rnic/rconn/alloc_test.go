// Steady state allocates nothing.

package rconn

import (
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestAlloc: small and large writes, and their reads, allocate nothing.
func TestAlloc(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{})
		go func() { _, _ = io.Copy(y, struct{ io.Reader }{y}) }()
		for _, size := range []int{64, 2 * directBytes} {
			out, in := make([]byte, size), make([]byte, size)
			echo := func() {
				_, err := x.Write(out)
				must.Succeed(t, err)
				_, err = io.ReadFull(x, in)
				must.Succeed(t, err)
			}
			for range 20 {
				echo()
			}
			// Allocations of the data path occur in each round. Those that refill pools after a
			// garbage collection occur rarely.
			n := testing.AllocsPerRun(200, echo)
			for tries := 0; n != 0 && tries < 20; tries++ {
				n = min(n, testing.AllocsPerRun(200, echo))
			}
			if n != 0 {
				t.Errorf("%d bytes: %v allocations for each write and read", size, n)
			}
		}
	})
}
