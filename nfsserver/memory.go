// Returning memory to the system after busy times.

package nfsserver

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Thresholds for the start and the end of a busy time.
const (
	busyBytes  = 1 << 20   // allocated since memory was last returned
	quietBytes = 256 << 10 // allocated in one interval
)

// ReturnMemory returns memory to the system whenever the process has become quiet, until ctx ends.
// Go's runtime collects garbage only after further allocations. So in an idle process the memory
// used by past connections and calls would stay. ReturnMemory samples in each interval, and
// collects once after a busy time. The sample covers the whole process, so use ReturnMemory in
// programs that only serve.
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
			runtime.GC() // pooled objects become garbage in the second collection
			debug.FreeOSMemory()
			metrics.Read(sample)
			q.returned = sample[0].Value.Uint64()
		}
	}
}

// quiet detects the end of a busy time from the total allocated bytes.
type quiet struct {
	last     uint64 // at the last sample
	returned uint64 // total when memory was last returned
}

// became samples the total, and reports whether a busy time has ended.
func (q *quiet) became(allocated uint64) bool {
	still := allocated-q.last < quietBytes
	q.last = allocated
	return still && allocated-q.returned >= busyBytes
}
