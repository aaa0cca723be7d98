// The signals that end a program: it removes unfinished files first, and then ends by the signal.

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endings are the signals with which users, terminals and service managers end a program, and that
// it can handle.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// A Signaled is the cause of a context's end: a signal.
type Signaled syscall.Signal

// Error names the signal.
func (s Signaled) Error() string { return syscall.Signal(s).String() }

// Status is the exit status that a shell reports for a program that a signal has ended.
func (s Signaled) Status() int { return 128 + int(s) }

// UntilSignal returns a context that ends, with a Signaled as its cause, at the first signal that
// ends a program. A signal that was ignored when the program started stays ignored, as nohup(1)
// requires.
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

// EndedBy is the exit status after ctx has ended the program's work.
func EndedBy(ctx context.Context) int {
	var s Signaled
	if errors.As(context.Cause(ctx), &s) {
		return s.Status()
	}
	return Signaled(syscall.SIGINT).Status()
}

// signalLimit bounds the wait for a signal that a process sends to itself.
const signalLimit = 5 * time.Second

// Exit ends the process with a status, for that of a signal by the signal itself: a shell ends a
// loop of commands only if Ctrl-C has ended the command. After SIGQUIT Go writes stacks, so there
// it sets only the status.
func Exit(status int) {
	sig := syscall.Signal(status - 128)
	switch sig {
	case syscall.SIGPIPE:
		signal.Reset(sig)
		_, _ = os.Stdout.Write([]byte{'\n'}) // no reader: Go's runtime ends the process by SIGPIPE
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM:
		signal.Reset(sig)
		if syscall.Kill(os.Getpid(), sig) == nil {
			time.Sleep(signalLimit)
		}
	}
	os.Exit(status)
}
