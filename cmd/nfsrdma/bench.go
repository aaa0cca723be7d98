// nfsrdma bench: its flags, and the directory to measure.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

const benchHelp = `Measure a server. URL is a directory in which you can write. The command makes one
file there, and removes it at the end. The tests are:

  null         NULL, one call at a time: the latency of a round trip
  getattr      GETATTR at --depth
  lookup       LOOKUP of the file at --depth
  write        1 MiB writes in order, and a COMMIT at the end
  read         1 MiB reads in order
  randread     4 KiB reads at random places
  randwrite    4 KiB writes at random places, and a COMMIT at the end
  readdirplus  READDIRPLUS of the directory URL, a page at a time, by each of
               --depth readers; only if --tests names it

All data is verified: a stamp in each 4 KiB during the test, and all bytes before
and after it. If the server is on this machine, the command also measures plain TCP
between two Go processes. Beside it stands the limit of READ and WRITE here: the
same TCP stream with pread or pwrite of the page cache, and with CRCs. The results
are given as shares of both.

With --mount the command mounts the directory, and measures programs on the mount.
Bytes are compared with the client library, and with a FUSE mount that answers from
memory. Small files are compared with the loopback file system of go-fuse. Each
result is the median of --rounds. Without URL the command starts a server on a
directory in memory.`

func newBench(s *session.Session) *cobra.Command {
	var o bench.Options
	var lose int
	var fileSize, block string
	var asJSON bool
	m := mountBench{}
	cmd := &cobra.Command{
		Use:   "bench URL | --mount [URL]",
		Short: "Measure throughput, operations and latency of a server",
		Long:  benchHelp,
		Example: `  nfsrdma bench nfsrdma://127.0.0.1/export
  nfsrdma bench --depth 32 --tests getattr server:/export
  nfsrdma bench --proto tcp --mount-port 20048 --json server:/export
  nfsrdma bench --mount`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && (len(args) > 1 || !m.on) {
				return errors.New("give one URL, or --mount without any")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Size, err = cli.ParseSize(fileSize); err != nil {
				return err
			}
			if o.Block, err = cli.ParseSize(block); err != nil {
				return err
			}
			var r interface{ Table(io.Writer) error }
			if m.on {
				r, err = m.run(cmd, s, args, o)
			} else {
				r, err = runBench(cmd.Context(), s, args[0], o, lose)
			}
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
	cmd.Flags().IntVar(&o.Depth, "depth", 8, "keep `N` calls in flight (null: always 1)")
	cmd.Flags().StringVar(&fileSize, "size", "256M", "`SIZE` of the file, with K, M or G")
	cli.DurationVar(cmd.Flags(), &o.Duration, "duration", 3*time.Second, "`TIME` of each test (with --mount: of random reads, default 1s)")
	cmd.Flags().StringVar(&block, "block", "1M", "`SIZE` of reads and writes in order, from 4K to 1M")
	cmd.Flags().IntVar(&o.ServerPID, "server-pid", 0, "measure the CPU time of the server process `PID` too")
	cmd.Flags().StringSliceVar(&o.Tests, "tests", bench.Tests, "run these `TESTS`")
	cmd.Flags().Lookup("tests").DefValue = "all but readdirplus"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&o.NoRaw, "no-raw", false, "do not measure plain TCP")
	cmd.Flags().StringVar(&o.RawPeer, "raw-peer", "", "address of nfsrdma _rawtcp on the server's machine")
	_ = cmd.Flags().MarkHidden("raw-peer")
	cmd.Flags().IntVar(&lose, "lose", 0, "percent of the packets of RoCE that are lost in each direction")
	_ = cmd.Flags().MarkHidden("lose")
	m.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("tests", cobra.FixedCompletions(bench.AllTests, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// runBench mounts the directory arg and measures its server with a file in the directory. lose is
// the percentage of RoCE packets to drop.
func runBench(ctx context.Context, s *session.Session, arg string, o bench.Options, lose int) (*bench.Report, error) {
	if err := o.Check(); err != nil { // before any connection
		return nil, err
	}
	t, err := s.Target(arg)
	if err != nil {
		return nil, session.ArgError(arg, err)
	}
	var fsys *nfsclient.FS
	var rest string
	if lose == 0 {
		fsys, rest, err = s.Mount(ctx, t)
	} else {
		fsys, err = openLossy(ctx, s, arg, t, lose)
	}
	if err != nil {
		return nil, err
	}
	// a comparison with raw TCP on this machine is wrong for another machine's server
	o.NoRaw = o.NoRaw || (t.Others != "" || !isLocal(t.Host)) && o.RawPeer == ""
	r := &bench.Report{Target: t.String(), Transport: t.Transport.String(), Conns: s.Flags.NConnect}
	if t.Transport == nfsclient.RDMA {
		r.CRC = crcInUse(fsys.Client(), s.Flags.CRC)
	}
	name := path.Join(rest, fmt.Sprintf(".nfsrdma-bench-%d", os.Getpid()))
	if err := bench.Server(ctx, fsys, name, o, r); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return r, nil
}

// crcInUse returns the CRC mode of a client's connections. It may differ from asked: a server may
// require CRCs, and RoCE packets always have them.
func crcInUse(c *nfsclient.Client, asked string) string {
	for _, l := range c.Links() {
		switch {
		case !l.Up:
		case !l.CRC:
			return "off"
		case asked == "off" || asked == "auto":
			return "on"
		}
	}
	return asked
}

// openLossy mounts the directory arg over RoCE with packet loss.
func openLossy(ctx context.Context, s *session.Session, arg string, t nfsclient.Target, percent int) (*nfsclient.FS, error) {
	o, err := s.Options(t)
	if err != nil {
		return nil, err
	}
	o.Device = bench.LossyRoCE(percent)
	return s.OpenWith(ctx, arg, t, o)
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, _ := net.InterfaceAddrs()
	for _, ip := range ips {
		if ip.IsLoopback() {
			return true
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}
