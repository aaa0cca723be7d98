// Package procs has Go's scheduler leave processors to others while this process carries streams and they use them.
//
// A goroutine that becomes ready has the scheduler wake a thread to look for more work, if there is
// a processor to give it (GOMAXPROCS). For small calls that is as it should be. A stream of large
// ones has one thing to do after another, most of it in the kernel; such a thread finds nothing,
// and on the way there it takes the processor from whom the stream waits for: the other end of it,
// on the same machine. With no processor to give nobody is woken.
package procs

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// Follow follows the load until ctx ends. Where the user has said how many processors there are
// (GOMAXPROCS), or where there is but one, it does nothing. It is for commands: a library has no
// say in what its program's scheduler has.
func Follow(ctx context.Context) {
	g := &governor{all: runtime.GOMAXPROCS(0)}
	g.now = g.all
	if os.Getenv("GOMAXPROCS") != "" || g.all < 2 {
		return
	}
	m, err := newMeter()
	if err != nil {
		return
	}
	read := func() sample {
		s := sample{at: time.Now(), machine: m.read()}
		s.calls, s.large = transport.ProcessCalls()
		return s
	}
	go func() {
		defer m.close()
		follow(ctx, g, read, g.set)
	}()
}

func follow(ctx context.Context, g *governor, read func() sample, set func(n int)) {
	t := time.NewTimer(idle)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		was := g.now
		n, due := g.next(read())
		if n != was {
			set(n)
		}
		t.Reset(due)
	}
}

// set gives Go's scheduler n processors. Where that is all there are, it finds out by itself again how many these are.
func (g *governor) set(n int) {
	if n < g.all {
		runtime.GOMAXPROCS(n)
		return
	}
	runtime.SetDefaultGOMAXPROCS()
	g.all = runtime.GOMAXPROCS(0)
	g.now = g.all
}
