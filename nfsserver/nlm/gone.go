// Clients that went away for good: what they have locked is freed when others wait for it.

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

// NLM has no lease: a client keeps its locks until it says that it has started again, and one whose
// machine does not start again keeps others waiting for good. So while somebody asks for what a
// client has, its machine is asked whether it is up: the port mapper's port answers there, be it by
// a refusal. A machine that has answered when the client took its first lock, and then for
// Options.Gone neither answers, nor has a connection, nor calls, is gone, and its clients' locks
// are freed. One whose packet filter drops the question has never answered, and is never gone. Nor
// is one while nobody is heard: it may be we who are cut off. So who asks for its locks has to be
// heard once it has been silent for that long.
//
// A client that was cut off, and is there again, is told as after a restart of ours (SM_NOTIFY): it
// reclaims its locks, is refused, and so knows that they are lost.

const (
	defaultGone = 10 * time.Minute
	goneEvery   = 30 * time.Second // at the most
	wantedFor   = 2 * time.Minute  // after a request for what a client has; Linux asks again each 30 s
	probeAtOnce = 16
	mostAbsent  = 1 << 10 // addresses that are to be told when they are there again
	mostRounds  = 31      // of tellAbsent between two attempts for one of them: 16 minutes
)

// presence is what is known of whether a client's machine is up. ledger.mu guards it.
type presence struct {
	asked, answered bool      // ever
	silent          time.Time // since when it does not answer; zero: it does
	looked          time.Time // when it last did not
	wanted          time.Time // when one who asks for what the client has was last heard
	called          time.Time // when the client last called
}

// absence is whom locks were taken from; mu guards it.
type absence struct {
	mu        sync.Mutex
	left      map[netip.Addr]*absent
	news      bool // some are there since our number last changed
	connected func(netip.Addr) bool
}

// An absent is an address that is to be told. Each time that this fails, as where no status monitor
// runs there, it waits for longer; but one that was not there is told when it has a connection
// again.
type absent struct {
	since  time.Time
	rounds int  // to be left out
	wait   int  // how many are after the next failure
	there  bool // the last attempt found its machine, but nobody who takes the notice
}

// Connected has an address with a connection of NFS count as there.
func (s *Service) Connected(is func(netip.Addr) bool) {
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	s.absent.connected = is
}

// probe reports whether a machine answers.
func (s *Service) probe(addr netip.Addr) bool {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(rpcbind.Port)))
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// meet asks the machine of a client that has its first lock.
func (s *Service) meet(h *host) {
	g := &s.ledger
	g.mu.Lock()
	first := !h.there.asked
	h.there.asked = true
	g.mu.Unlock()
	if !first || s.opts.Gone < 0 {
		return
	}
	select {
	case s.probes <- struct{}{}:
	default: // it is asked with its next lock
		g.mu.Lock()
		h.there.asked = false
		g.mu.Unlock()
		return
	}
	s.work.Go(func() {
		defer func() { <-s.probes }()
		if s.reach(h.key.addr) {
			g.mu.Lock()
			defer g.mu.Unlock()
			h.there.answered = true
		}
	})
}

// wants notes that somebody who asks for what a client has was heard.
func (g *ledger) wants(h *host, heard time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if heard.After(h.there.wanted) {
		h.there.wanted = heard
	}
}

// wantedHosts are the clients that others have asked for locks of lately.
func (g *ledger) wantedHosts(now time.Time) (list []*host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.hosts {
		if !h.isIdle() && !h.there.wanted.IsZero() && now.Sub(h.there.wanted) < wantedFor {
			list = append(list, h)
		}
	}
	return list
}

// found notes whether a client's machine is there, and reports whether the client is gone. Its
// silence goes on where it was asked after since.
func (g *ledger) found(h *host, there bool, now, since time.Time, gone time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &h.there
	switch {
	case there:
		p.answered, p.silent = true, time.Time{}
	case !p.answered:
	case p.silent.IsZero(), p.looked.Before(since): // it may have been there in between
		p.silent, p.looked = now, now
	default:
		p.looked = now
		return now.Sub(p.silent) >= gone && p.wanted.Sub(p.silent) >= gone
	}
	return false
}

// goneLoop looks for clients that are gone.
func (s *Service) goneLoop() { s.repeat(lookEvery(s.opts.Gone), s.lookForGone) }

// lookEvery is how often it looks: who is to be gone after a short time is not waited for much
// longer.
func lookEvery(gone time.Duration) time.Duration { return min(goneEvery, max(gone/4, time.Second)) }

// backLoop tells those that were gone when they are there again. Many that are not keep nobody
// waiting who asks for locks.
func (s *Service) backLoop() { s.repeat(goneEvery, s.tellAbsent) }

// repeat does work until Close.
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

// wantWaiting notes the clients whose locks others wait for, and when those were heard: Linux asks
// again every 30 s. One that does not is asked whether it is up. That it has a connection is no
// proof, as it goes on for minutes when we are cut off.
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

func (s *Service) wantAll(holders map[*host]bool, heard time.Time) {
	for h := range holders {
		s.ledger.wants(h, heard)
	}
}

// lastCall is when a client last called.
func (g *ledger) lastCall(h *host) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return h.there.called
}

// lookForGone asks the machines of clients that others wait for, and frees the locks of those that
// are gone.
func (s *Service) lookForGone() {
	s.wantWaiting()
	since := s.looked.Add(-wantedFor) // not all are asked each time
	s.looked = time.Now()
	hosts := s.ledger.wantedHosts(s.looked)
	there := make([]bool, len(hosts))
	s.each(len(hosts), func(i int) { there[i] = s.isThere(hosts[i].key.addr) })
	for i, h := range hosts {
		if s.ledger.found(h, there[i], time.Now(), since, s.opts.Gone) && s.ctx.Err() == nil {
			s.bury(h)
		}
	}
}

// each does work n times, some of it at once.
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

func (s *Service) isThere(addr netip.Addr) bool { return s.isConnected(addr) || s.reach(addr) }

func (s *Service) isConnected(addr netip.Addr) bool {
	s.absent.mu.Lock()
	connected := s.absent.connected
	s.absent.mu.Unlock()
	return connected != nil && connected(addr)
}

// bury frees what a client has.
func (s *Service) bury(h *host) {
	n := s.free(func(*file) bool { return true }, func(o *host) bool { return o == h })
	if n == 0 {
		return
	}
	s.log.Warn("locks lost: others wait for them, and their client does not answer", "client", h.key.name, "peer", h.key.addr, "locks", n)
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	s.absent.add(h.key.addr, time.Now())
}

// add notes one that is to be told. Where there are too many, the one that has been away for
// longest is not expected any more. mu is held.
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

// due begins a round: it returns whom to tell, and since when each is absent; and those who wait,
// but are told if they are there. mu is held.
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

// told notes how an attempt has ended. One that has lost locks since is to be told of that. mu is
// held.
func (a *absence) told(addr netip.Addr, since time.Time, there, done bool) {
	switch e := a.left[addr]; {
	case e == nil || !e.since.Equal(since):
	case done:
		delete(a.left, addr)
	default:
		e.there, e.rounds = there, e.wait
		e.wait = min(2*e.wait+1, mostRounds)
	}
}

// tellAbsent tells those who are there again that we have started again, which for their locks is
// the same.
func (s *Service) tellAbsent() {
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
		s.absent.told(list[i], since[list[i]], back[i], done)
	})
}

// renew changes our number where clients have lost locks since it was changed: status monitors pass
// on what is news to them alone. One that is told in vain, since no status monitor answers there,
// needs no further number.
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

// advance makes our number that of a later start. Those who are not told of it do not mind.
func (m *monitor) advance() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state += 2
	return m.save()
}

// wanting are the clients that wait, and whose locks are in their way.
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
