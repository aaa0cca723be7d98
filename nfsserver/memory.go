// Memory freed after a busy time: given back to the system when it is over.

package nfsserver

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What counts as a busy time, and as its end.
const (
	busyBytes  = 1 << 20   // allocated since memory was given back
	quietBytes = 256 << 10 // allocated in one interval
)

// ReturnMemory gives memory back to the system whenever the process has become quiet, until ctx
// ends: Go's runtime collects garbage when there is more of it, so what connections and calls
// have used would stay for as long as nothing happens. It looks each interval, and collects
// once after a busy time. It is for programs that do nothing but serve, for
// it looks at the whole process.
func ReturnMemory(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	q := quiet{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if q.became(sample[0].Value.Uint64()) {
			runtime.GC() // what pools keep is garbage after the second one
			debug.FreeOSMemory()
			metrics.Read(sample)
			q.returned = sample[0].Value.Uint64()
		}
	}
}

// quiet tells the end of a busy time by the bytes that have been allocated in all.
type quiet struct {
	last     uint64 // at the last look
	returned uint64 // when memory was last given back
}

// became reports whether a busy time is over.
func (q *quiet) became(allocated uint64) bool {
	still := allocated-q.last < quietBytes
	q.last = allocated
	return still && allocated-q.returned >= busyBytes
}
