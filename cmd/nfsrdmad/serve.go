// nfsrdmad serve: the options, and the life of the server.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// shutdownGrace is how long calls that run may take to end.
const shutdownGrace = 10 * time.Second

// quietInterval is how often it is looked whether the server has become idle and can give memory back.
const quietInterval = 10 * time.Second

// options is what the flags of serve say.
type options struct {
	addr      string
	rdmaPort  uint16
	tcpPort   uint16
	readOnly  bool
	memory    string
	crc       string
	logLevel  string
	stateDir  string
	trust     trust
	ephemeral bool
	crossmnt  bool

	subtreeCheck bool
	asyncNames   bool
	metrics      string
	limits       limits
}

const serveExamples = `  # a directory, for clients on this machine
  nfsrdmad serve /srv/data

  # two directories, one under another name, for everybody who can reach the address
  nfsrdmad serve --addr 0.0.0.0 /srv/data /home/me/music=/music

  # an empty file tree in memory, to try things out
  nfsrdmad serve --memory

  # only over RDMA, nobody may write
  nfsrdmad serve --tcp-port 0 --read-only /srv/data`

func newServe() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve DIR[=/name]...",
		Short: "Export directories",
		Long: `Export directories by NFS version 3, over RDMA and over TCP; MOUNT is served on both ports.

A directory is exported under its absolute path, or under /name. When run by root
the server acts as its callers: AUTH_SYS user, group and groups, but their root is
nobody unless --no-root-squash. Run by anybody else, all callers act as the user who
runs it. Callers on this machine are who the kernel says they are, unless --trust-local;
other machines are believed, there is no other authentication: serve only networks
that you trust.`,
		Example: serveExamples,
		RunE:    func(cmd *cobra.Command, args []string) error { return serve(cmd, &o, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.addr, "addr", "127.0.0.1", "address to serve on: 192.0.2.1, [::1], fe80::1%eth0 …; 0.0.0.0 is all of IPv4, :: all there is")
	f.Uint16Var(&o.rdmaPort, "rdma-port", 20049, "port of NFS over RDMA; 0: off")
	f.Uint16Var(&o.tcpPort, "tcp-port", 2049, "port of NFS over TCP; 0: off")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse all changes")
	f.StringVar(&o.memory, "memory", "", "export an empty file tree in memory under this name")
	f.Lookup("memory").NoOptDefVal = "/memory"
	f.StringVar(&o.crc, "crc", "on", "CRCs on RDMA connections: on, off, auto (when the client asks for them), or strict (on, and no byte is placed before its CRC is right)")
	f.StringVar(&o.logLevel, "log-level", "info", "error, warning, info or debug")
	f.StringVar(&o.stateDir, "state-dir", "", "where the key of file handles is kept (default: /var/lib/nfsrdma, or $XDG_STATE_HOME/nfsrdma)")
	f.BoolVar(&o.ephemeral, "ephemeral-key", false, "keep no key: after a restart clients find their file handles stale and have to mount again")
	o.trust.flags(f)
	f.BoolVar(&o.crossmnt, "crossmnt", false, "serve what is mounted inside the directories, too; without it clients see the directories below")
	f.BoolVar(&o.subtreeCheck, "subtree-check", false, "refuse handles of what was moved out of the directories (see docs/security.md for its cost)")
	f.BoolVar(&o.asyncNames, "async-names", false, "answer changes of names and attributes before they are on disk")
	f.StringVar(&o.metrics, "metrics-addr", "", "address to serve figures for Prometheus on, such as 127.0.0.1:9049 (default: none)")
	o.limits.flags(f)
	complete(cmd, "crc", "on", "off", "auto", "strict")
	complete(cmd, "log-level", "error", "warning", "info", "debug")
	return cmd
}

// complete lets the shell complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// serve runs the server until a signal ends it.
func serve(cmd *cobra.Command, o *options, args []string) error {
	crc, err := crcMode(o.crc)
	if err != nil {
		return err
	}
	level, err := logrus.ParseLevel(o.logLevel)
	if err != nil {
		return fmt.Errorf("--log-level %q: want error, warning, info or debug", o.logLevel)
	}
	logrus.SetLevel(level)
	if o.rdmaPort == 0 && o.tcpPort == 0 {
		return errors.New("--rdma-port and --tcp-port are both 0: nothing to serve on")
	}
	l := nfsserver.Listen{Device: rnic.DeviceConfig{CRC: crc}}
	if err := o.limits.apply(&l); err != nil {
		return err
	}
	host, err := listenHost(o.addr)
	if err != nil {
		return err
	}
	l.RDMA, l.TCP = address(host, o.rdmaPort), address(host, o.tcpPort)
	syscall.Umask(0) // modes of new objects are the clients' to choose
	srv, err := newServer(o, args)
	if err != nil {
		return err
	}
	defer srv.Close()

	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var m *metrics
	if o.metrics != "" {
		m = newMetrics(srv.Programs())
		l.RPC.Observer = m
		end, err := m.serve(o.metrics)
		if err != nil {
			return fmt.Errorf("--metrics-addr: %w", listenError(err))
		}
		defer end()
	}
	service, err := srv.Start(l)
	if err != nil {
		return listenError(err)
	}
	if m != nil {
		m.watchBudgets(service.Budgets)
	}
	go nfsserver.ReturnMemory(ctx, quietInterval)
	printServed(cmd.OutOrStdout(), o, srv.Names(), service)
	notify("READY=1")
	select {
	case <-ctx.Done():
	case err = <-service.Failed():
	}
	stop() // a second signal ends the process at once
	notify("STOPPING=1")
	logrus.Info("stopping")
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	return errors.Join(err, service.Shutdown(grace))
}

func crcMode(s string) (rnic.CRCMode, error) {
	switch s {
	case "on":
		return rnic.CRCOn, nil
	case "off":
		return rnic.CRCOff, nil
	case "auto":
		return rnic.CRCAuto, nil
	case "strict":
		return rnic.CRCStrict, nil
	}
	return 0, fmt.Errorf("--crc %q: want on, off, auto or strict", s)
}

// listenError says what to do about a port that cannot be had.
func listenError(err error) error {
	var op *net.OpError
	where := ""
	if errors.As(err, &op) && op.Addr != nil {
		where = " " + op.Addr.String()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("address%s is in use: end the other server, or choose --rdma-port and --tcp-port", where)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("address%s needs privileges: choose ports from 1024 on", where)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("address%s is none of this machine: choose another --addr", where)
	}
	return err
}
