// Notices to the clients of an earlier run: their locks are lost, so they should reclaim them.

package nlm

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// An absent client may come back, so notices are retried for minutes.
const (
	notifyFor     = 10 * time.Minute
	notifyMin     = 2 * time.Second
	notifyMax     = time.Minute
	notifyAtATime = 16
)

// notifyLoop notifies each address until it has answered.
func (s *Service) notifyLoop(lost []hostKey) {
	left := map[netip.Addr]bool{}
	for _, k := range lost {
		left[k.addr] = true
	}
	pause := notifyMin
	for end := time.Now().Add(notifyFor); len(left) > 0 && time.Now().Before(end); pause = min(2*pause, notifyMax) {
		var mu sync.Mutex // guards left
		var round sync.WaitGroup
		room := make(chan struct{}, notifyAtATime)
		for _, addr := range keys(left) {
			room <- struct{}{}
			round.Go(func() {
				defer func() { <-room }()
				if s.notify(addr) == nil {
					mu.Lock()
					delete(left, addr)
					mu.Unlock()
				}
			})
		}
		round.Wait()
		if len(left) == 0 {
			break
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
	s.monitor.noticesEnded()
}

func keys(set map[netip.Addr]bool) (list []netip.Addr) {
	for k := range set {
		list = append(list, k)
	}
	return list
}

// notify reports to a client's status monitor (SM_NOTIFY) that this server has restarted. The
// client knows this server by the name or address in its mount, which the server never receives. So
// notify sends one notice for each possible name.
func (s *Service) notify(addr netip.Addr) error {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	port, err := s.portOf(ctx, addr, nsm.Program, nsm.Version)
	if err != nil {
		return err
	}
	c, err := s.dial(ctx, addr, port)
	if err != nil {
		return err
	}
	defer c.Close()
	names := slices.Clone(s.opts.Names)
	if own := s.ownAddress(addr); own != "" {
		names = append(names, own)
	}
	for _, name := range names {
		p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Name: "SM_NOTIFY"}
		if err := c.Call(ctx, &p, &nsm.StatChange{Name: []byte(name), State: s.monitor.number()}, void{}, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// ownAddress returns this server's address as the client sees it; "": unknown.
func (s *Service) ownAddress(addr netip.Addr) string {
	if s.opts.Local.IsValid() {
		return s.opts.Local.String()
	}
	// Connecting a UDP socket sends nothing.
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return ""
	}
	defer c.Close()
	if own, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return own.AddrPort().Addr().Unmap().String()
	}
	return ""
}
