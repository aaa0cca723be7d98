// Hidden commands: the other ends of measurements, each a process of its own so that two ends share no scheduler.

package main

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/spf13/cobra"
)

// newRawTCP is the other end of raw TCP. It ends with its parent, who holds its standard input.
func newRawTCP() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "_rawtcp", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RawPeer(listen, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "")
	return cmd
}

// newRnicPeer is the other end of one connection of rnic-bench. It ends likewise.
func newRnicPeer() *cobra.Command {
	var m bench.Mode
	cmd := &cobra.Command{
		Use: "_rnicpeer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.VerbsPeer(cmd.Context(), m, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&m.CRC, "crc", false, "")
	cmd.Flags().BoolVar(&m.Markers, "markers", false, "")
	return cmd
}
