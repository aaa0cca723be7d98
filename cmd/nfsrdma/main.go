// The client binary: file commands, measurements and a demonstration, over RDMA or TCP.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session.Session{Stderr: stderr}
	cmd := newRoot(s)
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
