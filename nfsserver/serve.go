// Serving: a Server over TCP and by both RDMA providers, started with one call.

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

// Listen says where a Server is served. All addresses serve NFS and MOUNT alike.
type Listen struct {
	TCP  string // address of ONC RPC over TCP, such as "127.0.0.1:2049"; "": off
	RDMA string // address of RPC-over-RDMA over iWARP, such as "127.0.0.1:20049"; "": off

	// TCPOn and RDMAOn, where they are set, take the place of TCP and RDMA: listeners of
	// transport.ListenOn, which are closed with the Service, or when Start fails.
	TCPOn, RDMAOn net.Listener

	// RoCE is the address of RPC-over-RDMA over RoCEv2, such as "127.0.0.1:20049"; "": off. The
	// port is that of the service, and can be the one of RDMA: on the wire it is UDP port 4791, of
	// which there is one for each address of a host. With RoCEOptional a Server is served without
	// it until it can be had; see Service.RoCEErr. So it is, with or without, where this machine
	// does not have the address.
	RoCE         string
	RoCEOptional bool
	RoCEState    string // see roce.Options.State

	// RoCEUnserved is called for addresses of this host without RoCE, if others have it: see
	// roce.Options.Unserved; and with nil for the address of RoCE that could not be had at first.
	RoCEUnserved func(at netip.Addr, err error)

	// Programs are served at all addresses beside NFS and MOUNT, to callers that those let in.
	// Those with lanes have the Server's Names.
	Programs []*transport.Program

	Device rnic.DeviceConfig // of both providers
	RPC    transport.ServerConfig
}

// A Service is a Server that is being served.
type Service struct {
	// Set once; nil where it is off.
	TCPAddr, RDMAAddr, RoCEAddr net.Addr

	RoCEErr error // set once: why it was not served over RoCE at first; that is tried again, see RoCEServed

	roce   *lateListener // nil: off
	srv    *Server
	rpc    *transport.Server
	loops  sync.WaitGroup
	failed chan error

	devices []*rnic.Device // set once: of iWARP and of RoCE, where they are on
}

// Start serves s at all the addresses of l, or at none of them.
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
		// An address that this machine does not have yet is waited for, as over TCP.
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

// listener is the one given, or a new one at an address.
func listener(given net.Listener, addr string, log *slog.Logger) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	return transport.ListenConfig{Logger: log}.Listen(addr)
}

// end notes that a loop has ended.
func (v *Service) end(err error) {
	if err != nil && !errors.Is(err, transport.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		v.failed <- err
	}
}

// RoCEServed reports whether it is served over RoCE now.
func (v *Service) RoCEServed() bool { return v.roce != nil && v.roce.isOpen() }

// Failed gives the error of a port that stopped being served by itself.
func (v *Service) Failed() <-chan error { return v.failed }

// Budgets are the memory budgets, and what is used of them at this moment.
func (v *Service) Budgets() []transport.BudgetUse { return v.rpc.Budgets() }
