// The connection flags, for all commands that connect.

package main

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

// connectTimeout is the default of --connect-timeout.
const connectTimeout = 10 * time.Second

// connectionWords are the values of connection flags, for completion.
var connectionWords = map[string][]string{
	"proto": {"rdma", "tcp", "auto"},
	"rdma":  {"auto", "iwarp", "roce"},
	"crc":   {"on", "auto", "off", "strict"},
}

// oldConnectionFlags maps old flag names to the present ones.
var oldConnectionFlags = map[string]string{"transport": "proto", "provider": "rdma", "conns": "nconnect"}

// addConnectionFlags adds the connection flags to cmd.
func addConnectionFlags(cmd *cobra.Command, s *session.Session) {
	f := cmd.Flags()
	f.StringVar(&s.Flags.Proto, "proto", "", "transport `PROTO`: rdma, tcp or auto (RDMA, else TCP) (default rdma, or tcp for an nfs:// path)")
	f.StringVar(&s.Flags.RDMA, "rdma", "auto", "RDMA `PROTOCOL`: iwarp (over TCP), roce (RoCEv2, over UDP) or auto (iWARP, else RoCE)")
	f.IntVar(&s.Flags.NConnect, "nconnect", 1, "connect `N` times to each server")
	f.IntVar(&s.Flags.MountPort, "mount-port", 0, "TCP `PORT` of the server's MOUNT service (default: the NFS port, then the one from rpcbind)")
	f.StringVar(&s.Flags.CRC, "crc", "on", "CRCs over iWARP: `MODE` on, auto, off or strict (check a CRC before any byte is placed)")
	cli.DurationVar(f, &s.Flags.ConnectTimeout, "connect-timeout", connectTimeout, "wait at most `TIME` for a connection and a mount")
	cli.DurationVar(f, &s.Flags.Timeout, "timeout", 0, "wait at most `TIME` for a silent server; 0: no limit")
	for name, words := range connectionWords {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	for old, name := range oldConnectionFlags {
		cli.Renamed(cmd, old, name)
	}
}

// connectionArgs returns the connection flags given to cmd, as arguments for another process of
// this program.
func connectionArgs(cmd *cobra.Command) (args []string) {
	for _, name := range []string{"proto", "rdma", "nconnect", "mount-port", "crc", "connect-timeout", "timeout"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			args = append(args, "--"+name+"="+f.Value.String())
		}
	}
	return args
}
