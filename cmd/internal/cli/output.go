// The standard output. It keeps the first write error, and the program reports that error for all
// commands.

package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// An OutputError is an error while writing the standard output. A command that gets an OutputError
// stops; the program reports the error.
type OutputError struct{ error }

// Unwrap returns the system's error.
func (e *OutputError) Unwrap() error { return e.error }

// An Output keeps the first write error for the end of the program, so commands need not check each
// line they print. It is safe for concurrent use.
type Output struct {
	// set once
	w io.Writer
	// gone is called once when a pipe has no reader, to end the program as SIGPIPE does. If it is
	// nil, that error is treated like others.
	gone func()

	mu  sync.Mutex // guards err, and is held while w is written to
	err error
}

// NewOutput writes to w.
func NewOutput(w io.Writer, gone func()) *Output { return &Output{w: w, gone: gone} }

// Stdout returns the standard output under another descriptor. Go ends a program that writes to
// descriptor 1 after the reader has gone, but a running copy must clean up first.
func Stdout() *os.File {
	const above = 10 // lower descriptors may belong to a child process
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, above)
	if err != nil {
		return os.Stdout
	}
	return os.NewFile(uintptr(fd), os.Stdout.Name())
}

// Write writes p, or returns the first error again.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || len(p) == 0 {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = &OutputError{err}
		if o.gone != nil && errors.Is(err, syscall.EPIPE) {
			o.gone()
		}
	}
	return n, o.err
}

// Close closes a file and returns the first of all errors. A full file system may report its error
// only here.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok := o.w.(*os.File); ok {
		if err := f.Close(); err != nil && o.err == nil {
			o.err = &OutputError{err}
		}
	}
	return o.err
}

// WriteError formats an error of a command's standard output like coreutils.
func WriteError(cmd *cobra.Command, err error) string {
	s := "write error: " + Reason(err)
	if cmd.HasParent() {
		return cmd.Name() + ": " + s
	}
	return s
}

// Terminal returns the terminal of a stream, or nil.
func Terminal(stream any) *os.File {
	if o, ok := stream.(*Output); ok {
		stream = o.w
	}
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}
