// The signals that end a program: what it has begun is removed first, and then it ends as by the signal.

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endings are the signals that end a program and that it can act upon: those by which users, terminals and service managers end it.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// A Signaled is why a context has ended: the signal that came.
type Signaled syscall.Signal

// Error names the signal.
func (s Signaled) Error() string { return syscall.Signal(s).String() }

// Status is the exit status that a shell gives to a program that a signal has ended.
func (s Signaled) Status() int { return 128 + int(s) }

// UntilSignal returns a context that ends, by a Signaled, with the first signal that ends a program. A signal that
// was ignored when the program started stays ignored, as nohup(1) wants it.
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	c := make(chan os.Signal, 1)
	for _, sig := range endings {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	go func() {
		select {
		case sig := <-c:
			if n, ok := sig.(syscall.Signal); ok {
				cancel(Signaled(n))
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		cancel(nil)
	}
}

// EndedBy is the status of a program whose context has ended before it was done.
func EndedBy(ctx context.Context) int {
	var s Signaled
	if errors.As(context.Cause(ctx), &s) {
		return s.Status()
	}
	return Signaled(syscall.SIGINT).Status()
}

// signalLimit is how long a signal that a process sends to itself may take.
const signalLimit = 5 * time.Second

// Exit ends the process with a status. One of a signal is given by that signal: a shell that runs a loop of
// commands ends the loop only where Ctrl-C has ended the command. Go writes stacks on SIGQUIT, so there the status is all.
func Exit(status int) {
	sig := syscall.Signal(status - 128)
	switch sig {
	case syscall.SIGPIPE:
		signal.Reset(sig)
		_, _ = os.Stdout.Write([]byte{'\n'}) // nobody reads it; the end of the process by SIGPIPE is Go's doing
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM:
		signal.Reset(sig)
		if syscall.Kill(os.Getpid(), sig) == nil {
			time.Sleep(signalLimit)
		}
	}
	os.Exit(status)
}
