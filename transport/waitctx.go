// A context with a time-out that is made once and used for call after call.

package transport

import (
	"context"
	"sync/atomic"
	"time"
)

// A waitCtx bounds one attempt. Where the caller's context can end by itself a
// child of it is made; where it cannot, as context.Background, the waitCtx is
// the context, and starting it allocates nothing.
type waitCtx struct {
	context.Context // the caller's, for Value
	cancel          context.CancelFunc
	child           context.Context
	timer           *time.Timer
	done            chan struct{}
	fired           atomic.Bool
	end             time.Time
}

func (w *waitCtx) init() {
	w.done = make(chan struct{})
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.timer.Stop()
}

func (w *waitCtx) fire() {
	w.fired.Store(true)
	close(w.done)
}

// start returns a context that ends with ctx, and after d.
func (w *waitCtx) start(ctx context.Context, d time.Duration) context.Context {
	w.Context = ctx
	if ctx.Done() != nil {
		w.child, w.cancel = context.WithTimeout(ctx, d)
		return w.child
	}
	w.end = time.Now().Add(d)
	w.timer.Reset(d)
	return w
}

// stop ends the use. It returns whether the time was up while the caller's context had not ended.
func (w *waitCtx) stop() (timedOut bool) {
	ctx := w.Context
	w.Context = nil
	if w.child != nil {
		timedOut = w.child.Err() != nil && ctx.Err() == nil
		w.cancel()
		w.child, w.cancel = nil, nil
		return timedOut
	}
	if w.timer.Stop() {
		return false
	}
	<-w.done // it fires: the next use must not be hit by that
	w.done = make(chan struct{})
	return w.fired.Swap(false)
}

// Deadline is when the time is up.
func (w *waitCtx) Deadline() (time.Time, bool) { return w.end, true }

// Done is closed when the time is up.
func (w *waitCtx) Done() <-chan struct{} { return w.done }

// Err is context.DeadlineExceeded when the time is up.
func (w *waitCtx) Err() error {
	if w.fired.Load() {
		return context.DeadlineExceeded
	}
	return nil
}
