// Dropping pages of the kernel: one goroutine for a node at a time, which can wait for long.
//
// The kernel waits for pages that are being read or written, in a system call that no signal ends.
// A READ may wait for the server, so operations that drop pages leave the system call to a
// goroutine, and can be killed.

package fusefs

import (
	"context"
	"sync"
)

// dropping is the nodes of which pages are being dropped or stored.
type dropping struct {
	mu    sync.Mutex // guards under; innermost
	under map[*node]chan struct{}
	wg    sync.WaitGroup
}

// run has change done, which drops or stores pages of n, while no other is done of n. It returns
// nil when that has ended, or the error of ctx: change then goes on, or has not begun and will not.
func (d *dropping) run(ctx context.Context, n *node, change func()) error {
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
		delete(d.under, n)
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

// begin returns a channel that is to be closed at the end, or that of the change under way.
func (d *dropping) begin(n *node) (ended, before chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before = d.under[n]; before != nil {
		return nil, before
	}
	if d.under == nil {
		d.under = make(map[*node]chan struct{})
	}
	ended = make(chan struct{})
	d.under[n] = ended
	return ended, nil
}
