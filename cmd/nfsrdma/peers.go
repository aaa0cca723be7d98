// Hidden commands: the other ends of measurements, in separate processes so the two ends share no
// scheduler.

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountpeer"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

// newRawTCP returns the command for the other end of raw TCP. It ends with its standard input,
// which its parent holds open.
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

// newRawUDP returns the command for the other end of raw UDP. It also ends with its standard input.
func newRawUDP() *cobra.Command {
	return &cobra.Command{
		Use: "_rawudp", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RawUDPPeer(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// newRnicPeer returns the command for the other end of one rnic-bench connection. The command also
// ends with its standard input.
func newRnicPeer() *cobra.Command {
	var m bench.Mode
	var datagrams bool
	cmd := &cobra.Command{
		Use: "_rnicpeer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if datagrams {
				return bench.DatagramPeer(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return bench.VerbsPeer(cmd.Context(), m, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&m.CRC, "crc", false, "")
	cmd.Flags().BoolVar(&m.Markers, "markers", false, "")
	cmd.Flags().BoolVar(&m.RoCE, "roce", false, "")
	cmd.Flags().BoolVar(&datagrams, "datagrams", false, "")
	return cmd
}

// newMountPeer returns the command for a mount of bench --mount. The command unmounts at the end of
// its standard input.
func newMountPeer(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "_mountpeer mount|null|loopback WHAT DIR", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, dir := args[1], args[2]
			in, out := cmd.InOrStdin(), cmd.OutOrStdout()
			switch args[0] {
			case bench.MountNull:
				size, err := strconv.ParseUint(what, 10, 64)
				if err != nil {
					return err
				}
				return mountpeer.Null(dir, size, in, out)
			case bench.MountLoopback:
				return mountpeer.Loopback(dir, what, in, out)
			}
			m := &mountCommand{}
			r, err := m.request(cmd, what)
			if err != nil {
				return err
			}
			r.Dir = dir
			log, err := mounter.NewLog(cmd.ErrOrStderr(), "", false)
			if err != nil {
				return err
			}
			// a signal ends the parent, and then this process
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				_, _ = io.Copy(io.Discard, in)
				cancel()
			}()
			return r.Serve(ctx, s, log, func() { fmt.Fprintln(out, mountpeer.Ready) })
		},
	}
}
