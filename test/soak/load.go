// The load: workers of several kinds, each of which does its thing again and again until the time
// is over.

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A load is one run of all workers against a server.
type load struct {
	server *server
	over   context.Context // done when no more is to be begun

	done  tally
	state struct {
		sync.Mutex
		ended bool
	}
}

// A tally counts what has been done.
type tally struct {
	copied, killed, malformed, mounted, changed atomic.Int64
}

// counts is a tally at one moment.
type counts struct {
	copied    int64 // files that went to the server and came back with the same hash
	killed    int64 // clients that were killed while they copied
	malformed int64 // connections on which something came that is no call
	mounted   int64 // connections that mounted and unmounted
	changed   int64 // names that were made, renamed or removed
}

func (t *tally) read() counts {
	return counts{t.copied.Load(), t.killed.Load(), t.malformed.Load(), t.mounted.Load(), t.changed.Load()}
}

func (c counts) String() string {
	return fmt.Sprintf("%d files copied each way and compared, %d clients killed, %d malformed connections, %d mounts, %d changes of names",
		c.copied, c.killed, c.malformed, c.mounted, c.changed)
}

// A worker has its own directory, on this machine and on the server, and its own chance.
type worker struct {
	*load
	transport string // "rdma" or "tcp"
	name      string
	local     string // its directory on this machine
	rand      *rand.Rand
}

// kinds are what workers do, and how many of each there are for each transport.
var kinds = []struct {
	name  string
	count int
	once  func(w *worker, ctx context.Context) error
}{
	{"copy", 2, (*worker).copyBoth},
	{"kill", 1, (*worker).killOne},
	{"mount", 2, (*worker).mountAndChange},
	{"malformed", 2, (*worker).malformed},
}

// callTimeout is how long anything that is begun may take to end.
const callTimeout = 5 * time.Minute

// run runs all workers until the time is over, and returns the first error.
func (l *load) run() error {
	defer func() {
		l.state.Lock()
		l.state.ended = true
		l.state.Unlock()
	}()
	group, ctx := errgroup.WithContext(context.Background())
	seed := uint64(0)
	for _, transport := range []string{"rdma", "tcp"} {
		for _, kind := range kinds {
			for i := range kind.count {
				seed++
				w := &worker{load: l, transport: transport, name: fmt.Sprintf("%s-%s-%d", kind.name, transport, i), rand: rand.New(rand.NewPCG(seed, 1))}
				w.local = filepath.Join(l.server.base, w.name)
				if err := errors.Join(os.Mkdir(w.local, 0o755), os.Mkdir(filepath.Join(l.server.served, w.name), 0o755)); err != nil {
					return err
				}
				group.Go(func() error { return w.repeat(ctx, kind.once) })
			}
		}
	}
	return group.Wait()
}

func (l *load) ended() bool {
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.ended
}

// repeat has once done at least once, and until the time is over or another worker has failed.
func (w *worker) repeat(ctx context.Context, once func(*worker, context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := once(w, limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // another one has failed first
		case err != nil:
			return fmt.Errorf("%s: %w", w.name, err)
		case w.over.Err() != nil:
			return nil
		}
	}
}

// served is a file of the worker as the server's machine has it.
func (w *worker) served(name string) string { return filepath.Join(w.server.served, w.name, name) }

// url is that of a file of the worker.
func (w *worker) url(name string) string { return w.server.url(w.transport, w.name+"/"+name) }

// chance is a duration below most.
func (w *worker) chance(most time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(most)))
}
