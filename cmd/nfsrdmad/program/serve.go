// nfsrdmad serve: its options, and the server from start to end.

package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shutdownGrace limits the wait for running calls at the end.
const shutdownGrace = 10 * time.Second

// quietInterval is the time between two checks whether the server is idle, to return memory.
const quietInterval = 10 * time.Second

// defaultMemory is the default name of the file tree in memory.
const defaultMemory = "/memory"

// options has the values from serve's flags.
type options struct {
	kind      *Kind // nil: directories
	addr      string
	rdma      string
	rdmaPort  uint16
	tcpPort   uint16
	readOnly  bool
	exports   string
	control   string
	memory    string
	crc       string
	logLevel  string
	logFormat string
	stateDir  string
	trust     trust
	security  security
	ephemeral bool
	crossmnt  bool

	subtreeCheck bool
	asyncNames   bool
	metrics      string
	rpcbind      string
	acl          string
	locks        locks
	audit        auditing
	limits       limits
}

const serveExamples = `  # a directory, for clients on this machine
  nfsrdmad serve /srv/data

  # two directories, one under another name, for all hosts that can connect
  nfsrdmad serve --addr 0.0.0.0 /srv/data /home/me/music=/music

  # an empty file tree in memory, for a test
  nfsrdmad serve --memory

  # the directories of an exports file, for the clients that it names
  nfsrdmad serve --addr 0.0.0.0 --exports /etc/nfsrdma/exports

  # the same, with a record of all changes of names and attributes
  nfsrdmad serve --addr 0.0.0.0 --exports /etc/nfsrdma/exports \
      --audit /var/log/nfsrdma/audit.log

  # the same over TLS alone, for clients with a certificate too
  nfsrdmad serve --addr 0.0.0.0 --tls-cert server.pem --tls-key server.key \
      --tls-client-ca ca.pem --xprtsec mtls /srv/data

  # only over RDMA, and read-only
  nfsrdmad serve --tcp-port off --read-only /srv/data`

func newServe(k *Kind) *cobra.Command {
	o := options{kind: k}
	cmd := &cobra.Command{
		Use:   "serve [DIR[=/name]...]",
		Short: "Export directories",
		Long: `Export directories by NFS version 3, over RDMA and TCP. MOUNT is served on both ports.

A directory is exported under its absolute path, or under /name. All hosts that can
reach the server can use it. An exports file (--exports) says which clients can use
which directories, and how. Its grammar is that of exports(5). The server checks the
rights in each call. nfsrdmad check shows them.

SIGHUP or nfsrdmad reload makes the server read a changed exports file, and open the
audit log again. A server with neither ignores SIGHUP, so it survives the end of its
terminal. Ctrl-C and SIGTERM end the server.

If root runs the server, it acts as its callers: as their AUTH_SYS user, group and
groups. Their root becomes nobody, unless --no-root-squash. If another user runs it,
all callers act as that user. For callers on this machine the kernel names the user,
unless --trust-local. Callers on other machines name their user themselves, unless
the export demands Kerberos (sec=krb5p), and their packets can be read and changed,
unless it demands Kerberos or TLS (xprtsec=tls). Without both, serve only networks that
you trust.`,
		Example: serveExamples,
		RunE:    func(cmd *cobra.Command, args []string) error { return serve(cmd, &o, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	defaultFile, state := "none", k.dir()
	if k == nil {
		defaultFile = defaultExports + ", if it exists and no directory is named"
	}
	f := cmd.Flags()
	f.StringVar(&o.addr, "addr", "127.0.0.1", "serve on this `ADDRESS`: 192.0.2.1, [::1], fe80::1%eth0, or 0.0.0.0 for all of IPv4, or :: for all; a port after it, as in 192.0.2.1:2049, is --tcp-port")
	f.StringVar(&o.rdma, "rdma", "auto", "serve the RDMA `PROTOCOLS` iwarp (over TCP), roce (RoCEv2, over UDP port 4791) or iwarp,roce; auto: both, or iwarp alone if that UDP port is in use")
	cli.PortVar(f, &o.rdmaPort, "rdma-port", 20049, "serve RDMA on this `PORT`, or off")
	cli.PortVar(f, &o.tcpPort, "tcp-port", 2049, "serve TCP on this `PORT`, or off")
	f.StringVar(&o.exports, "exports", "", "`FILE` with exports and their clients, in the grammar of exports(5) (default: "+defaultFile+")")
	f.StringVar(&o.control, "control", "", k.controlHelp())
	f.BoolVar(&o.readOnly, "read-only", false, "refuse all changes")
	f.StringVar(&o.memory, "memory", "", "export an empty file tree in memory under this `NAME`; a line of the exports file can restrict its clients")
	f.Lookup("memory").NoOptDefVal = defaultMemory
	f.StringVar(&o.crc, "crc", "on", "CRCs over iWARP: `MODE` on, off, auto (if the client requests them), or strict (check a CRC before any byte is placed)")
	f.StringVar(&o.logLevel, "log-level", "info", "log this `LEVEL` and above: error, warning, info or debug")
	f.StringVar(&o.logFormat, "log-format", "text", "write the log as `FORMAT` text or json")
	f.StringVar(&o.stateDir, "state-dir", "", "keep the file-handle key and the list of lock holders in this `DIR` (default: /var/lib/"+state+", or $XDG_STATE_HOME/"+state+")")
	f.BoolVar(&o.ephemeral, "ephemeral-key", false, "keep no file-handle key: after a restart, clients have stale handles and must mount again")
	o.trust.flags(f)
	o.security.flags(f)
	if k == nil {
		o.dirFlags(f)
	} else {
		k.Flags(f)
	}
	f.BoolVar(&o.asyncNames, "async-names", false, "answer changes of names and attributes before they are on disk, in directories of the command line")
	f.StringVar(&o.metrics, "metrics-addr", "", "serve metrics on this `HOST:PORT`, such as 127.0.0.1:9049, as a page and for Prometheus (default: none)")
	f.StringVar(&o.rpcbind, "rpcbind", "auto", "tell clients the ports by rpcbind: `MODE` auto (register, if rpcbind runs here), serve (answer on port 111 of --addr) or off")
	f.StringVar(&o.acl, "acl", "on", "let clients read and set POSIX ACLs (getfacl, setfacl): `on|off`; with off the ACLs still apply")
	o.locks.flags(cmd)
	o.audit.flags(f)
	o.limits.flags(f)
	complete(cmd, "rpcbind", "auto", "serve", "off")
	complete(cmd, "acl", "on", "off")
	complete(cmd, "rdma", "auto", "iwarp", "roce", "iwarp,roce")
	complete(cmd, "tls-kernel", kernelModes...)
	complete(cmd, "crc", "on", "off", "auto", "strict")
	complete(cmd, "log-level", "error", "warning", "info", "debug")
	complete(cmd, "log-format", "text", "json")
	return cmd
}

// dirFlags adds the flags that apply only to directories.
func (o *options) dirFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.crossmnt, "crossmnt", false, "serve file systems that are mounted below directories of the command line too")
	f.BoolVar(&o.subtreeCheck, "subtree-check", false, "refuse handles of files that moved out of directories of the command line (costs a lookup of the path)")
}

// complete sets the shell completions of a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// plan validates the flags and returns where to serve: on host, and on the passed sockets, which
// the caller closes.
func (o *options) plan(f *pflag.FlagSet) (l nfsserver.Listen, host string, passed *sockets, err error) {
	crc, err := crcMode(o.crc)
	if err != nil {
		return l, "", nil, err
	}
	if err := o.setLog(); err != nil {
		return l, "", nil, err
	}
	if err := o.checkValues(); err != nil {
		return l, "", nil, err
	}
	if err := o.splitAddr(f); err != nil {
		return l, "", nil, err
	}
	l.Device.CRC = crc
	if err := o.limits.apply(&l); err != nil {
		return l, "", nil, err
	}
	if passed, err = takeSockets(o, f); err != nil {
		return l, "", nil, err
	}
	if host, err = listenHost(o.addr); err == nil {
		l.TCP = address(host, o.tcpPort)
		err = o.providers(&l, host)
	}
	if err == nil && o.rdmaPort == 0 && o.tcpPort == 0 {
		err = errors.New("--rdma-port and --tcp-port are both off: nothing to serve on")
	}
	if err != nil {
		passed.close()
	}
	return l, host, passed, err
}

// checkValues validates flag values that depend on nothing else.
func (o *options) checkValues() error {
	switch {
	case !slices.Contains(rpcbindModes, o.rpcbind):
		return fmt.Errorf("--rpcbind %q: must be %s", o.rpcbind, strings.Join(rpcbindModes, ", "))
	case o.acl != "on" && o.acl != "off":
		return fmt.Errorf("--acl %q: must be on or off", o.acl)
	case o.locks.gone < 0:
		return fmt.Errorf("--locks-gone %s: must be a time such as 10m, or 0 to keep the locks", o.locks.gone)
	}
	return checkMetricsAddr(o.metrics)
}

// serve runs the server until a signal ends it.
func serve(cmd *cobra.Command, o *options, args []string) error {
	// SIGHUP is handled from the first moment to the last, because its default ends the process.
	// Until the server is ready, a signal waits in the channel.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	l, host, passed, err := o.plan(cmd.Flags())
	if err != nil {
		return err
	}
	defer passed.close()
	syscall.Umask(0) // clients choose the modes of new objects
	if err := o.audit.open(); err != nil {
		return err
	}
	defer o.audit.close()
	if err := o.security.open(); err != nil {
		return err
	}
	o.security.apply(&l)
	srv, set, err := newServer(o, args)
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := o.locks.open(o, srv, host, passed); err != nil {
		return err
	}
	defer o.locks.close()
	l.Programs = o.locks.programs

	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	m, end, err := startMetrics(o.kind.name(), o.metrics, &l, srv)
	if err != nil {
		return err
	}
	defer end()
	if err := passed.listen(&l); err != nil {
		return err
	}
	service, err := srv.Start(l)
	if err != nil {
		return listenError(err)
	}
	ctl := &running{o: o, set: set, service: service, metrics: m, started: time.Now()}
	m.watch(service, srv, o.locks.svc, &o.security)
	o.locks.connected(service)
	defer ctl.begin(ctx)()
	warnAbsent("--addr", host)
	if err := set.watchMounts(ctx, service); err != nil {
		logrus.Warnf("mounts over exports are not noticed from now on, until a reload: %v", err)
	}
	if service.RoCEErr != nil {
		logrus.Warnf("not served over RoCE until this is repaired (--rdma iwarp ends this warning): %v", service.RoCEErr)
	}
	mapping, err := o.mapPorts(ctx, host, passed, bindings(srv.Programs(), service), o.locks.bindings(service))
	if err != nil {
		return errors.Join(err, service.Shutdown(ctx))
	}
	go nfsserver.ReturnMemory(ctx, quietInterval)
	printServed(cmd.OutOrStdout(), o, set, srv.Names(), service, mapping)
	notify("READY=1\nSTATUS=serves " + text.Plural(int64(len(srv.Names())), "export"))
	err = wait(ctx, service, hangup, ctl)
	stop() // a second signal ends the process at once
	notify("STOPPING=1")
	logrus.Info("stopping")
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	mapping.close(grace)
	return errors.Join(err, service.Shutdown(grace))
}

// wait returns when the server must end or cannot continue. A hangup makes the server read its
// files again. A service manager's watchdog (WatchdogSec= of systemd.service(5)) is notified twice
// per interval, as long as this loop runs.
func wait(ctx context.Context, service *nfsserver.Service, hangup <-chan os.Signal, ctl *running) error {
	var beat <-chan time.Time
	if within, err := daemon.SdWatchdogEnabled(false); err == nil && within > 0 {
		t := time.NewTicker(within / 2)
		defer t.Stop()
		beat = t.C
	}
	for {
		select {
		case <-beat:
			notify("WATCHDOG=1")
		case <-ctx.Done():
			return nil
		case err := <-service.Failed():
			return err
		case <-hangup:
			ctl.hangup()
		}
	}
}

// providers sets the RDMA addresses of l according to --rdma.
func (o *options) providers(l *nfsserver.Listen, host string) error {
	at := address(host, o.rdmaPort)
	if !o.ephemeral {
		l.RoCEState = stateDir(o)
	}
	l.RoCEUnserved = roceUnserved
	if o.rdma == "auto" {
		l.RDMA, l.RoCE, l.RoCEOptional = at, at, true
		return nil
	}
	for word := range strings.SplitSeq(o.rdma, ",") {
		switch word {
		case "iwarp":
			l.RDMA = at
		case "roce":
			l.RoCE = at
		default:
			return fmt.Errorf("--rdma %q: must be auto, iwarp, roce or iwarp,roce, as in --rdma auto DIR", o.rdma)
		}
	}
	return nil
}

// roceUnserved logs that an address of this host is not served over RoCE; nil err: served now.
func roceUnserved(at netip.Addr, err error) {
	if err != nil {
		logrus.Warnf("not served over RoCE at %v: %v", at, err)
		return
	}
	logrus.Infof("served over RoCE at %v, too", at)
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
	return 0, fmt.Errorf("--crc %q: must be on, off, auto or strict", s)
}

// listenError adds a remedy to an error about an unavailable port.
func listenError(err error) error {
	var op *net.OpError
	where, host := "", "of --addr"
	if errors.As(err, &op) && op.Addr != nil {
		where = " " + op.Addr.String()
		host, _, _ = net.SplitHostPort(op.Addr.String())
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("address%s is in use: end the other server (ss -lntup shows it), or choose --rdma-port and --tcp-port", where)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("address%s needs privileges: choose ports from 1024 on", where)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("address %s is not one of this machine (ip address shows those): choose another --addr", host)
	}
	return err
}
