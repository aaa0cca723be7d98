// Operands: the remote paths of a command line, resolved one after the other, each with its own error.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An operand is a path on a server.
type operand struct {
	arg  string // as it was typed
	fsys *nfsclient.FS
	path string // below the root of fsys, as it was typed
}

// operand connects to the server of a remote path, if that was not done yet, and
// mounts its export. The error has nothing to do with the path itself: its text
// is all there is to say, and no system error is in it that could pass for one of
// the path's.
func (s *session) operand(ctx context.Context, arg string) (operand, error) {
	fsys, path, err := s.open(ctx, arg)
	switch {
	case err == nil:
		return operand{arg, fsys, path}, nil
	case ctx.Err() != nil:
		return operand{}, ctx.Err()
	}
	return operand{}, errors.New(strings.TrimPrefix(err.Error(), arg+": "))
}

// eachOperand runs a command for each of its arguments. A failure is reported,
// with what and the whole argument as in "cannot remove 'URL': Reason", and does
// not keep the command from the other ones.
func (s *session) eachOperand(ctx context.Context, rep *cli.Reporter, what string, args []string, do func(operand) error) error {
	for _, arg := range args {
		o, err := s.operand(ctx, arg)
		if err == nil {
			err = do(o)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && err != cli.ErrReported {
			rep.Report(failure(what, arg, err))
		}
	}
	return rep.Err()
}

// failure is "what 'name': Reason", or err as it is when its message was made already.
func failure(what, name string, err error) error {
	var done finished
	if errors.As(err, &done) {
		return err
	}
	if what == "" {
		return fmt.Errorf("%s: %s", quoteNeeded(name), cli.Reason(err))
	}
	return fmt.Errorf("%s %s: %s", what, quoteAlways(name), cli.Reason(err))
}

// finished is an error whose text names its operand already.
type finished string

func (f finished) Error() string { return string(f) }

// below is the path of a name in the directory at path.
func below(path, name string) string {
	if path == "" || strings.HasSuffix(path, "/") {
		return path + name
	}
	return path + "/" + name
}
