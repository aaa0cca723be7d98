// The load: workers of several kinds, each repeating its operation until the time is over.

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

// A tally counts completed operations.
type tally struct {
	copied, killed, malformed, mounted, changed atomic.Int64
}

// counts is a tally at one moment.
type counts struct {
	copied    int64 // files copied to the server and back with the same hash
	killed    int64 // clients killed during a copy
	malformed int64 // connections with malformed data
	mounted   int64 // connections that mounted and unmounted
	changed   int64 // names made, renamed or removed
}

func (t *tally) read() counts {
	return counts{t.copied.Load(), t.killed.Load(), t.malformed.Load(), t.mounted.Load(), t.changed.Load()}
}

func (c counts) String() string {
	return fmt.Sprintf("%d files copied each way and compared, %d clients killed, %d malformed connections, %d mounts, %d changes of names",
		c.copied, c.killed, c.malformed, c.mounted, c.changed)
}

// A worker has its own directories, local and on the server, and its own random source.
type worker struct {
	*load
	transport string // "rdma" or "tcp"
	name      string
	local     string // its local directory
	rand      *rand.Rand
}

// kinds are the workers' operations, and the number of workers per transport.
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

// callTimeout limits each operation.
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

// repeat calls once, and repeats the call until the time is over or another worker fails.
func (w *worker) repeat(ctx context.Context, once func(*worker, context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := once(w, limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // another worker has failed first
		case err != nil:
			return fmt.Errorf("%s: %w", w.name, err)
		case w.over.Err() != nil:
			return nil
		}
	}
}

// served returns a worker's file on the server's disk.
func (w *worker) served(name string) string { return filepath.Join(w.server.served, w.name, name) }

// url returns the URL of a worker's file.
func (w *worker) url(name string) string { return w.server.url(w.transport, w.name+"/"+name) }

// randomDuration returns a random duration below most.
func (w *worker) randomDuration(most time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(most)))
}
