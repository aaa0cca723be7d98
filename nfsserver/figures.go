// What a Server tells of itself when it is asked: exports, mounts, clients that were refused.

package nfsserver

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Figures are the exports and their clients at one moment.
type Figures struct {
	Exports int // that are served
	Mounts  int // pairs of a client and a directory that MOUNT's list has, 1024 at most
	// Times that the rules of an export were asked about a client and refused it: as none of its
	// clients, or for its port. A connection asks once for each export, and again when the exports
	// have changed.
	RefusedClient, RefusedPort uint64
}

// refusedClients counts the clients that rules refuse.
type refusedClients struct{ client, port atomic.Uint64 }

// Figures returns the figures of this moment.
func (s *Server) Figures() Figures {
	f := Figures{Exports: len(s.table.Load().entries), RefusedClient: s.refused.client.Load(), RefusedPort: s.refused.port.Load()}
	s.mounts.mu.Lock()
	defer s.mounts.mu.Unlock()
	f.Mounts = len(s.mounts.rows)
	return f
}

// Figures are those of the transport: connections, refusals, repeated calls.
func (v *Service) Figures() transport.Figures { return v.rpc.Figures() }

// Mechanisms returns the decisions of mechanisms for speed: of all RNICs (rnic.Device.Mechanisms)
// and of the exports (MechanismCounter), those that are closed too. The table is the caller's.
func (v *Service) Mechanisms() tally.Table {
	all := tally.Table{}
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

// mechanisms returns the decisions of the FS; nil: it does not count, or is not open yet.
func (x *export) mechanisms() tally.Table {
	if !x.ready.Load() || x.opt.tally == nil {
		return nil
	}
	return x.opt.tally.Mechanisms()
}
