// Command soak runs a server under a mixed load for a while, and compares all copied files by hash.
// After the load it checks that the server releases its resources.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	var cfg config
	flag.DurationVar(&cfg.duration, "duration", 10*time.Minute, "how long the load lasts")
	flag.DurationVar(&cfg.rest, "rest", time.Minute, "how long the server rests before the last figures are taken")
	flag.StringVar(&cfg.dir, "dir", os.TempDir(), "where the files are made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, cfg)
	fmt.Print(r)
	if err == nil {
		err = atRest.check(r.before, r.rested)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// config sizes a run.
type config struct {
	duration time.Duration // of the load
	rest     time.Duration // after the load, before the last figures
	dir      string        // parent of the run's directory
}

// A report has the work done in a run, and the server's figures.
type report struct {
	done                 counts
	before, peak, rested figures
}

func (r report) String() string {
	return r.done.String() + "\n" + table(r.before, r.peak, r.rested)
}

// run loads a server for a while, and reports its figures before, at their peak and after a rest.
// It fails if any operation fails or a hash differs.
func run(ctx context.Context, cfg config) (r report, err error) {
	s, err := startServer(cfg.dir)
	if err != nil {
		return r, err
	}
	defer s.stop()
	if r.before, err = s.figures(); err != nil {
		return r, err
	}
	over, cancel := context.WithTimeout(ctx, cfg.duration)
	defer cancel()
	l := &load{server: s, over: over}
	watched := make(chan struct{})
	go func() { // runs until the load has ended, possibly a little after its time
		defer close(watched)
		for !l.ended() {
			if f, err := s.figures(); err == nil {
				r.peak = r.peak.maxOf(f)
			}
			time.Sleep(sampleInterval)
		}
	}()
	err = l.run()
	<-watched
	r.done = l.done.read()
	if err != nil {
		return r, fmt.Errorf("%w\nThe server wrote:\n%s", err, s.log())
	}
	select {
	case <-time.After(cfg.rest):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	r.rested, err = s.figures()
	return r, err
}

// sampleInterval is the interval of the server's figures under load.
const sampleInterval = 500 * time.Millisecond
