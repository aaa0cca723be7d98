// The client binary: file commands, measurements and a demonstration, over RDMA or TCP.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/procs"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	procs.Follow(ctx)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// newProgram is what the program is under the name that it was called by.
func newProgram(s *session.Session, name string) *cobra.Command {
	if filepath.Base(name) == helperName {
		s.Flags.ConnectTimeout = connectTimeout
		return newHelper(s)
	}
	return newRoot(s)
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session.Session{Stderr: stderr}
	cmd := newProgram(s, os.Args[0])
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	s.Close()
	var exit cli.ExitError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "nfsrdma: interrupted")
		return 130
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, cli.ErrReported):
		return 1
	}
	fmt.Fprintf(stderr, "nfsrdma: %s\n", cli.OneLine(cmd, s.InFull(err)))
	return 1
}
