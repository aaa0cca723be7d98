// Serving: a Server on a TCP port and on an RDMA port, started with one call.

package nfsserver

import (
	"errors"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Listen says where a Server is served. Both ports serve NFS and MOUNT alike.
type Listen struct {
	TCP    string // address of ONC RPC over TCP, such as "127.0.0.1:2049"; "": off
	RDMA   string // address of RPC-over-RDMA, such as "127.0.0.1:20049"; "": off
	Device rnic.DeviceConfig
	RPC    transport.ServerConfig
}

// A Service is a Server that is being served.
type Service struct {
	// Set once; nil where it is off.
	TCPAddr, RDMAAddr net.Addr

	srv    *Server
	rpc    *transport.Server
	loops  sync.WaitGroup
	failed chan error
}

// Start serves s at all the addresses of l, or at none of them.
func (s *Server) Start(l Listen) (*Service, error) {
	v := &Service{srv: s, rpc: transport.NewServer(l.RPC, s.Programs()...), failed: make(chan error, 2)}
	var tcp net.Listener
	if l.TCP != "" {
		var err error
		if tcp, err = transport.Listen(l.TCP); err != nil {
			return nil, err
		}
		v.TCPAddr = tcp.Addr()
	}
	if l.RDMA != "" {
		below, err := transport.Listen(l.RDMA)
		if err != nil {
			if tcp != nil {
				tcp.Close()
			}
			return nil, err
		}
		dev := iwarp.Open(l.Device)
		rdma := dev.ListenOn(below)
		v.RDMAAddr = rdma.Addr()
		v.loops.Go(func() { v.end(v.rpc.ServeRDMA(dev, rdma)) })
	}
	if tcp != nil {
		v.loops.Go(func() { v.end(v.rpc.ServeTCP(tcp)) })
	}
	return v, nil
}

// end notes that a loop has ended.
func (v *Service) end(err error) {
	if err != nil && !errors.Is(err, transport.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		v.failed <- err
	}
}

// Failed gives the error of a port that stopped being served by itself.
func (v *Service) Failed() <-chan error { return v.failed }

// Budgets are the memory budgets, and what is used of them at this moment.
func (v *Service) Budgets() []transport.BudgetUse { return v.rpc.Budgets() }
