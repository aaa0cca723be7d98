// The server of a demonstration, a process of its own.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/spf13/cobra"
)

// childEnv marks a child of ours, which a test binary needs in order to act as the program.
const childEnv = "NFSRDMA_CHILD=1"

// demoExport is the name of the export.
const demoExport = "/demo"

// newServe serves a directory on free loopback ports, says which, and ends with its standard input.
func newServe() *cobra.Command {
	return &cobra.Command{
		Use: "_serve DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, err := osfs.New(args[0], osfs.Options{})
			if err != nil {
				return err
			}
			squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
			srv, err := nfsserver.New(nfsserver.Options{
				Exports: []nfsserver.Export{{Name: demoExport, FS: tree}}, Squash: squash,
			})
			if err != nil {
				return err
			}
			defer srv.Close()
			rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
			dev := rnic.Open(rnic.DeviceConfig{})
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

// A child is a process that serves until stop.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	line  string // the first it wrote
}

// startChild runs this program again with other arguments.
func startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Env = append(os.Environ(), childEnv)
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("child process %s did not start", args[0])
	}
	c.line = strings.TrimSpace(line)
	return c, nil
}

// stop ends the child and waits for it.
func (c *child) stop() error {
	c.stdin.Close()
	return c.cmd.Wait()
}
