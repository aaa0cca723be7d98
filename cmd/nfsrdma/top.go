// nfsrdma top: a live view of what a server does.

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/cmd/internal/top"
	"github.com/spf13/cobra"
)

const topLong = `Show what a server (nfsrdmad) does while it does it, after nfsiostat(8) and top(1): for each operation
calls per second, MiB per second in and out, mean and p99 of the time that it ran, how many
calls of it ran at once on average (QUEUE), and errors; processor, memory, connections and locks;
calls that clients have sent again (repeated), connections and calls that were refused.

SERVER is where the server gives out its figures: HOST, HOST:PORT (port 9049 if none is given) or a URL.
It has to be started with --metrics-addr ADDRESS:9049. With --local the server on this machine is asked by its
control socket, which needs no such address, shows each client too, and answers root and
the user who runs the server only.

On a terminal it fills the screen: q ends it, space reports at once, + and - change the interval,
c b t p u e n sort by calls, bytes, mean time, p99, queue, errors and name, h explains the columns.
Elsewhere, and with --count or --json, it writes a report after each interval. NO_COLOR is heeded.`

// topCommand is what the flags of top say.
type topCommand struct {
	local, asJSON bool
	control, sort string
	every         time.Duration
	count         int
}

func newTop() *cobra.Command {
	var t topCommand
	cmd := &cobra.Command{
		Use:   "top SERVER | --local",
		Short: "Show what a server does, live",
		Long:  topLong,
		Example: `  nfsrdma top --local
  nfsrdma top --interval 5s server
  nfsrdma top --count 1 --json server:9049 | jq '.operations[] | {procedure, p99_seconds}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&t.local, "local", false, "the server on this machine, by its control socket")
	f.StringVar(&t.control, "control", "", control.FlagHelp(control.Dir)+"; with --local")
	f.DurationVar(&t.every, "interval", 2*time.Second, "time between two reports, 100ms or more")
	f.IntVar(&t.count, "count", 0, "end after this number of reports, which are written as lines; 0: go on")
	f.BoolVar(&t.asJSON, "json", false, "each report as a JSON object in one line: bytes, seconds, and both for each second")
	f.StringVar(&t.sort, "sort", string(top.Orders[0]), "order of rows: calls, bytes, mean, p99, queue, errors or name")
	words := make([]string, len(top.Orders))
	for i, o := range top.Orders {
		words[i] = string(o)
	}
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// source is the server that was asked for.
func (t *topCommand) source(args []string) (*top.Source, error) {
	switch {
	case t.local && len(args) > 0:
		return nil, errors.New("--local is the server on this machine: leave SERVER out")
	case t.local:
		path := control.Path(t.control, control.RunDir, control.Dir)
		if path == "" {
			return nil, control.ErrNoPath
		}
		return top.Local(path), nil
	case t.control != "":
		return nil, errors.New("--control needs --local")
	case len(args) == 0:
		return nil, errors.New("which server? name one, or say --local for the one on this machine")
	}
	return top.Remote(args[0])
}

func (t *topCommand) run(cmd *cobra.Command, args []string) error {
	order, err := top.ParseOrder(t.sort)
	switch {
	case err != nil:
		return err
	case t.every < 100*time.Millisecond:
		return fmt.Errorf("--interval %v: want 100ms or more", t.every)
	case t.count < 0:
		return fmt.Errorf("--count %d: want 0 or more", t.count)
	}
	source, err := t.source(args)
	if err != nil {
		return err
	}
	o := &top.Options{Source: source, Interval: t.every, Count: t.count, JSON: t.asJSON, Order: order, Colors: os.Getenv("NO_COLOR") == ""}
	in, out := cli.Terminal(cmd.InOrStdin()), cli.Terminal(cmd.OutOrStdout())
	if in == nil || out == nil || t.asJSON || t.count > 0 || os.Getenv("TERM") == "dumb" {
		return top.Lines(cmd.Context(), cmd.OutOrStdout(), o)
	}
	return top.Screen(cmd.Context(), in, out, o)
}
