// nfsrdma rnic-bench: the verbs between two processes, compared with raw TCP.

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

func newRnicBench() *cobra.Command {
	var duration time.Duration
	var asJSON bool
	var over string
	cmd := &cobra.Command{
		Use:   "rnic-bench",
		Short: "Measure the software RDMA device alone",
		Long: `Measure the software RDMA device (RNIC) alone, without RPC and NFS. The tests are
the latency of a Send with its answer, and the throughput of RDMA Writes and Reads.
These have 4 KiB to 1 MiB, with 8 in flight, or also 64 for 4 KiB. Each mode of CRC
and markers is measured.

The two ends are two processes on loopback. Plain Go TCP between two processes is
measured before and after. If UCX is installed (Debian: ucx-utils), it is measured
over TCP too.

--rdma roce measures RoCE: the same tests, datagrams with answers, and Writes and
Reads of 1 MiB with a loss of 1 % of the packets in each direction. They are
compared with plain Go UDP, with packets of the same size, and as many in a system
call.`,
		Example: "  nfsrdma rnic-bench\n  nfsrdma rnic-bench --duration 200ms --json\n  nfsrdma rnic-bench --rdma roce",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			measure := bench.Verbs
			switch p, err := nfsclient.ParseProvider(over); {
			case err != nil || p == nfsclient.AutoProvider:
				return fmt.Errorf("--rdma %q: must be iwarp or roce", over)
			case p == nfsclient.RoCE:
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
	cmd.Flags().StringVar(&over, "rdma", "iwarp", "measure this RDMA `PROTOCOL`: iwarp or roce")
	cli.Renamed(cmd, "provider", "rdma")
	cli.DurationVar(cmd.Flags(), &duration, "duration", time.Second, "`TIME` of each test")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}
