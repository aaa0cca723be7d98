// Posts of several goroutines that leave at once.

package iwarp

import (
	"runtime"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// With HintCoalesce, the first of several goroutines that are about to post lets the others post
// before it sends.
func TestTogetherLeavesAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else others may post just when the first one sends
	const posts = 12
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, posts)
	for i := range uint64(posts) {
		recv(t, b.qp, i, make([]byte, 8))
	}
	tx := &streamOf(a.qp).tx
	tx.mu.Lock()
	counter := &countingLink{link: tx.link}
	tx.link = counter
	tx.mu.Unlock()
	var wg sync.WaitGroup
	for i := range uint64(posts) {
		wg.Go(func() {
			if err := a.qp.PostSend(rnic.SendWR{ID: i, Op: rnic.OpSend, SGL: [][]byte{{byte(i)}}, Hint: rnic.HintCoalesce}); err != nil {
				t.Errorf("PostSend: %v", err)
			}
		})
	}
	wg.Wait()
	for i := range uint64(posts) {
		b.want(t, rnic.OpRecv, i, rnic.WCSuccess)
	}
	a.qp.Close()
	// All posts need one system call, unless the machine preempts a goroutine before its post.
	if counter.calls > posts/2 {
		t.Errorf("%d system calls for %d posts", counter.calls, posts)
	}
}
