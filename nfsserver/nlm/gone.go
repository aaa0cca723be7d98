// Clients gone permanently: their locks are freed when others wait for them.

package nlm

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// NLM has no lease. A client keeps its locks until it reports a restart, so a machine that never
// returns would block others forever. So while others request a client's locks, the server probes
// the client's machine: a machine is up if its port mapper's port accepts or refuses a connection.
//
// A client is gone after Options.Gone without an answered probe, a connection or a call, if its
// machine answered a probe at its first lock. The server then frees the client's locks. If a packet
// filter drops the probes the machine never answers, so it is never gone. A requester must also be
// heard at the end of the client's silence; otherwise this server may be the machine cut off.
//
// A client that was cut off and comes back receives SM_NOTIFY, as after a restart of this server.
// The client reclaims its locks, is refused, and so learns that the locks are lost.

const (
	defaultGone = 10 * time.Minute
	goneEvery   = 30 * time.Second // at most
	wantedFor   = 2 * time.Minute  // after a request for the locks; Linux repeats it each 30 s
	probeAtOnce = 16
	mostAbsent  = 1 << 10 // addresses to notify once their machines are back
	mostRounds  = 31      // rounds of notifyAbsent between two attempts for one address: 16 minutes
)

// presence records whether a client's machine is up. ledger.mu guards it.
type presence struct {
	asked, answered bool      // ever
	silent          time.Time // start of the machine's silence; zero: the machine answers
	looked          time.Time // time of its last failed probe
	wanted          time.Time // when a requester of the client's locks was last heard
	called          time.Time // time of the client's last call
}

// absence holds the addresses with lost locks. mu guards it.
type absence struct {
	mu        sync.Mutex
	left      map[netip.Addr]*absent
	news      bool // addresses were added since the last change of the server's state number
	connected func(netip.Addr) bool
}

// An absent is an address to notify. After each failure, for instance where no status monitor runs,
// the pause doubles. An address whose machine was down is also notified as soon as it has a
// connection again.
type absent struct {
	since  time.Time
	rounds int  // still to skip
	wait   int  // rounds to skip after the next failure
	there  bool // the last attempt reached the machine, but no status monitor took the notice
}

// Connected makes addresses with an NFS connection count as up. is may be called at any time, from
// several goroutines.
func (s *Service) Connected(is func(netip.Addr) bool) {
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	s.absent.connected = is
}

// probe reports whether a machine accepts or refuses a connection to its port mapper.
func (s *Service) probe(addr netip.Addr) bool {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(rpcbind.Port)))
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// probeNew probes a client's machine at its first lock, in the background.
func (s *Service) probeNew(h *host) {
	g := &s.ledger
	g.mu.Lock()
	first := !h.presence.asked
	h.presence.asked = true
	g.mu.Unlock()
	if !first || s.opts.Gone < 0 {
		return
	}
	select {
	case s.probes <- struct{}{}:
	default: // probe at the client's next lock
		g.mu.Lock()
		h.presence.asked = false
		g.mu.Unlock()
		return
	}
	s.work.Go(func() {
		defer func() { <-s.probes }()
		if s.reach(h.key.addr) {
			g.mu.Lock()
			defer g.mu.Unlock()
			h.presence.answered = true
		}
	})
}

// wants records when a requester of h's locks last called or answered.
func (g *ledger) wants(h *host, heard time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if heard.After(h.presence.wanted) {
		h.presence.wanted = heard
	}
}

// wantedHosts returns the clients with locks requested by others within wantedFor.
func (g *ledger) wantedHosts(now time.Time) (list []*host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.hosts {
		if !h.isIdle() && !h.presence.wanted.IsZero() && now.Sub(h.presence.wanted) < wantedFor {
			list = append(list, h)
		}
	}
	return list
}

// probed records a probe's result and reports whether the client is gone. A silence continues only
// if the previous failed probe was at since or later.
func (g *ledger) probed(h *host, there bool, now, since time.Time, gone time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &h.presence
	switch {
	case there:
		p.answered, p.silent = true, time.Time{}
	case !p.answered:
	case p.silent.IsZero(), p.looked.Before(since): // the machine may have answered in between
		p.silent, p.looked = now, now
	default:
		p.looked = now
		return now.Sub(p.silent) >= gone && p.wanted.Sub(p.silent) >= gone
	}
	return false
}

// goneLoop looks for gone clients until Close.
func (s *Service) goneLoop() { s.repeat(lookEvery(s.opts.Gone), s.probeGone) }

// lookEvery returns the interval of goneLoop: a quarter of gone, to exceed a short Options.Gone by
// little.
func lookEvery(gone time.Duration) time.Duration { return min(goneEvery, max(gone/4, time.Second)) }

// backLoop notifies absent clients once they are back. A loop apart from goneLoop keeps many absent
// clients from delaying lock requesters.
func (s *Service) backLoop() { s.repeat(goneEvery, s.notifyAbsent) }

// repeat runs work at each interval until Close.
func (s *Service) repeat(every time.Duration, work func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			work()
		}
	}
}

// wantWaiting finds the clients blocking others, and records when the requesters were last heard,
// because Linux retries every 30 s. A silent requester is probed. Its connection is no proof,
// because a connection survives for minutes when this server is cut off.
func (s *Service) wantWaiting() {
	now, wanting := time.Now(), s.waits.wanting()
	var quiet []*host
	for by, holders := range wanting {
		at := s.ledger.lastCall(by)
		if now.Sub(at) >= wantedFor {
			quiet = append(quiet, by)
		}
		s.wantAll(holders, at)
	}
	s.each(len(quiet), func(i int) {
		if s.reach(quiet[i].key.addr) {
			s.wantAll(wanting[quiet[i]], now)
		}
	})
}

// wantAll records the time for all clients blocking one requester.
func (s *Service) wantAll(holders map[*host]bool, heard time.Time) {
	for h := range holders {
		s.ledger.wants(h, heard)
	}
}

// lastCall returns the time of a client's last call.
func (g *ledger) lastCall(h *host) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return h.presence.called
}

// probeGone probes the clients blocking others, and frees the gone clients' locks.
func (s *Service) probeGone() {
	s.wantWaiting()
	since := s.looked.Add(-wantedFor) // one round may skip hosts
	s.looked = time.Now()
	hosts := s.ledger.wantedHosts(s.looked)
	there := make([]bool, len(hosts))
	s.each(len(hosts), func(i int) { there[i] = s.isThere(hosts[i].key.addr) })
	for i, h := range hosts {
		if s.ledger.probed(h, there[i], time.Now(), since, s.opts.Gone) && s.ctx.Err() == nil {
			s.freeGone(h)
		}
	}
}

// each runs work n times, at most probeAtOnce at a time.
func (s *Service) each(n int, work func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		s.probes <- struct{}{}
		all.Go(func() {
			defer func() { <-s.probes }()
			work(i)
		})
	}
	all.Wait()
}

// isThere reports whether a machine is up. A machine with a connection needs no probe.
func (s *Service) isThere(addr netip.Addr) bool { return s.isConnected(addr) || s.reach(addr) }

// isConnected asks the callback of Connected, without holding a lock.
func (s *Service) isConnected(addr netip.Addr) bool {
	s.absent.mu.Lock()
	connected := s.absent.connected
	s.absent.mu.Unlock()
	return connected != nil && connected(addr)
}

// freeGone frees the locks of a gone client, and queues the notice.
func (s *Service) freeGone(h *host) {
	n := s.free(func(*file) bool { return true }, func(o *host) bool { return o == h })
	if n == 0 {
		return
	}
	s.log.Warn("locks lost: others wait for them, and their client does not answer", "client", h.key.name, "peer", h.key.addr, "locks", n)
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	s.absent.add(h.key.addr, time.Now())
}

// add records an address to notify. Beyond mostAbsent it drops the address absent longest. mu is
// held.
func (a *absence) add(addr netip.Addr, now time.Time) {
	a.left[addr], a.news = &absent{since: now}, true
	if len(a.left) <= mostAbsent {
		return
	}
	first := addr
	for other, e := range a.left {
		if e.since.Before(a.left[first].since) {
			first = other
		}
	}
	delete(a.left, first)
}

// due begins a round. now are the addresses to notify, with the start of their absence; perhaps are
// the addresses still pausing, to notify only if they have a connection. mu is held.
func (a *absence) due() (now, perhaps map[netip.Addr]time.Time) {
	now, perhaps = map[netip.Addr]time.Time{}, map[netip.Addr]time.Time{}
	for addr, e := range a.left {
		switch e.rounds--; {
		case e.rounds < 0:
			now[addr] = e.since
		case !e.there:
			perhaps[addr] = e.since
		}
	}
	return now, perhaps
}

// attempted records an attempt's result. An address that lost locks again meanwhile (another since)
// stays. mu is held.
func (a *absence) attempted(addr netip.Addr, since time.Time, there, done bool) {
	switch e := a.left[addr]; {
	case e == nil || !e.since.Equal(since):
	case done:
		delete(a.left, addr)
	default:
		e.there, e.rounds = there, e.wait
		e.wait = min(2*e.wait+1, mostRounds)
	}
}

// notifyAbsent notifies returned clients of a restart, because lost locks have the same effect.
func (s *Service) notifyAbsent() {
	s.absent.mu.Lock()
	since, perhaps := s.absent.due()
	s.absent.mu.Unlock()
	for addr, at := range perhaps {
		if s.isConnected(addr) {
			since[addr] = at
		}
	}
	list := slices.Collect(maps.Keys(since))
	back := make([]bool, len(list))
	s.each(len(list), func(i int) { back[i] = s.reach(list[i]) })
	if s.ctx.Err() != nil {
		return
	}
	var err error
	if slices.Contains(back, true) {
		if err = s.renew(); err != nil {
			s.log.Warn("clients with locks cannot be kept", "error", err)
		}
	}
	s.each(len(list), func(i int) {
		done := back[i] && err == nil && s.notify(list[i]) == nil
		s.absent.mu.Lock()
		defer s.absent.mu.Unlock()
		s.absent.attempted(list[i], since[list[i]], back[i], done)
	})
}

// renew advances the server's state number if clients have lost locks since its last change,
// because status monitors pass on only a new number. An address where no status monitor answers
// causes no further change.
func (s *Service) renew() error {
	s.absent.mu.Lock()
	news := s.absent.news
	s.absent.news = false
	s.absent.mu.Unlock()
	if !news {
		return nil
	}
	err := s.monitor.advance()
	if err != nil {
		s.absent.mu.Lock()
		defer s.absent.mu.Unlock()
		s.absent.news = true
	}
	return err
}

// advance raises the state number, as a later start would. Clients without a notice are not
// affected.
func (m *monitor) advance() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state += 2
	return m.save()
}

// wanting returns the waiting clients, each with the clients blocking it.
func (g *waitGraph) wanting() map[*host]map[*host]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	list, looks := map[*host]map[*host]bool{}, maxLooks
	for o, all := range g.waits {
		for _, w := range all {
			if looks -= len(w.file.locks); looks < 0 {
				return list
			}
			if h := w.file.locks.conflict(o, w.span, w.exclusive); h != nil && h.owner.host != o.host {
				if list[o.host] == nil {
					list[o.host] = map[*host]bool{}
				}
				list[o.host][h.owner.host] = true
			}
		}
	}
	return list
}
