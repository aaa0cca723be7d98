// nfsrdma verbs: the tests of Linux's RDMA test programs, against them or against itself.

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

const verbsHelp = `Test RoCE without RPC, against the test programs of Linux or between two of ours:

  pingpong              ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong
  perf                  ib_send_bw, ib_write_bw and ib_read_lat of perftest
  rping ucmatose udaddy mckey  the programs of librdmacm with these names

With HOST this end is the client, otherwise it is the server. A server takes one
client, and ends with the test. The two ends exchange their addresses over TCP.
rping, ucmatose and udaddy use the connection manager instead. Then they use UDP
port 4791. Give both ends the same options, because neither end sends them. Give the
programs of Linux the GID of the address that leads here (-g, or -x of perftest). To
list the GIDs, run "rdma link show" and "ibv_devinfo -v".

Any host that can reach the port of a server can be its client. Use a server only
where that is harmless, or name an address with --addr.

UC and UD lose messages if the network or the other end does. The test then ends
when no message has come for --timeout (default 1m).`

func newVerbs(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verbs",
		Short: "Test RoCE alone, also against the programs of Linux",
		Long:  verbsHelp,
		Example: `  # the server; on a Linux host then: ibv_rc_pingpong -d rxe0 -g 1 SERVER
  nfsrdma verbs pingpong

  # the client; on HOST first: ib_write_bw -d rxe0 -x 1 -F
  nfsrdma verbs perf write_bw HOST`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	cli.DurationVar(f, &s.Flags.ConnectTimeout, "connect-timeout", connectTimeout, "wait at most `TIME` for the other end")
	cli.DurationVar(f, &s.Flags.Timeout, "timeout", 0, "wait at most `TIME` for a message; 0: no limit, or 1m where messages can be lost")
	cmd.AddCommand(newPingpong(s), newPerf(s), newRping(s), newUcmatose(s), newUdaddy(s), newMckey(s))
	return cmd
}

// verbsFlags are the flags of all tests.
type verbsFlags struct {
	verbs.Options
	service, size, addr string
	json                bool
}

func (f *verbsFlags) add(cmd *cobra.Command, port int) {
	cmd.Flags().IntVarP(&f.Port, "port", "p", port, "TCP `PORT` of the server")
	f.addMessages(cmd)
}

// addMessages adds the flags of tests without a port.
func (f *verbsFlags) addMessages(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.size, "size", "s", "", "`SIZE` of a message, with K or M (default: as the program of Linux)")
	fl.IntVarP(&f.Iterations, "count", "n", 0, "send `N` messages (default: as the program of Linux)")
	cli.Renamed(cmd, "iters", "count")
	fl.StringVar(&f.addr, "addr", "", "`ADDRESS` of this host, or ADDRESS:PORT with --port (default: the one that leads to the peer, or all of a server)")
	fl.BoolVar(&f.json, "json", false, "print the report as JSON")
}

func (f *verbsFlags) addService(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.service, "service", "c", "rc", "`SERVICE`: rc, uc or ud")
	cmd.Flags().IntVarP(&f.MTU, "mtu", "m", 0, "path `MTU`: 256, 512, 1024, 2048 or 4096 (default: as the program of Linux)")
	_ = cmd.RegisterFlagCompletionFunc("service", cobra.FixedCompletions(verbs.ServiceNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("mtu", cobra.FixedCompletions([]string{"256", "512", "1024", "2048", "4096"}, cobra.ShellCompDirectiveNoFileComp))
}

// options returns the options from the flags. host is the argument with the server's name, if there
// is one.
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
		host, port := cli.CutPort(f.addr)
		a, err := netip.ParseAddr(host)
		given := cmd.Flags().Lookup("port")
		switch {
		case err != nil:
			return o, fmt.Errorf("--addr %s: not an address", f.addr)
		case port > 0 && given == nil:
			return o, fmt.Errorf("--addr %s: this test has no port", f.addr)
		case port > 0 && given.Changed && int(port) != f.Port:
			return o, fmt.Errorf("--addr %s and --port %d contradict each other: give one port", f.addr, f.Port)
		case port > 0:
			o.Port = int(port)
		}
		o.Local = a.Unmap()
	}
	o.Silence, o.ConnectTimeout = s.Flags.Timeout, s.Flags.ConnectTimeout
	o.Device = roce.Open(rnic.DeviceConfig{})
	o.Waiting = func(at net.Addr) { fmt.Fprintf(cmd.ErrOrStderr(), "waiting for a client at %v\n", at) }
	return o, nil
}

// A verbsReport is the result of a test.
type verbsReport interface{ Table(io.Writer) error }

// runVerbs returns the RunE of a command that runs one test with the flags and prints its report.
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
		Short: "Messages with answers: ibv_rc_pingpong and its kin",
		Long: `Send messages one by one, and wait for the answer of each. The other end is
ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong of libibverbs, or this command.`,
		Example: `  # here; and on a Linux host: ibv_rc_pingpong -d rxe0 -g 1 HERE
  nfsrdma verbs pingpong

  # there: ibv_ud_pingpong -d rxe0 -g 1
  nfsrdma verbs pingpong -c ud --json linuxhost`,
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
		Short: "Bandwidth and latency: ib_send_bw, ib_write_bw, ib_read_lat",
		Long: `Run a test of perftest, with its program or between two of ours. The program of
perftest must have a version from 5.70 to 6.20, as in Debian 12. TEST is one of

  send_bw   Sends in a row, over rc, uc or ud
  write_bw  RDMA Writes in a row, over rc or uc
  read_lat  RDMA Reads, one by one, over rc

With -R the two ends connect through the connection manager, over UDP port 4791
alone (rc and ud). Give it to both ends.

Give the program of perftest only options that are listed here, and -F, -x or -d.`,
		Example: `  # here; and on a Linux host: ib_write_bw -d rxe0 -x 1 -F HERE
  nfsrdma verbs perf write_bw

  # there: ib_send_bw -c UD -d rxe0 -x 1 -F
  nfsrdma verbs perf send_bw -c ud --json linuxhost

  # there: ib_read_lat -R -F
  nfsrdma verbs perf read_lat -R linuxhost`,
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
	cmd.Flags().BoolVarP(&f.CM, "rdma-cm", "R", false, "connect through the connection manager")
	return cmd
}

func newRping(s *session.Session) *cobra.Command {
	var f verbsFlags
	cmd := &cobra.Command{
		Use:   "rping [HOST]",
		Short: "Connection manager, Read, Write and Sends: rping",
		Long: `Connect through the connection manager. The server then reads the memory of the
client, and writes it back. The other end is rping of librdmacm, or this command. A
server continues until its client leaves, or for --count rounds. Give that number to
a server on Linux too (-C).`,
		Example: `  # here; and on a Linux host: rping -c -a HERE -C 10 -v
  nfsrdma verbs rping

  # there: rping -s -C 10 -v
  nfsrdma verbs rping -n 10 linuxhost`,
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
		Short: "Connection manager, and Sends both ways: ucmatose",
		Long: `Connect through the connection manager, receive all messages of the server, send as
many back, and disconnect. The other end is ucmatose of librdmacm, or this command.`,
		Example: `  # here; and on a Linux host: ucmatose -s HERE
  nfsrdma verbs ucmatose

  # there: ucmatose -C 50 -S 1000
  nfsrdma verbs ucmatose -n 50 -s 1000 linuxhost`,
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
		Short: "Datagrams to a queue pair, and back: udaddy",
		Long: `Ask the connection manager for the queue pair of a datagram service (SIDR). Send all
messages there, and receive as many back. The other end is udaddy of librdmacm, or
this command.`,
		Example: `  # here; and on a Linux host: udaddy -s HERE
  nfsrdma verbs udaddy

  # there: udaddy -C 50 -S 1000
  nfsrdma verbs udaddy -n 50 -s 1000 linuxhost`,
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
		Long: `Join a multicast group of IPv4 or IPv6, and receive the messages to it. With --send,
send messages to the members of the group. The other ends are mckey of librdmacm, or
this command. Any number of them can receive. Start these first. Packets to a group
do not pass routers.`,
		Example: `  # here; and on a Linux host: mckey -m 239.1.2.3 -s -b 10.0.0.2
  nfsrdma verbs mckey --addr 10.0.0.1 239.1.2.3

  # there, first: mckey -m 239.1.2.3 -b 10.0.0.2
  nfsrdma verbs mckey --send --addr 10.0.0.1 239.1.2.3`,
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
			o.Port = roce.UDPPort // RoCE's only port
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
