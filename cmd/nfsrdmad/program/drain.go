// nfsrdmad drain: refuses new clients and waits until the connected ones have left.

package program

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// drainPoll is the interval of checks for remaining clients.
const drainPoll = 250 * time.Millisecond

// A drainReport is the answer to drain and undrain.
type drainReport struct {
	Draining    bool `json:"draining"`    // new clients are refused
	Connections int  `json:"connections"` // remaining connections
}

func newDrain(k *Kind) *cobra.Command {
	var socket string
	var timeout time.Duration
	var undo, asJSON bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Refuse new clients, and wait until the old ones have left",
		Long: `Make the server on this machine refuse new clients, and wait until the last client
has left.

Connected clients continue, and can connect again from the same address. New ones are
refused over TCP and RDMA, and try again later or elsewhere. After --timeout or Ctrl-C
the server still refuses them, until --undo or its end. SIGTERM and systemctl stop
end it as always.`,
		Example: `  nfsrdmad drain && systemctl stop nfsrdmad
  nfsrdmad drain --timeout 10m || nfsrdmad clients
  nfsrdmad drain --undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if undo && cmd.Flags().Changed("timeout") {
				return fmt.Errorf("--undo does not wait: leave --timeout out")
			}
			if timeout < 0 {
				return fmt.Errorf("--timeout %s: must be a time such as 30s or 10m", timeout)
			}
			r, err := k.drain(cmd.Context(), socket, undo, timeout)
			if r != nil {
				if werr := showDrain(cmd.OutOrStdout(), r, asJSON); err == nil {
					err = werr
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&socket, "control", "", k.controlHelp())
	cli.DurationVar(f, &timeout, "timeout", 0, "wait at most `TIME` for clients to leave (default: no limit)")
	f.BoolVar(&undo, "undo", false, "accept new clients again")
	f.BoolVar(&asJSON, "json", false, jsonFlag)
	return cmd
}

// drain sends the command and waits until the server has no clients. After a timeout or the end of
// ctx it returns the last answer, too.
func (k *Kind) drain(ctx context.Context, socket string, undo bool, timeout time.Duration) (*drainReport, error) {
	command := "drain"
	if undo {
		command = "undrain"
	}
	begin := time.Now()
	for {
		r := &drainReport{}
		if err := k.ask(ctx, socket, command, r); err != nil {
			return nil, err
		}
		if undo || r.Connections == 0 {
			return r, nil
		}
		if timeout > 0 && time.Since(begin) >= timeout {
			return r, fmt.Errorf("%s left after %s: new clients are refused until %s drain --undo", text.Plural(int64(r.Connections), "connection"), timeout, k.name())
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(drainPoll):
		}
	}
}

// showDrain prints the server's answer, as JSON or in words.
func showDrain(w io.Writer, r *drainReport, asJSON bool) error {
	switch {
	case asJSON:
		return writeJSON(w, r)
	case !r.Draining:
		fmt.Fprintln(w, "new clients are taken again")
	case r.Connections == 0:
		fmt.Fprintln(w, "no client is connected, and none is taken: the server can be stopped")
	}
	return nil
}

// drain makes the server refuse or accept new clients, and notifies the log and the service
// manager.
func (r *running) drain(on bool) *drainReport {
	if was := r.service.Draining(); was != on {
		r.service.Drain(on)
		if on {
			logrus.Info("new clients are refused (drain)")
			notify("STATUS=draining: new clients are refused")
		} else {
			logrus.Info("new clients are taken again")
			notify("STATUS=serving")
		}
	}
	clients, _ := r.service.Clients()
	return &drainReport{on, len(clients)}
}
