// Starting a Server over TCP and both RDMA providers with one call.

package nfsserver

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Listen lists the addresses of a Server. Each address serves NFS and MOUNT.
type Listen struct {
	TCP  string // address of ONC RPC over TCP, such as "127.0.0.1:2049"; "": off
	RDMA string // address of RPC-over-RDMA over iWARP, such as "127.0.0.1:20049"; "": off

	// TCPOn and RDMAOn, listeners of transport.ListenOn, replace TCP and RDMA if set. The Service
	// closes them, and so does a failing Start.
	TCPOn, RDMAOn net.Listener

	// RoCE is the address of RPC-over-RDMA over RoCEv2, such as "127.0.0.1:20049"; "": off. The
	// port is a service port and may equal RDMA's: on the wire RoCE uses UDP port 4791, which each
	// address of a host has once. With RoCEOptional a Server starts without an unavailable RoCE,
	// and retries; see Service.RoCEErr. Without RoCEOptional it retries only if this machine lacks
	// the address, and otherwise fails.
	RoCE         string
	RoCEOptional bool
	RoCEState    string // see roce.Options.State

	// RoCEUnserved is called for addresses of this host without RoCE, if other addresses have RoCE:
	// see roce.Options.Unserved. It is called with a nil error once an initially unavailable RoCE
	// address is served.
	RoCEUnserved func(at netip.Addr, err error)

	// Programs are served at all addresses in addition to NFS and MOUNT, to callers that these two
	// admit. The Programs' lanes, if any, have the Server's Names.
	Programs []*transport.Program

	Device rnic.DeviceConfig // of both RDMA providers
	RPC    transport.ServerConfig
}

// A Service is a running Server.
type Service struct {
	// Set once; nil: off.
	TCPAddr, RDMAAddr, RoCEAddr net.Addr

	RoCEErr error // set once: from the first attempt at RoCE, which is retried; see RoCEServed

	roce   *lateListener // nil: off
	srv    *Server
	rpc    *transport.Server
	loops  sync.WaitGroup
	failed chan error

	devices []*rnic.Device // set once: iWARP and RoCE, if on
}

// Start serves s at all addresses of l, or returns an error and serves none.
func (s *Server) Start(l Listen) (*Service, error) {
	programs := s.Programs()
	for _, p := range l.Programs {
		p.Authorize = s.authorize
		programs = append(programs, p)
	}
	if l.RPC.Logger == nil {
		l.RPC.Logger = s.log.Logger
	}
	v := &Service{srv: s, rpc: transport.NewServer(l.RPC, programs...), failed: make(chan error, 3)}
	var opened []interface{ Close() error }
	fail := func(err error) (*Service, error) {
		for _, c := range opened {
			c.Close()
		}
		return nil, err
	}
	var serve []func() error
	for _, given := range []net.Listener{l.TCPOn, l.RDMAOn} {
		if given != nil {
			opened = append(opened, given)
		}
	}
	if l.TCP != "" || l.TCPOn != nil {
		tcp, err := listener(l.TCPOn, l.TCP, l.RPC.Logger)
		if err != nil {
			return fail(err)
		}
		opened = append(opened, tcp)
		v.TCPAddr = tcp.Addr()
		serve = append(serve, func() error { return v.rpc.ServeTCP(tcp) })
	}
	if l.RDMA != "" || l.RDMAOn != nil {
		below, err := listener(l.RDMAOn, l.RDMA, l.RPC.Logger)
		if err != nil {
			return fail(err)
		}
		dev := iwarp.Open(l.Device)
		v.devices = append(v.devices, dev)
		rdma := dev.ListenOn(below)
		opened = append(opened, rdma)
		v.RDMAAddr = rdma.Addr()
		serve = append(serve, func() error { return v.rpc.ServeRDMA(dev, rdma) })
	}
	if l.RoCE != "" {
		dev := roce.OpenWith(l.Device, roce.Options{State: l.RoCEState, Unserved: l.RoCEUnserved})
		v.devices = append(v.devices, dev)
		rdma, err := listenRoCE(dev, &l)
		// The machine can get a missing address later, so Start succeeds, as over TCP.
		if err != nil && !l.RoCEOptional && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return fail(err)
		}
		v.RoCEErr, v.roce, v.RoCEAddr = err, rdma, rdma.Addr()
		serve = append(serve, func() error { return v.rpc.ServeRDMA(dev, rdma) })
	}
	for _, f := range serve {
		v.loops.Go(func() { v.end(f()) })
	}
	return v, nil
}

// listener returns given, or a new listener at addr.
func listener(given net.Listener, addr string, log *slog.Logger) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	return transport.ListenConfig{Logger: log}.Listen(addr)
}

// end reports the error that ended a serving loop, if it is a failure.
func (v *Service) end(err error) {
	if err != nil && !errors.Is(err, transport.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		v.failed <- err
	}
}

// RoCEServed reports whether RoCE is served now.
func (v *Service) RoCEServed() bool { return v.roce != nil && v.roce.isOpen() }

// Failed returns a channel that delivers a failed serving loop's error.
func (v *Service) Failed() <-chan error { return v.failed }

// Budgets returns the memory budgets and their current use.
func (v *Service) Budgets() []transport.BudgetUse { return v.rpc.Budgets() }
