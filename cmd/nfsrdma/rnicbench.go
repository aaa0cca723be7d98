// nfsrdma rnic-bench: what the verbs alone do between two processes, beside raw TCP.

package main

import (
	"encoding/json"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/spf13/cobra"
)

func newRnicBench() *cobra.Command {
	var duration time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rnic-bench",
		Short: "Measure the software RNIC alone: Send latency, RDMA Write and Read, beside raw TCP",
		Long: `Measure the software RNIC alone, with no RPC and no NFS above it: the latency of a
Send that is answered, and the throughput of RDMA Writes and Reads of 4 KiB to 1 MiB, 8 in
flight, in each mode of CRC and markers. The two ends are two processes on loopback; plain
Go TCP is measured between two processes before and after, in the same run, and so is
UCX over TCP where it is installed (Debian: ucx-utils).`,
		Example: "  nfsrdma rnic-bench\n  nfsrdma rnic-bench --duration 200ms --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := bench.Verbs(cmd.Context(), duration)
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
