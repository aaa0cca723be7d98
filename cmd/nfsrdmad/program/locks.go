// Client locks: NLM and NSM in addition to NFS, and their registration.

package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// locks has the lock service and its flags. Without the service the methods do nothing.
type locks struct {
	on    bool
	statd uint16
	gone  time.Duration

	svc      *nlm.Service
	udp      *net.UDPConn
	programs []*transport.Program
}

func (k *locks) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	cli.SwitchVar(cmd, &k.on, "locks", true, "serve locks (NLM and NSM) on the ports of NFS: `on|off`")
	cli.DurationVar(f, &k.gone, "locks-gone", 10*time.Minute, "release the locks of a client that was silent for this `TIME`, if others want them; 0: keep them")
	f.Uint16Var(&k.statd, "statd-port", 0, "UDP `PORT` on which clients report a restart (default: the number of --tcp-port)")
}

// open starts the lock service for a server that will be served on host.
func (k *locks) open(o *options, srv *nfsserver.Server, host string, passed *sockets) error {
	if !k.on {
		return nil
	}
	no := nlm.Options{Gone: k.gone, Logger: logto.Standard}
	if k.gone == 0 {
		no.Gone = -1
	}
	if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
		no.Local = addr
	}
	// If handles do not survive a restart, clients cannot reclaim their locks.
	if !o.ephemeral && (o.memory == "" || len(srv.Names()) > 1) {
		no.StateDir = stateDir(o)
	}
	var err error
	if k.udp, passed.statd = passed.statd, nil; k.udp == nil {
		err = k.listen(o, host)
	}
	if err != nil {
		return err
	}
	if k.svc, err = nlm.New(srv, no); err != nil {
		k.udp.Close()
		return fmt.Errorf("%w: stop that server, or name another --state-dir", err)
	}
	k.programs = k.svc.Programs()
	go func() {
		if err := k.svc.ServeUDP(k.udp); err != nil {
			logrus.Errorf("UDP port of NSM: %v", err)
		}
	}()
	return nil
}

// connected makes the lock service treat clients with a connection as present.
func (k *locks) connected(s *nfsserver.Service) {
	if k.svc == nil {
		return
	}
	k.svc.Connected(func(addr netip.Addr) bool {
		list, _ := s.Clients()
		return slices.ContainsFunc(list, func(c nfsserver.Client) bool {
			at, err := netip.ParseAddrPort(c.Remote.String())
			return err == nil && at.Addr().Unmap() == addr
		})
	})
}

// listen opens the UDP port. If the usual port is unavailable and no other was requested, it opens
// any port.
func (k *locks) listen(o *options, host string) error {
	ports := []uint16{k.statd}
	if k.statd == 0 {
		ports = []uint16{o.tcpPort, 0}
	}
	var err error
	for _, port := range ports {
		if k.udp, err = transport.ListenUDP(net.JoinHostPort(host, fmt.Sprint(port))); err == nil {
			return nil
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--statd-port %d is in use: choose another, or none for any", k.statd)
	}
	return listenError(err)
}

// close ends the lock service. Call close after serving has ended.
func (k *locks) close() {
	if k.svc != nil {
		k.svc.Close()
	}
}

// bindings returns the lock programs at all their addresses. It returns none if only this machine
// can reach the server: its rpcbind then keeps the entry for the kernel's lock manager.
func (k *locks) bindings(s *nfsserver.Service) []rpcbind.Binding {
	if k.svc == nil || s.TCPAddr == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(s.TCPAddr.String())
	if err != nil || at.Addr().Unmap().IsLoopback() {
		return nil
	}
	all := bindings(k.programs, s)
	if udp, err := netip.ParseAddrPort(k.udp.LocalAddr().String()); err == nil {
		all = append(all, portmap.Bindings(nsm.Program, nsm.Version, "udp", udp)...)
	}
	return all
}

// register registers the lock programs with rpcbind, separately from NFS. So if another lock
// manager is registered, NFS still is, and clients need no port options. known reports whether
// Linux can mount without nolock.
func (k *locks) register(ctx context.Context, all []rpcbind.Binding) (known bool, end func(context.Context)) {
	if len(all) == 0 {
		return false, func(context.Context) {}
	}
	r, err := portmap.Register(ctx, all)
	if err != nil && !errors.Is(err, portmap.ErrNone) {
		logrus.Warnf("locks: cannot register NLM and NSM with rpcbind: %s%s; until then Linux clients must mount with nolock", firstLine(err), conflictAdvice(err))
	}
	return err == nil, func(ctx context.Context) { closeRegistrar(ctx, r) }
}

// line returns the banner's line about locks, or "".
func (k *locks) line(s *nfsserver.Service, known bool) string {
	switch {
	case k.svc == nil:
		return "off: clients mount with nolock"
	case s.TCPAddr == nil:
		return "NLM and NSM, over RDMA alone, where Linux does not look for them: serve with --tcp-port as well, or mount with nolock"
	}
	_, statd := hostPort(k.udp.LocalAddr())
	line := "NLM and NSM on the same ports, NSM on UDP port " + statd + ", too"
	if !known {
		line += "; rpcbind does not tell clients of them, so mount with nolock"
	}
	if grace := k.svc.Grace(); grace > 0 {
		line += fmt.Sprintf("; for %d s only what clients had before the restart", int(grace/time.Second))
	}
	return line
}
