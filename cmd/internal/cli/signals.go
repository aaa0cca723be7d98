// The signals that end a program: the program removes unfinished files first, and then ends by the
// signal.

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endings are the signals that users, terminals and service managers send to end a program, and
// that it can handle.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// A Signaled is a signal as the cause of a context's end.
type Signaled syscall.Signal

// Error names the signal.
func (s Signaled) Error() string { return syscall.Signal(s).String() }

// Status returns the exit status that a shell reports for a program ended by the signal.
func (s Signaled) Status() int { return 128 + int(s) }

// UntilSignal returns a context that ends at the first signal in endings, with a Signaled as its
// cause. A signal that was ignored at the program's start stays ignored, as nohup(1) requires.
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

// EndedBy returns the exit status after ctx has ended the program's work.
func EndedBy(ctx context.Context) int {
	var s Signaled
	if errors.As(context.Cause(ctx), &s) {
		return s.Status()
	}
	return Signaled(syscall.SIGINT).Status()
}

// signalLimit bounds the wait for a signal to this process.
const signalLimit = 5 * time.Second

// Exit ends the process with a status. If the status stands for a signal, the process ends by that
// signal, because a shell ends a loop of commands only if Ctrl-C has ended the command. After
// SIGQUIT Go would print stacks, so Exit only sets the status.
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
