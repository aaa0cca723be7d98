// The full-screen loop: time, keys, signals and the server's answers.

package top

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// An answer is the result of one request to the server.
type answer struct {
	snapshot *Snapshot
	err      error
}

// Screen shows reports on a terminal until a key or the end of the context. The first request must
// succeed; later requests are repeated until the server answers.
func Screen(ctx context.Context, in, out *os.File, o *Options) error {
	first, err := o.Source.Read(ctx)
	if err != nil {
		return err
	}
	t, err := openTerminal(in, out)
	if err != nil {
		return err
	}
	defer t.close()
	s := &screen{style: style{order: o.Order, colors: o.Colors}, interval: o.Interval, server: o.Source.Name}
	s.update(first, nil)
	return s.run(ctx, t, o.Source)
}

func (s *screen) run(ctx context.Context, t *terminal, source *Source) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	answers, asking := make(chan answer, 1), false
	defer func() {
		cancel()
		if asking {
			<-answers
		}
	}()
	ask := func() {
		if !asking {
			asking = true
			go func() {
				snapshot, err := source.Read(ctx)
				answers <- answer{snapshot, err}
			}()
		}
	}
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		s.width, s.height = t.size()
		if _, err := t.out.WriteString(s.draw()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			ask()
		case a := <-answers:
			asking = false
			s.update(a.snapshot, a.err)
		case sig := <-signals:
			if sig == unix.SIGTSTP {
				if err := t.suspend(); err != nil {
					return err
				}
			}
		case k, ok := <-t.keys:
			if !ok {
				return nil
			}
			switch s.key(k) {
			case quit:
				return nil
			case now:
				ask()
			case reschedule:
				tick.Reset(s.interval)
			}
		}
	}
}

// suspend restores the shell's terminal settings and stops the process, as Ctrl-Z requests. It
// returns when the process continues.
func (t *terminal) suspend() error {
	on := make(chan os.Signal, 1)
	signal.Notify(on, unix.SIGCONT)
	defer signal.Stop(on)
	t.leave()
	if err := unix.Kill(unix.Getpid(), unix.SIGSTOP); err != nil {
		return err
	}
	// kill may return in this thread before the process has stopped, so wait for SIGCONT
	<-on
	return t.enter()
}
