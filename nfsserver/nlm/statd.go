// The NSM program: clients that tell us that they have started again, over TCP, RDMA and UDP.

package nlm

import (
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// statProgram is NSM version 1. Its procedures for the lock manager of the same host monitor
// nothing: ours needs none of them.
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

// restarted frees the locks of the client that says so. It is believed of itself alone: what calls
// from the address of a client, and from a port that only its root can have. One that says the same
// again has been believed before, and may have locked something since.
func (s *Service) restarted(from netip.AddrPort, a *nsm.StatChange) {
	addr := from.Addr().Unmap()
	hosts := s.ledger.hostsAt(addr)
	if from.Port() >= 1024 {
		s.log.Warn("SM_NOTIFY ignored: its source port is not below 1024, as that of a client's root is", "peer", from)
		return
	}
	var named []*host
	for _, h := range hosts {
		// Its status monitor may say its whole name where its lock manager says the first word, and
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
		named = hosts // or none: what is monitored longer than it is remembered here
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
	delete(s.absent.left, addr) // it knows that it has no locks
}

func firstLabel(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// udpBudget is the memory of the calls over UDP, beside those of NFS.
const udpBudget = 1 << 20

// ServeUDP serves NSM on a UDP socket until Close, since status monitors notify over UDP.
func (s *Service) ServeUDP(pc *net.UDPConn) error {
	err := s.udp.ServeUDP(pc)
	if errors.Is(err, transport.ErrClosed) {
		return nil
	}
	return err
}
