// How clients without a port find the server: rpcbind.

package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"github.com/sirupsen/logrus"
)

// The values for --rpcbind.
var rpcbindModes = []string{"auto", "serve", "off"}

// portMapperBudget is the memory for the port mapper's calls, in addition to NFS's.
const portMapperBudget = 4 << 20

// A portMapping is the result of the registration with rpcbind.
type portMapping struct {
	line  string // line for the banner; "": no line
	known bool   // clients need no port
	locks bool   // clients find the lock manager
	close func(context.Context)
}

// bindings returns the programs at all addresses where they are served.
func bindings(programs []*transport.Program, s *nfsserver.Service) (all []rpcbind.Binding) {
	rdma := s.RDMAAddr
	if rdma == nil {
		rdma = s.RoCEAddr
	}
	for _, p := range programs {
		for _, at := range []struct {
			transport string
			addr      net.Addr
		}{{"tcp", s.TCPAddr}, {"rdma", rdma}} {
			if at.addr == nil {
				continue
			}
			if a, err := netip.ParseAddrPort(at.addr.String()); err == nil {
				all = append(all, portmap.Bindings(p.Number, p.Version, at.transport, a)...)
			}
		}
	}
	return all
}

// mapPorts registers the programs according to --rpcbind; host is the address of --rpcbind serve.
func (o *options) mapPorts(ctx context.Context, host string, passed *sockets, all, locks []rpcbind.Binding) (*portMapping, error) {
	switch o.rpcbind {
	case "serve":
		p, err := servePortMapper(host, passed, append(all, locks...))
		if err == nil {
			p.locks = len(locks) > 0
		}
		return p, err
	case "auto":
		p := register(ctx, all)
		known, end := o.locks.register(ctx, locks)
		rest := p.close
		p.locks, p.close = known, func(ctx context.Context) {
			end(ctx)
			rest(ctx)
		}
		return p, nil
	}
	return &portMapping{close: func(context.Context) {}}, nil
}

// register registers all with this machine's rpcbind. If no rpcbind runs, the registration follows
// when rpcbind starts.
func register(ctx context.Context, all []rpcbind.Binding) *portMapping {
	r, err := portmap.Register(ctx, all)
	p := &portMapping{line: "registered", known: err == nil, close: func(ctx context.Context) { closeRegistrar(ctx, r) }}
	switch {
	case errors.Is(err, portmap.ErrNone):
		p.line = "none runs here, so mounts need the ports (--rpcbind serve is one)"
	case err != nil:
		p.line = "not all is registered, so mounts need the ports"
		logrus.Warnf("rpcbind: %s%s", firstLine(err), conflictAdvice(err))
	}
	return p
}

// firstLine returns the first error's text, and the number of others.
func firstLine(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if more {
		first += fmt.Sprintf(" (and %d like it)", 1+strings.Count(rest, "\n"))
	}
	return first
}

// conflictAdvice returns advice about the first ConflictError in err: another server is registered
// for our program.
func conflictAdvice(err error) string {
	var c *portmap.ConflictError
	if !errors.As(err, &c) {
		return ""
	}
	what := "an NFS server: end it (of the kernel: systemctl disable --now nfs-server)"
	switch c.Binding.Prog {
	case nsm.Program:
		what = "rpc.statd, the status monitor of this machine's own NFS mounts: end it (systemctl mask --now rpc-statd), or serve no locks (--locks off)"
	case nlm4.Program:
		what = "the kernel's lock manager: end its NFS server (systemctl disable --now nfs-server) and mount NFS on this machine with nolock, or serve no locks (--locks off)"
	}
	return "; most likely " + what + "; once it has ended ours is registered within 15 s"
}

// closeRegistrar removes the registrations.
func closeRegistrar(ctx context.Context, r *portmap.Registrar) {
	if err := r.Close(ctx); err != nil && !errors.Is(err, portmap.ErrNone) {
		logrus.Warnf("rpcbind still has us registered: %v", err)
	}
}

// portMapperSockets returns the two sockets of rpcbind: the passed ones, or new ones on port 111 of
// host.
func portMapperSockets(host string, passed *sockets) (tcp net.Listener, udp *net.UDPConn, err error) {
	addr := net.JoinHostPort(host, strconv.Itoa(rpcbind.Port))
	tcp, udp = passed.rpcbind, passed.rpcbindUDP
	passed.rpcbind, passed.rpcbindUDP = nil, nil
	if tcp == nil {
		tcp, err = transport.ListenConfig{Logger: logto.Standard}.Listen(addr)
	}
	if err == nil && udp == nil {
		udp, err = transport.ListenUDP(addr)
	}
	if err == nil {
		return tcp, udp, nil
	}
	if tcp != nil {
		tcp.Close()
	}
	if udp != nil {
		udp.Close()
	}
	return nil, nil, portMapperError(err)
}

// servePortMapper acts as rpcbind.
func servePortMapper(host string, passed *sockets, all []rpcbind.Binding) (*portMapping, error) {
	tcp, udp, err := portMapperSockets(host, passed)
	if err != nil {
		return nil, err
	}
	table := portmap.NewTable(all)
	if at, err := netip.ParseAddrPort(tcp.Addr().String()); err == nil {
		for vers := uint32(rpcbind.Version); vers <= rpcbind.Version4; vers++ {
			table.Add(portmap.Bindings(rpcbind.Program, vers, "tcp", at))
			table.Add(portmap.Bindings(rpcbind.Program, vers, "udp", at))
		}
	}
	s := transport.NewServer(transport.ServerConfig{Budget: mem.NewBudget(portMapperBudget), Logger: logto.Standard}, table.Programs()...)
	end := func(err error) {
		if err != nil && !errors.Is(err, transport.ErrClosed) {
			logrus.Errorf("rpcbind: %v", err)
		}
	}
	go func() { end(s.ServeTCP(tcp)) }()
	go func() { end(s.ServeUDP(udp)) }()
	return &portMapping{line: "served on " + tcp.Addr().String(), known: true, close: func(ctx context.Context) { _ = s.Shutdown(ctx) }}, nil
}

func portMapperError(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--rpcbind serve: port %d is in use: this machine has an rpcbind, with which --rpcbind auto registers", rpcbind.Port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("--rpcbind serve: port %d needs root, or CAP_NET_BIND_SERVICE", rpcbind.Port)
	}
	return fmt.Errorf("--rpcbind serve: %w", err)
}
