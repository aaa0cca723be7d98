// The client program: file commands, measurements and a demonstration, over RDMA or TCP.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := cli.UntilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, cli.Stdout(), os.Stderr)
	stop()
	cli.Exit(code)
}

// newProgram returns the root command for the name by which the program was called.
func newProgram(s *session.Session, name string) *cobra.Command {
	if filepath.Base(name) == helperName {
		s.Flags.ConnectTimeout = connectTimeout
		return newHelper(s)
	}
	return newRoot(s)
}

// run runs the whole program and returns the exit status.
func run(parent context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session.Session{Stderr: stderr}
	cmd := newProgram(s, os.Args[0])
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	out := cli.NewOutput(stdout, func() { cancel(cli.Signaled(syscall.SIGPIPE)) })
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	ran, err := cmd.ExecuteContextC(ctx)
	status := statusOf(ctx, s, cmd, err)
	if status != 0 && ctx.Err() == nil {
		s.Note(err)
		s.Advise(ctx)
	}
	s.Close()
	if err := out.Close(); err != nil && !errors.Is(context.Cause(ctx), cli.Signaled(syscall.SIGPIPE)) {
		fmt.Fprintf(stderr, "nfsrdma: %s\n", cli.WriteError(ran, err))
		status = max(status, 1)
	}
	return status
}

// statusOf returns a command's exit status, and reports its error unless the command already has.
func statusOf(ctx context.Context, s *session.Session, cmd *cobra.Command, err error) int {
	var exit cli.ExitError
	var output *cli.OutputError
	switch {
	case errors.Is(context.Cause(ctx), cli.Signaled(syscall.SIGPIPE)):
		return cli.EndedBy(ctx)
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(s.Stderr, "nfsrdma: interrupted")
		return cli.EndedBy(ctx)
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, cli.ErrReported):
		return 1
	case errors.As(err, &output):
		return 1 // run reports the error
	}
	fmt.Fprintf(s.Stderr, "nfsrdma: %s\n", cli.OneLine(cmd, s.InFull(err)))
	return 1
}
