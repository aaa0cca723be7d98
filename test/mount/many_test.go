// A worker that mounts by the library, many times in one process, and counts what is left.

package mount

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// heapMore is the permitted growth of the heap, in bytes: pools of buffers are emptied a little at
// a time.
const heapMore = 4 << 20

// manyWorker mounts and unmounts COUNT times: ADDRESS DIR COUNT TRANSPORT.
func manyWorker(args []string) error {
	count, _ := strconv.Atoi(args[2])
	via, err := nfsclient.ParseTransport(args[3])
	if err != nil {
		return err
	}
	ctx := context.Background()
	var before, after held
	for i := range count {
		c, err := nfsclient.Dial(ctx, args[0], nfsclient.Options{Transport: via})
		if err != nil {
			return err
		}
		fsys, err := c.Mount(ctx, "/export")
		if err != nil {
			return err
		}
		m, err := fusefs.Mount(ctx, fsys, args[1], fusefs.Options{Direct: true})
		if err != nil {
			return fmt.Errorf("mount %d: %w", i, err)
		}
		if err := m.Unmount(); err != nil {
			return fmt.Errorf("unmount %d: %w", i, err)
		}
		if err := c.Close(); err != nil {
			return err
		}
		if i == count/4 {
			before = settled(held{})
		}
	}
	after = settled(before)
	fmt.Printf("after %d mounts %+v, after all %d %+v\n", count/4+1, before, count, after)
	if after.goroutines > before.goroutines || after.files > before.files || after.heap > before.heap+heapMore {
		return fmt.Errorf("mounts leave something behind")
	}
	return nil
}

// A held is a process's resources.
type held struct {
	goroutines, files int
	heap              uint64
}

// settled counts the process's resources once everything has ended. With before it waits until
// there are no more than before, or for some minutes. Otherwise it waits for a few seconds.
func settled(before held) (h held) {
	rounds := 100
	if before != (held{}) {
		rounds *= 60
	}
	for range rounds {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		files, _ := os.ReadDir("/proc/self/fd")
		h = held{runtime.NumGoroutine(), len(files), m.HeapAlloc}
		if before != (held{}) && h.goroutines <= before.goroutines && h.files <= before.files && h.heap <= before.heap+heapMore {
			return h
		}
		time.Sleep(30 * time.Millisecond)
	}
	return h
}
