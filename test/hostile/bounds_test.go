// Limits on the memory and goroutines of this process, which runs the flooded server.

package hostile

import (
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// A bound limits the growth of resources since its creation.
type bound struct {
	t          *testing.T
	heap       uint64
	goroutines int
}

func newBound(t *testing.T) *bound {
	runtime.GC()
	runtime.GC() // the contents of pools are gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &bound{t, m.HeapAlloc, runtime.NumGoroutine()}
}

// within wants at most heap more bytes of live heap and goroutines more goroutines than before. It
// waits for up to a minute, so garbage and memory about to be freed do not count.
func (b *bound) within(what string, heap uint64, goroutines int) {
	b.t.Helper()
	var h uint64
	var g int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h, g = max(m.HeapAlloc, b.heap)-b.heap, runtime.NumGoroutine()-b.goroutines
		if h <= heap && g <= goroutines {
			b.t.Logf("%s: %.1f MB and %d goroutines more", what, float64(h)/1e6, g)
			return
		}
	}
	b.t.Errorf("%s: %.1f MB more, at most %.1f wanted; %d goroutines more, at most %d", what, float64(h)/1e6, float64(heap)/1e6, g, goroutines)
}

// served wants a new client to be served, over RDMA and TCP.
func served(t *testing.T, s *rig.Server) {
	t.Helper()
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			// the server may first have to free a place, and clients try again
			var c *nfsclient.Client
			if c, err = nfsclient.Dial(bg, s.Addr(tr), nfsclient.Options{Transport: tr}); err != nil {
				continue
			}
			_, err = c.Mount(bg, rig.Export)
			c.Close()
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("a client that comes during the flood, over %s: %v", tr, err)
		}
	}
}

// some returns the size of a flood: few, a quarter of that in short mode, or all if full is set.
func some(few, all int) int {
	switch {
	case full:
		return all
	case testing.Short():
		return max(few/4, 1)
	}
	return few
}
