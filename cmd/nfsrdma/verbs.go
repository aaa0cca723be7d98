// nfsrdma verbs: the test programs of Linux's RDMA stack, spoken by us, to them or to ourselves.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/spf13/cobra"
)

const verbsHelp = `Test RoCE with no RPC above it, against the programs that Linux has for that, or between
two of ours: pingpong is ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong, perf is
ib_send_bw, ib_write_bw and ib_read_lat of perftest; rping, ucmatose, udaddy and mckey are those
of librdmacm.

With HOST this end is the client, without it the server, which takes one client and
ends with the test. The ends make each other known over TCP (of rping, ucmatose and udaddy, by the
connection manager), then speak over UDP port 4791, in user space here. No option is told to the other end: give both the same, and
to Linux's programs the GID of the address that leads here (-g, of perftest -x; "rdma link show" and
"ibv_devinfo -v" list what there is). Anybody who reaches a server's port can be its client: use it
where that does no harm, or name an address with --addr.

UC and UD lose messages where the network or the other end does: the test ends then,
after --timeout (1m, unless it is given) in which nothing has come.`

func newVerbs(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verbs",
		Short: "Test RoCE alone, against ibv_*_pingpong, perftest, rping, ucmatose and udaddy of a Linux host or between two of ours",
		Long:  verbsHelp,
		Example: `  nfsrdma verbs pingpong           # the server; on a Linux host then: ibv_rc_pingpong -d rxe0 -g 1 SERVER
  nfsrdma verbs perf write_bw HOST # the client; on HOST first: ib_write_bw -d rxe0 -x 1 -F`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPingpong(s), newPerf(s), newRping(s), newUcmatose(s), newUdaddy(s), newMckey(s))
	return cmd
}

// verbsFlags are those of all tests.
type verbsFlags struct {
	verbs.Options
	service, size, addr string
	json                bool
}

func (f *verbsFlags) add(cmd *cobra.Command, port int) {
	cmd.Flags().IntVarP(&f.Port, "port", "p", port, "TCP port of the server")
	f.addMessages(cmd)
}

// addMessages adds those of tests without a port.
func (f *verbsFlags) addMessages(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.size, "size", "s", "", "size of a message, with K or M (default: that of the program)")
	fl.IntVarP(&f.Iterations, "iters", "n", 0, "messages (default: as many as the program has)")
	fl.StringVar(&f.addr, "addr", "", "address of this host to use (default: the one that leads to the peer; a server listens at all)")
	fl.BoolVar(&f.json, "json", false, "write the report as JSON")
}

func (f *verbsFlags) addService(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.service, "service", "c", "rc", "rc, uc or ud")
	cmd.Flags().IntVarP(&f.MTU, "mtu", "m", 0, "path MTU: 256, 512, 1024, 2048 or 4096 (default: that of the program)")
	_ = cmd.RegisterFlagCompletionFunc("service", cobra.FixedCompletions(verbs.ServiceNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("mtu", cobra.FixedCompletions([]string{"256", "512", "1024", "2048", "4096"}, cobra.ShellCompDirectiveNoFileComp))
}

// options are those of the command line; host is the argument that names the server, if there is one.
func (f *verbsFlags) options(cmd *cobra.Command, s *session.Session, host []string) (verbs.Options, error) {
	o := f.Options
	if len(host) > 0 {
		if o.Host = host[0]; o.Host == "" {
			return o, fmt.Errorf("the name of the server is empty")
		}
	}
	if f.service != "" {
		var err error
		if o.Service, err = verbs.ParseService(f.service); err != nil {
			return o, err
		}
	}
	if f.size != "" {
		n, err := cli.ParseSize(f.size)
		if err != nil {
			return o, err
		}
		o.Size = int(n)
	}
	if f.addr != "" {
		a, err := netip.ParseAddr(f.addr)
		if err != nil {
			return o, fmt.Errorf("--addr %s: not an address", f.addr)
		}
		o.Local = a.Unmap()
	}
	o.Silence, o.ConnectTimeout = s.Flags.Timeout, s.Flags.ConnectTimeout
	o.Device = roce.Open(rnic.DeviceConfig{})
	o.Waiting = func(at net.Addr) { fmt.Fprintf(cmd.ErrOrStderr(), "waiting for a client at %v\n", at) }
	return o, nil
}

// print writes a report.
// A verbsReport is what a test reports.
type verbsReport interface{ Table(io.Writer) error }

// runVerbs is the RunE of a command that runs one test, as the flags say, and prints its report.
func runVerbs[R verbsReport](f *verbsFlags, s *session.Session, test func(context.Context, verbs.Options) (R, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		o, err := f.options(cmd, s, args)
		if err != nil {
			return err
		}
		r, err := test(cmd.Context(), o)
		if err != nil {
			return err
		}
		return f.print(cmd.OutOrStdout(), r)
	}
}

func (f *verbsFlags) print(w io.Writer, r verbsReport) error {
	if !f.json {
		return r.Table(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func newPingpong(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "pingpong [HOST]",
		Short: "Messages that are answered, one after the other: ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong",
		Long: `Send messages that are answered, one after the other, as ibv_rc_pingpong, ibv_uc_pingpong and
ibv_ud_pingpong of libibverbs do, with one of these or between two of ours.`,
		Example: `  nfsrdma verbs pingpong                           # here; and on a Linux host: ibv_rc_pingpong -d rxe0 -g 1 HERE
  nfsrdma verbs pingpong -c ud --json linuxhost    # there: ibv_ud_pingpong -d rxe0 -g 1`,
		Args: cobra.MaximumNArgs(1),
		RunE: runVerbs(&f, s, verbs.Pingpong),
	}
	f.add(cmd, verbs.Port)
	f.addService(cmd)
	return cmd
}

func newPerf(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "perf TEST [HOST]",
		Short: "Bandwidth of Sends and Writes, latency of Reads: ib_send_bw, ib_write_bw, ib_read_lat",
		Long: `Run a test of perftest, with its program (versions 5.70 to 6.20, so Debian 12's) or between two of
ours. TEST is one of

  send_bw   Sends in a row, over rc, uc or ud
  write_bw  RDMA Writes in a row, over rc or uc
  read_lat  RDMA Reads, one after the other, over rc

With -R the ends meet, and the queue pairs are connected, through the connection manager, over UDP port 4791 alone (rc and ud):
give it to both.

Of the options of perftest only those that are here may be given to its program, and -F, -x, -d.`,
		Example: `  nfsrdma verbs perf write_bw                      # here; and on a Linux host: ib_write_bw -d rxe0 -x 1 -F HERE
  nfsrdma verbs perf send_bw -c ud --json linuxhost # there: ib_send_bw -c UD -d rxe0 -x 1 -F
  nfsrdma verbs perf read_lat -R linuxhost         # there: ib_read_lat -R -F`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: cobra.FixedCompletions(verbs.PerfTests(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, s, args[1:])
			if err != nil {
				return err
			}
			r, err := verbs.Perf(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd, verbs.Port)
	f.addService(cmd)
	cmd.Flags().BoolVarP(&f.CM, "rdma-cm", "R", false, "meet the other end, and connect, through the connection manager")
	return cmd
}

func newRping(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "rping [HOST]",
		Short: "A connection by the connection manager, a Read, a Write and Sends: rping",
		Long: `Connect through the connection manager and have the server read the client's memory and write it
back, as rping of librdmacm does, with it or between two of ours. A server goes on until its
client leaves, unless --iters says how often; give that number to a server on Linux too (-C).`,
		Example: `  nfsrdma verbs rping                   # here; and on a Linux host: rping -c -a HERE -C 10 -v
  nfsrdma verbs rping -n 10 linuxhost   # there: rping -s -C 10 -v`,
		Args: cobra.MaximumNArgs(1),
		RunE: runVerbs(&f, s, verbs.Rping),
	}
	f.add(cmd, verbs.RpingPort)
	return cmd
}

func newUcmatose(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "ucmatose [HOST]",
		Short: "A connection by the connection manager, and Sends both ways: ucmatose",
		Long: `Connect through the connection manager, receive all messages of the server, send as many back and
disconnect, as ucmatose of librdmacm does, with it or between two of ours.`,
		Example: `  nfsrdma verbs ucmatose                        # here; and on a Linux host: ucmatose -s HERE
  nfsrdma verbs ucmatose -n 50 -s 1000 linuxhost # there: ucmatose -C 50 -S 1000`,
		Args: cobra.MaximumNArgs(1),
		RunE: runVerbs(&f, s, verbs.Ucmatose),
	}
	f.add(cmd, verbs.UcmatosePort)
	return cmd
}

func newUdaddy(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "udaddy [HOST]",
		Short: "Datagrams to the queue pair that a listener names, and back: udaddy",
		Long: `Ask the connection manager which queue pair has a service of datagrams (SIDR), send all messages
there and receive as many back, as udaddy of librdmacm does, with it or between two of ours.`,
		Example: `  nfsrdma verbs udaddy                        # here; and on a Linux host: udaddy -s HERE
  nfsrdma verbs udaddy -n 50 -s 1000 linuxhost # there: udaddy -C 50 -S 1000`,
		Args: cobra.MaximumNArgs(1),
		RunE: runVerbs(&f, s, verbs.Udaddy),
	}
	f.add(cmd, verbs.RpingPort)
	return cmd
}

func newMckey(s *session.Session) *cobra.Command {
	var f verbsFlags
	var send bool
	cmd := &cobra.Command{
		Use:   "mckey GROUP",
		Short: "Datagrams to a multicast group, and from it: mckey",
		Long: `Join a multicast group of IPv4 or IPv6 and receive what is sent to it, or, with --send, send messages to
those that have joined it, as mckey of librdmacm does, with it or between ends of ours. Any number of them
can receive; start them first. Packets to a group do not pass routers.`,
		Example: `  nfsrdma verbs mckey --addr 10.0.0.1 239.1.2.3          # here; and on a Linux host: mckey -m 239.1.2.3 -s -b 10.0.0.2
  nfsrdma verbs mckey --send --addr 10.0.0.1 239.1.2.3   # there, first: mckey -m 239.1.2.3 -b 10.0.0.2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, s, nil)
			if err != nil {
				return err
			}
			group, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("%s: not a multicast address, such as 239.1.2.3 or ff15::1:7", args[0])
			}
			o.Port = roce.UDPPort // there is no other
			o.Waiting = func(at net.Addr) { fmt.Fprintf(cmd.ErrOrStderr(), "waiting for datagrams to %v\n", at) }
			r, err := verbs.Mckey(cmd.Context(), o, group.Unmap(), send)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), r)
		},
	}
	f.addMessages(cmd)
	cmd.Flags().BoolVar(&send, "send", false, "send to the group instead of receiving")
	return cmd
}
