// The server of a demonstration, in a separate process.

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// demoExport is the name of the export.
const demoExport = "/demo"

// newServe returns the command that serves a directory on free loopback ports, prints the ports,
// and ends with its standard input.
func newServe() *cobra.Command {
	return &cobra.Command{
		Use: "_serve DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			logrus.SetLevel(logrus.WarnLevel) // its only client reports its own activity
			tree, err := osfs.New(args[0], osfs.Options{})
			if err != nil {
				return err
			}
			squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
			srv, err := nfsserver.New(nfsserver.Options{
				Exports: []nfsserver.Export{{Name: demoExport, FS: tree}}, Squash: squash, Logger: logto.Standard,
			})
			if err != nil {
				return err
			}
			defer srv.Close()
			rpc := transport.NewServer(transport.ServerConfig{Logger: logto.Standard}, srv.Programs()...)
			dev := iwarp.Open(rnic.DeviceConfig{})
			rl, err := dev.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			tl, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			go rpc.ServeRDMA(dev, rl)
			go rpc.ServeTCP(tl)
			fmt.Fprintln(cmd.OutOrStdout(), rl.Addr(), tl.Addr())
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return rpc.Shutdown(ctx)
		},
	}
}
