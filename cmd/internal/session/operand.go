// Operands: the remote paths in a command line, resolved one by one, each with its own error.

package session

import (
	"context"
	"errors"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An Operand is a path on a server.
type Operand struct {
	Arg  string        // as typed
	FS   *nfsclient.FS // the export
	Path string        // below the root of FS, as typed
}

// Operand connects to the server of a remote path, unless already connected, and mounts its export.
// The error does not concern the path: its text is complete, and it contains no system error that
// could be mistaken for the path's.
func (s *Session) Operand(ctx context.Context, arg string) (Operand, error) {
	fsys, path, err := s.open(ctx, arg)
	switch {
	case err == nil:
		return Operand{arg, fsys, path}, nil
	case ctx.Err() != nil:
		return Operand{}, ctx.Err()
	}
	return Operand{}, cli.WithCause(err, strings.TrimPrefix(err.Error(), arg+": "))
}

// EachOperand runs a command for each argument. A failure is reported as "cannot remove 'URL':
// Reason", with what and the whole argument, and the next argument follows. An error of the
// standard output ends the loop and is returned.
func (s *Session) EachOperand(ctx context.Context, rep *cli.Reporter, what string, args []string, do func(Operand) error) error {
	for _, arg := range args {
		o, err := s.Operand(ctx, arg)
		if err == nil {
			err = do(o)
		}
		var output *cli.OutputError
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.As(err, &output) {
			return err
		}
		if err != nil && !errors.Is(err, cli.ErrReported) {
			rep.Report(Failure(what, arg, err))
		}
	}
	return rep.Err()
}

// Failure returns "what 'name': Reason", or err unchanged if it is Finished.
func Failure(what, name string, err error) error {
	var done Finished
	if errors.As(err, &done) {
		return err
	}
	if what == "" {
		return cli.WithCause(err, text.QuoteNeeded(name)+": "+cli.Reason(err))
	}
	return cli.WithCause(err, what+" "+text.QuoteAlways(name)+": "+cli.Reason(err))
}

// A Finished is an error whose text already names its operand.
type Finished struct {
	Text  string
	Cause error // nil: the text is complete
}

// Error returns the text.
func (f Finished) Error() string { return f.Text }

// Unwrap returns the cause.
func (f Finished) Unwrap() error { return f.Cause }

// Below returns the path of a name in the directory at path.
func Below(path, name string) string {
	if path == "" || strings.HasSuffix(path, "/") {
		return path + name
	}
	return path + "/" + name
}
