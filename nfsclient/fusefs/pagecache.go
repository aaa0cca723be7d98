// Dropping the kernel's pages: one goroutine for each node at a time; it may block long.
//
// The kernel waits for pages being read or written, in an uninterruptible system call. A READ may
// wait for the server. So operations leave the system call to a goroutine and can still be killed.

package fusefs

import (
	"context"
	"sync"
)

// pageDropper has the nodes with pages being dropped or stored.
type pageDropper struct {
	mu       sync.Mutex // guards inFlight; innermost
	inFlight map[*node]chan struct{}
	wg       sync.WaitGroup
}

// run calls change, which drops or stores pages of n, with no other such call for n. It returns nil
// after change has ended. If ctx ends first it returns ctx's error, and change continues or never
// begins.
func (d *pageDropper) run(ctx context.Context, n *node, change func()) error {
	ended, before := d.begin(n)
	for before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
		ended, before = d.begin(n)
	}
	d.wg.Go(func() {
		change()
		d.mu.Lock()
		delete(d.inFlight, n)
		d.mu.Unlock()
		close(ended)
	})
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns ended, which the caller closes after its change. During another change for n it
// returns before, which closes when that change ends.
func (d *pageDropper) begin(n *node) (ended, before chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before = d.inFlight[n]; before != nil {
		return nil, before
	}
	if d.inFlight == nil {
		d.inFlight = make(map[*node]chan struct{})
	}
	ended = make(chan struct{})
	d.inFlight[n] = ended
	return ended, nil
}
