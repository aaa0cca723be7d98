// The end of a command that continues after errors: the command has reported the errors, and fails.

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// ErrReported is returned by a command that has already reported all its errors. Only its exit
// status is left.
var ErrReported = errors.New("some of it failed")

// An ExitError is ErrReported with a specific exit status.
type ExitError int

// Error returns the text of ErrReported.
func (e ExitError) Error() string { return ErrReported.Error() }

// Is makes an ExitError match ErrReported.
func (e ExitError) Is(target error) bool { return target == ErrReported }

// A Reporter writes the errors of one command, one line each, and counts them. It is safe for
// concurrent use.
type Reporter struct {
	// set once
	prefix string
	note   func(error) // called with each error and each warning

	mu     sync.Mutex // guards w, failed
	w      io.Writer
	failed int
}

// NewReporter writes to w, with the prefix "nfsrdma: NAME: ". Before each line it calls note with
// the error; note may be nil.
func NewReporter(w io.Writer, name string, note func(error)) *Reporter {
	if note == nil {
		note = func(error) {}
	}
	return &Reporter{prefix: "nfsrdma: " + name + ": ", w: w, note: note}
}

// Report writes an error that makes the command fail at its end.
func (r *Reporter) Report(err error) {
	r.note(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprintln(r.w, r.prefix+oneLine(err.Error()))
}

// WarnOf writes an error as a warning.
func (r *Reporter) WarnOf(err error) {
	r.note(err)
	r.Warn(err.Error())
}

// Warn writes a line that does not count as a failure.
func (r *Reporter) Warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.w, r.prefix+oneLine(text))
}

// Failed returns how many errors were reported.
func (r *Reporter) Failed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Err returns the command's result: nil, or ErrReported after errors.
func (r *Reporter) Err() error {
	if r.Failed() > 0 {
		return ErrReported
	}
	return nil
}

// A failure is an error text with its cause.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// WithCause returns an error with this text that unwraps to cause.
func WithCause(cause error, text string) error { return &failure{text, cause} }

// Reason returns the cause of err as coreutils print it: the system's message with a capital
// letter, or all of err if it contains no system error.
func Reason(err error) string {
	var errno syscall.Errno
	var whole *failure
	if !errors.As(err, &errno) || errors.As(err, &whole) {
		return err.Error()
	}
	s := errno.Error()
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// oneLine replaces control characters, for example in file names, so the text stays one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
