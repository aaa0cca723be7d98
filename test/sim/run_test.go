// Running a world: connect, call, compare the outcome with the choices, end, and check the remains.

package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Bounds in simulated time. Everything must be over long before them.
const (
	patience = 30 * time.Minute // for all calls
	parting  = 30 * time.Second // for the end of a connection
	// for the end of a call that has left: a driving caller is called back after two ticks of 10 ms
	prompt = 30 * time.Millisecond
	// for late replies, and the end of a connection that has no credit left
	abandoned = 10 * time.Minute
)

// run runs the seed, and returns the faults.
func run(t *testing.T, seed uint64, trace bool) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		if trace {
			start := time.Now()
			w.obs.trace = func(format string, args ...any) {
				fmt.Printf("%12v  %s\n", time.Since(start), fmt.Sprintf(format, args...))
			}
			w.describe()
		}
		if w.connect() {
			w.callAll()
			w.probeBoth()
		}
		w.end()
		failures = w.failures
	})
	return failures
}

// describe prints the choices.
func (w *world) describe() {
	for i, h := range w.hosts {
		fmt.Printf("%c: credits %d inline %d budget %d serves %v leaves %v abort %v\n", 'A'+i, h.cfg.Credits,
			h.cfg.InlineSize, h.total, h.cfg.Handler != nil, h.leave, h.abort)
		d := w.link.ends[i].out
		fmt.Printf("   its bytes: window %d %+v rate %d pieces %d late %v event %d at %d stall %v dead %v\n", d.window, w.link.ends[i].plan, d.plan.rate, d.plan.max,
			d.plan.late, d.plan.kind, d.plan.at, d.plan.stall, d.plan.dead)
		for c, calls := range h.calls {
			for _, p := range calls {
				fmt.Printf("   caller %d: %+v\n", c, *p)
			}
		}
	}
}

// connect brings both sides up.
func (w *world) connect() bool {
	a, b := w.hosts[0], w.hosts[1]
	l := b.dev.ListenOn(listenFor(w.link.ends[1].conn()))
	var err [2]error
	var both sync.WaitGroup
	both.Go(func() {
		var req rnic.ConnRequest
		if req, err[1] = l.Accept(context.Background()); err[1] == nil {
			b.conn, err[1] = rpcrdma.Accept(b.dev, req, b.cfg)
		}
	})
	a.conn, err[0] = rpcrdma.DialOver(context.Background(), a.dev, w.link.ends[0].conn(), a.cfg)
	if err[0] != nil {
		time.Sleep(parting) // the other side has possibly not seen it yet
		l.Close()
	}
	both.Wait()
	l.Close()
	for i, e := range err {
		if e != nil && !w.eventful() {
			w.fail("%c does not connect: %v", 'A'+i, e)
		}
	}
	return err[0] == nil && err[1] == nil
}

// callAll makes all calls of both sides and waits for them.
func (w *world) callAll() {
	var all sync.WaitGroup
	for _, h := range w.hosts {
		for _, calls := range h.calls {
			all.Go(func() {
				for _, p := range calls {
					time.Sleep(p.start)
					w.call(h, p)
				}
			})
		}
		all.Go(func() {
			for _, l := range h.limits {
				time.Sleep(l.after)
				w.grant(h, l.credits)
			}
		})
		if h.leave > 0 {
			all.Go(func() {
				time.Sleep(h.leave)
				if h.abort {
					h.conn.Abort(errNever)
				} else {
					w.close(h)
				}
			})
		}
	}
	w.await(&all, "calls")
}

// await waits for goroutines, which must be done within all patience.
func (w *world) await(all *sync.WaitGroup, what string) {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		w.mu.Lock()
		ended := len(w.ended)
		w.mu.Unlock()
		w.fail("%s do not end; %d calls have", what, ended)
		for _, h := range w.hosts {
			h.conn.Abort(errNever)
		}
		<-done
	}
}

// call makes one call and checks its end.
func (w *world) call(h *host, p *plan) {
	k := h.conn.NewCall()
	var mine [][]byte // memory of the caller that the RNIC may use until Do returns
	e := xdr.NewEncoder(k.Scratch())
	e.Uint32(p.xid)
	e.Uint32(0)
	e.Opaque(content(p.args, p.xid, partArgs))
	for i, n := range p.items {
		b := content(n, p.xid, partItems+i)
		mine = append(mine, b)
		e.Item(b)
	}
	k.Msg = chunks.Message{Stream: e.Bytes(), Items: e.Items()}
	k.MaxReply = 16 + xdr.RoundUp(p.results)
	if p.item >= 0 {
		k.MaxReply += 4
		if p.sink {
			k.Sink = make([]byte, p.item)
			mine = append(mine, k.Sink)
		} else {
			k.MaxReply += xdr.RoundUp(p.item)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if p.limit > 0 && p.byExpiry {
		k.Expired = time.After(p.limit)
	}
	start := time.Now()
	var left atomic.Bool // had been sent when it was given up
	if p.limit > 0 {
		time.AfterFunc(p.limit, func() {
			left.Store(w.hasLeft(h, p.xid))
			if !p.byExpiry {
				cancel()
			}
		})
	}
	err := h.conn.Do(ctx, k)
	// A side that also serves calls reads their chunks. Completions come in posting order, so its
	// Do may take longer.
	if late := time.Since(start) - p.limit; gaveUp(err) && left.Load() && late > prompt && h.cfg.Handler == nil {
		w.fail("call %x had left when it was given up on, and Do takes %v more", p.xid, late)
	}
	cancel()
	w.check(h, p, k, err)
	k.Release()
	for _, b := range mine {
		poison(b)
	}
	w.mu.Lock()
	if w.ended[p.xid] {
		w.failures = append(w.failures, fmt.Sprintf("call %x ends twice", p.xid))
	}
	w.ended[p.xid] = true
	w.poisoned = append(w.poisoned, mine...)
	w.mu.Unlock()
}

const venom = 0xa5

func poison(b []byte) {
	for i := range b {
		b[i] = venom
	}
}

// gaveUp reports whether a call has ended because its caller did not wait any longer.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, rpcrdma.ErrTimeout)
}

// check compares the end of a call with its plan.
func (w *world) check(h *host, p *plan, k *rpcrdma.Call, err error) {
	switch {
	case err == nil && w.wasSpoiled(p.xid):
		w.fail("call %x is answered by a reply whose header is wrong", p.xid)
	case err == nil:
		noRoom, err := p.checkReply(k.Reply)
		if err != nil || noRoom && !h.peer(w).svc.tight || p.end == endReject || p.end == endDrop || p.end == endTooLong && !noRoom {
			w.fail("call %x is answered, ending %d, no room %v: %v", p.xid, p.end, noRoom, err)
		}
	case gaveUp(err) && p.limit > 0:
	case errors.Is(err, rpcrdma.ErrClosed):
		w.wantEnd(err)
	case errors.Is(err, rpcrdma.ErrChunk) && (p.end == endReject || p.end == endTooLong):
	default:
		w.fail("call %x: %v", p.xid, err)
	}
}

func (h *host) peer(w *world) *host {
	if w.hosts[0] == h {
		return w.hosts[1]
	}
	return w.hosts[0]
}

// wantEnd checks that the seed has ended the connection. An abandoned call must not end it,
// whatever memory it exposes.
func (w *world) wantEnd(err error) {
	if !w.eventful() && !w.windowLost() {
		w.fail("the connection ends: %v", err)
	}
}

// probeBoth checks that neither side has lost a credit.
func (w *world) probeBoth() {
	if w.lossy || w.slow {
		time.Sleep(abandoned)
	}
	if w.windowLost() && !w.eventful() && w.hosts[0].conn.Err() == nil && w.hosts[1].conn.Err() == nil {
		w.fail("no call can start any more, and the connection has not ended")
		return
	}
	for i, h := range w.hosts {
		if len(h.probes) > 0 && h.conn.Err() == nil && w.hosts[1-i].conn.Err() == nil && !w.eventful() {
			w.probe(i, h)
		}
	}
}

// grant changes the number of calls that h grants to the other side.
func (w *world) grant(h *host, credits int) {
	if h.cfg.Handler == nil {
		return
	}
	if err := h.conn.SetCredits(credits); err != nil && h.conn.Err() == nil {
		w.fail("SetCredits: %v", err)
	}
}

// probe fills the window with calls that the other side holds. It then has them answered.
func (w *world) probe(side int, h *host) {
	svc := w.hosts[1-side].svc
	for _, h := range w.hosts {
		w.grant(h, h.cfg.Credits)
	}
	time.Sleep(time.Minute) // late replies come in
	var all sync.WaitGroup
	all.Go(func() { w.call(h, h.probes[0]) })
	w.await(&all, "first probe")
	if w.eventful() || h.conn.Err() != nil {
		return
	}
	w.obs.mu.Lock()
	before, window := len(w.wire.sides[side].calls), w.wire.window(side)
	w.obs.mu.Unlock()
	for _, p := range h.probes[1:] {
		all.Go(func() { w.call(h, p) })
	}
	time.Sleep(time.Minute)
	broken := h.conn.Err() != nil || w.eventful()
	if n := svc.release(); n != window-before && !broken {
		w.fail("%c has %d calls under way at once, %d from before; its window is %d", 'A'+side, n, before, window)
	}
	for more := true; more; { // then answer the calls that had to wait for a credit
		time.Sleep(time.Minute)
		more = svc.release() > 0
	}
	w.await(&all, "probes")
}

// close closes a connection, which must not take long.
func (w *world) close(h *host) {
	start := time.Now()
	h.conn.Close()
	if d := time.Since(start); d > parting {
		w.fail("Close takes %v", d)
	}
}

// end closes both sides and checks the remains.
func (w *world) end() {
	time.Sleep(time.Duration(w.rng.IntN(3)) * 100 * time.Millisecond)
	var all sync.WaitGroup
	order := w.rng.IntN(3)
	for i, h := range w.hosts {
		if h.conn == nil {
			continue
		}
		if err := h.conn.Err(); err != nil {
			w.wantEnd(err)
		}
		all.Go(func() {
			if order == i {
				time.Sleep(time.Second)
			}
			w.close(h)
		})
	}
	all.Wait()
	for _, e := range w.link.ends {
		e.Close()
	}
	for _, h := range w.hosts {
		h.svc.served.Wait()
		h.svc.release()
	}
	for i, h := range w.hosts {
		if free := h.cfg.Budget.Free(); free != h.total {
			w.fail("%c: %d bytes of the budget have not been returned", 'A'+i, h.total-free)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.poisoned {
		if bytes.Count(b, []byte{venom}) != len(b) {
			w.failures = append(w.failures, "memory was written to after Do had returned")
		}
	}
}
