// Polling open files' attributes, for programs reading the kernel's page cache.
//
// The kernel checks attributes when a program asks for them, but not when it reads cached pages.
// Cached pages must show the writes of other clients within the attribute timeout. So the mount
// polls the attributes of open files when they time out.

package fusefs

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An attrPoller is the polling goroutine. The goroutine runs while files are open.
type attrPoller struct {
	mu      sync.Mutex // guards all below
	running bool
	end     context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup
}

// pollOpenFiles starts the polling goroutine unless it runs.
func (f *fileSystem) pollOpenFiles() {
	if f.regs.max <= 0 {
		return // no polling: the kernel fetches attributes at each read
	}
	w := &f.poller
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		w.ctx, w.end = context.WithCancel(context.Background())
	}
	if !w.running && w.ctx.Err() == nil {
		w.running = true
		w.wg.Go(f.pollLoop)
	}
}

// pollsMost bounds concurrent polls. A poll may wait while the kernel fills a page of the polled
// file; other polls continue.
const pollsMost = 16

// pollLoop polls until no file is open.
func (f *fileSystem) pollLoop() {
	w, slots := &f.poller, make(chan struct{}, pollsMost)
	pause := max(f.regs.min, 10*time.Millisecond)
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		files := f.handles.openFiles()
		w.mu.Lock()
		if len(files) == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for n, who := range files {
			_, left := n.snapshot()
			if _, _, ok := n.shows(); ok && left > 0 || n.polling.Swap(true) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-w.ctx.Done():
				return
			}
			w.wg.Go(func() {
				if left <= 0 {
					f.pollAttrs(w.ctx, n, who)
				}
				if !n.isRead() { // a notice now would make the kernel ignore a short READ
					_, _ = f.showSize(w.ctx, who, n)
				}
				n.polling.Store(false)
				<-slots
			})
		}
	}
}

// pollAttrs fetches the attributes of a file with an opener's credentials. It drops errors, because
// the next operation on the file gets them too.
func (f *fileSystem) pollAttrs(ctx context.Context, n *node, who *caller) {
	args, res := nfs3.GetattrArgs{FH: n.fh}, nfs3.GetattrRes{}
	s := f.stamp()
	if err := who.client.Do(ctx, nfs3.ProcGetattr, &args, &res, &res.Status, nil, 0); err == nil {
		f.learn(n, s, &res.Attr)
	}
}

// stop ends the polling permanently and waits for polls in flight.
func (w *attrPoller) stop() {
	w.mu.Lock()
	if w.ctx == nil {
		w.ctx, w.end = context.WithCancel(context.Background())
	}
	w.end()
	w.mu.Unlock()
	w.wg.Wait()
}
