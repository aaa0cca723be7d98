// Metrics of a Server: exports, mounts, refused clients.

package nfsserver

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Figures are the metrics of a Server's exports and clients.
type Figures struct {
	Exports int // served exports
	Mounts  int // pairs of a client and a directory in MOUNT's list, at most 1024
	// RefusedClient and RefusedPort count refusals by an export's rules, because of the client or
	// its port. Each connection is checked once for each export and export change.
	RefusedClient, RefusedPort uint64
	// Refused calls, by the rule's demand that they do not meet: on the flavor (sec=), the
	// connection (xprtsec=) or the certificate (cert= and ca=).
	RefusedFlavor, RefusedChannel, RefusedCertificate uint64
}

// refusedClients counts refusals of clients and calls by rules.
type refusedClients struct{ client, port, flavor, channel, certificate atomic.Uint64 }

// Figures returns the current figures.
func (s *Server) Figures() Figures {
	f := Figures{Exports: len(s.table.Load().entries), RefusedClient: s.refused.client.Load(), RefusedPort: s.refused.port.Load(),
		RefusedFlavor: s.refused.flavor.Load(), RefusedChannel: s.refused.channel.Load(), RefusedCertificate: s.refused.certificate.Load()}
	s.mounts.mu.Lock()
	defer s.mounts.mu.Unlock()
	f.Mounts = len(s.mounts.rows)
	return f
}

// Figures returns the transport's metrics: connections, refusals, repeated calls.
func (v *Service) Figures() transport.Figures { return v.rpc.Figures() }

// Mechanisms returns the decision counts of speed mechanisms, summed over all RNICs
// (rnic.Device.Mechanisms), connections (transport.Server.Mechanisms) and exports
// (MechanismCounter), including closed ones. The caller owns the table.
func (v *Service) Mechanisms() rnic.DecisionTable {
	all := v.rpc.Mechanisms()
	for _, dev := range v.devices {
		all.AddAll(dev.Mechanisms())
	}
	all.AddAll(v.srv.mechanisms())
	return all
}

// mechanisms returns the decisions of all FSs since New.
func (s *Server) mechanisms() tally.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := tally.Table{}
	all.AddAll(s.decided)
	for _, e := range s.table.Load().entries {
		all.AddAll(e.x.mechanisms())
	}
	for _, x := range s.retired {
		all.AddAll(x.mechanisms())
	}
	return all
}

// mechanisms returns the decisions of the FS; nil: the FS does not count, or is not open yet.
func (x *export) mechanisms() tally.Table {
	if x.trees != nil {
		return x.trees.mechanisms()
	}
	if !x.ready.Load() || x.opt.tally == nil {
		return nil
	}
	return x.opt.tally.Mechanisms()
}
