// nfsrdma rnic-bench: what the verbs alone do between two processes, beside raw TCP.

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

func newRnicBench(s *session.Session) *cobra.Command {
	var duration time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rnic-bench",
		Short: "Measure the software RNIC alone: Send latency, RDMA Write and Read, beside raw TCP",
		Long: `Measure the software RNIC alone, with no RPC and no NFS above it: the latency of a
Send that is answered, and the throughput of RDMA Writes and Reads of 4 KiB to 1 MiB, 8 in
flight, those of 4 KiB with 64 in flight too, in each mode of CRC and markers. The two ends are two processes on loopback, whose
Go schedulers have one processor each (GOMAXPROCS); plain Go TCP is measured between two processes before and after, in the same run, and so is
UCX over TCP where it is installed (Debian: ucx-utils).

With --provider roce it is RoCE that is measured: the same, datagrams that are answered, and
Writes and Reads of 1 MiB while 1 % of the packets are lost in each direction. The yardstick is
plain Go UDP with packets of the same size, as many of them in a system call.`,
		Example: "  nfsrdma rnic-bench\n  nfsrdma rnic-bench --duration 200ms --json\n  nfsrdma rnic-bench --provider roce",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			measure := bench.Verbs
			if p, err := nfsclient.ParseProvider(s.Flags.Provider); err != nil {
				return fmt.Errorf("--provider: %w", err)
			} else if p == nfsclient.RoCE {
				measure = bench.RoCE
			}
			r, err := measure(cmd.Context(), duration)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(r)
			}
			return r.Table(cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", time.Second, "time of each figure")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON")
	return cmd
}
