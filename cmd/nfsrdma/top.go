// nfsrdma top: a live view of a server's activity.

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

const topLong = `Show the activity of a server (nfsrdmad), after nfsiostat(8) and top(1). Each
operation has calls per second, and MiB per second in and out. It also has the mean
and p99 of its run time, the mean number that ran at once (QUEUE), and errors. Below
stand processor, memory, connections and locks. Repeated calls are those that
clients sent again. Refused connections and calls are counted too.

SERVER is the address of the metrics of the server: HOST, HOST:PORT (default port
9049) or a URL. Start the server with --metrics-addr ADDRESS:9049. With --local the
command asks the server on this machine by its control socket. That needs no
--metrics-addr, and shows each client: TLS and its cipher, and the security flavors
of the users, too. Only root and the user of the server can use it.

On a terminal the output fills the screen. These keys have a meaning:

  q              end
  space          report at once
  + -            change the interval
  c b t p u e n  sort by calls, bytes, mean time, p99, queue, errors or name
  h              explain the columns

Elsewhere, and with --count or --json, the command prints a report after each
interval. It prints no colors if NO_COLOR is set.`

// topCommand has the flags of top.
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
  nfsrdma top --count 1 --json server:9049 | jq '.operations[].p99_seconds'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&t.local, "local", false, "ask the server on this machine by its control socket")
	f.StringVar(&t.control, "control", "", control.FlagHelp(control.Dir)+"; with --local")
	cli.DurationVar(f, &t.every, "interval", 2*time.Second, "`TIME` between two reports, at least 100ms")
	f.IntVar(&t.count, "count", 0, "print `N` reports as lines, then end; 0: no end")
	f.BoolVar(&t.asJSON, "json", false, "print each report as JSON in one line, in bytes and seconds")
	f.StringVar(&t.sort, "sort", string(top.Orders[0]), "sort by `COLUMN`: calls, bytes, mean, p99, queue, errors or name")
	words := make([]string, len(top.Orders))
	for i, o := range top.Orders {
		words[i] = string(o)
	}
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// source returns the selected server.
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
		return fmt.Errorf("--count %d: must be 0 or more", t.count)
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
