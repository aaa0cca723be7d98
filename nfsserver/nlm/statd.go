// The NSM program: clients report their restarts over TCP, RDMA and UDP.

package nlm

import (
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// statProgram is NSM version 1. Its procedures for a lock manager on the same host monitor nothing,
// because ours does not use them.
func (s *Service) statProgram() *transport.Program {
	refuse := func(c *transport.Call) error {
		res := nsm.StatRes{Result: nsm.Fail, State: s.monitor.number()}
		res.EncodeXDR(c.Res)
		return nil
	}
	state := func(c *transport.Call) error {
		c.Res.Int32(s.monitor.number())
		return nil
	}
	procs := []transport.Procedure{
		nsm.ProcNull:     {Name: "NULL", Run: null, Inline: true, Idempotent: true},
		nsm.ProcStat:     {Name: "STAT", Run: refuse, Idempotent: true},
		nsm.ProcMon:      {Name: "MON", Run: refuse, Idempotent: true},
		nsm.ProcUnmon:    {Name: "UNMON", Run: state, Idempotent: true},
		nsm.ProcUnmonAll: {Name: "UNMON_ALL", Run: state, Idempotent: true},
		nsm.ProcSimu:     {Name: "SIMU_CRASH", Run: null, Idempotent: true},
		nsm.ProcNotify:   {Name: "NOTIFY", Run: s.runNotify, Idempotent: true},
	}
	return &transport.Program{Name: "nsm", Number: nsm.Program, Version: nsm.Version, Procs: procs}
}

// runNotify adapts SM_NOTIFY. A source that is no IP address is ignored.
func (s *Service) runNotify(c *transport.Call) error {
	var a nsm.StatChange
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	if at, err := netip.ParseAddrPort(c.Remote.String()); err == nil {
		s.restarted(at, &a)
	}
	return nil
}

// restarted frees a client's locks after the client reports a restart. A report counts only for its
// source address, and only from a port reserved to root. A repeated report changes nothing, because
// the client may have taken locks since the first report.
func (s *Service) restarted(from netip.AddrPort, a *nsm.StatChange) {
	addr := from.Addr().Unmap()
	hosts := s.ledger.hostsAt(addr)
	if from.Port() >= 1024 {
		s.log.Warn("SM_NOTIFY ignored: its source port is not below 1024, as that of a client's root is", "peer", from)
		return
	}
	var named []*host
	for _, h := range hosts {
		// A status monitor may send its full name where the lock manager sends the first label, and
		// the reverse.
		if strings.EqualFold(firstLabel(h.key.name), firstLabel(string(a.Name))) {
			named = append(named, h)
		}
	}
	if len(named) == 0 {
		if len(hosts) > 1 {
			s.log.Warn("SM_NOTIFY ignored: it names no client that holds locks from its address", "peer", from)
			return
		}
		named = hosts // possibly empty: the record of monitored clients outlives the ledger
	}
	var news []*host
	for _, h := range named {
		if s.ledger.notified(h, a.State) {
			news = append(news, h)
		}
	}
	if len(news) > 0 {
		s.freeHosts(news)
	}
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	delete(s.absent.left, addr) // the client knows about its lost locks
}

// firstLabel returns the part of a host name before the first dot.
func firstLabel(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// udpBudget is the memory for UDP calls in bytes, separate from NFS's.
const udpBudget = 1 << 20

// ServeUDP serves NSM on a UDP socket until Close, because status monitors send notices over UDP.
func (s *Service) ServeUDP(pc *net.UDPConn) error {
	err := s.udp.ServeUDP(pc)
	if errors.Is(err, transport.ErrClosed) {
		return nil
	}
	return err
}
