// How a command that goes on after errors ends: they are on standard error already, and it fails.

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

// ErrReported is returned by a command that has reported each of its errors
// itself, and has only its exit code left to give.
var ErrReported = errors.New("some of it failed")

// An ExitError is ErrReported with an exit status of its own.
type ExitError int

// Error is the text of ErrReported.
func (e ExitError) Error() string { return ErrReported.Error() }

// Is makes it ErrReported.
func (e ExitError) Is(target error) bool { return target == ErrReported }

// A Reporter writes errors of one command, each in one line, and remembers that
// there were some. It is safe for concurrent use.
type Reporter struct {
	// set once
	prefix string
	note   func(error) // called with each error and each warning

	mu     sync.Mutex // guards w, failed
	w      io.Writer
	failed int
}

// NewReporter writes to w, each line after "nfsrdma: NAME: ", and calls note with each error
// before. note may be nil.
func NewReporter(w io.Writer, name string, note func(error)) *Reporter {
	if note == nil {
		note = func(error) {}
	}
	return &Reporter{prefix: "nfsrdma: " + name + ": ", w: w, note: note}
}

// Report writes an error that lets the command fail in the end.
func (r *Reporter) Report(err error) {
	r.note(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprintln(r.w, r.prefix+oneLine(err.Error()))
}

// WarnOf is Warn of an error.
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

// Err is what the command returns: nil, or ErrReported after errors.
func (r *Reporter) Err() error {
	if r.Failed() > 0 {
		return ErrReported
	}
	return nil
}

// A failure has its own text, and the cause of it.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// WithCause returns an error of this text that unwraps to cause.
func WithCause(cause error, text string) error { return &failure{text, cause} }

// Reason is the cause of err in the words of the C library, as coreutils print
// them: the system's own sentence with a capital letter, or all of err when no
// system error is in it.
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

// oneLine keeps a line a line, whatever names it holds.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
