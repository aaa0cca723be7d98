// Watching open files: those who read from the kernel's pages ask nobody.
//
// The kernel looks at attributes when a program does, and not at a read of what it has
// in its pages. As the pages are to be what other clients have written, within the time
// that attributes are trusted, open files are asked about when theirs time out.

package fusefs

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A watch is the goroutine that asks, while files are open.
type watch struct {
	mu      sync.Mutex // guards all below
	running bool
	end     context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup
}

// watchOpen has open files looked at from now on.
func (f *fileSystem) watchOpen() {
	if f.regs.max <= 0 {
		return // the kernel asks at each read
	}
	w := &f.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		w.ctx, w.end = context.WithCancel(context.Background())
	}
	if !w.running && w.ctx.Err() == nil {
		w.running = true
		w.wg.Go(f.watchLoop)
	}
}

// looksAtOnce bounds the looks under way. One waits for as long as a page of its file is being
// filled, and others go on.
const looksAtOnce = 16

// watchLoop runs until nothing is open.
func (f *fileSystem) watchLoop() {
	w, slots := &f.watch, make(chan struct{}, looksAtOnce)
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
			if _, _, ok := n.shows(); ok && left > 0 || n.looked.Swap(true) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-w.ctx.Done():
				return
			}
			w.wg.Go(func() {
				if left <= 0 {
					f.lookAt(w.ctx, n, who)
				}
				if !n.isRead() { // a notice would void a READ that comes back short
					_, _ = f.showSize(w.ctx, who, n)
				}
				n.looked.Store(false)
				<-slots
			})
		}
	}
}

// lookAt asks for the attributes of a file in the name of one who has it open. A failure is
// for those to meet who use the file.
func (f *fileSystem) lookAt(ctx context.Context, n *node, who *caller) {
	args, res := nfs3.GetattrArgs{FH: n.fh}, nfs3.GetattrRes{}
	s := f.stamp()
	if err := who.client.Do(ctx, nfs3.ProcGetattr, &args, &res, &res.Status, nil, 0); err == nil {
		f.learn(n, s, &res.Attr)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	if w.ctx == nil {
		w.ctx, w.end = context.WithCancel(context.Background())
	}
	w.end()
	w.mu.Unlock()
	w.wg.Wait()
}
