// Clients that went away for good: what they have locked is freed when others wait for it.

package nlm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"github.com/sirupsen/logrus"
)

// NLM has no lease: a client keeps its locks until it says that it has started again, and one whose machine does not start again keeps
// others waiting for good. So while somebody asks for what a client has, its machine is asked whether it is up: the port mapper's port answers
// there, be it by a refusal. A machine that has answered when the client took its first lock, and then for Options.Gone neither answers, nor has a
// connection, nor calls, is gone, and its clients' locks are freed. One whose packet filter drops the question has never answered, and is never gone.
//
// A client that was cut off, and is there again, is told as after a restart of ours (SM_NOTIFY): it reclaims its locks, is refused, and so
// knows that they are lost.

const (
	defaultGone = 10 * time.Minute
	goneEvery   = 30 * time.Second
	wantedFor   = 2 * time.Minute // after a request for what a client has; Linux asks again each 30 s
	probeAtOnce = 16
	mostAbsent  = 1 << 10 // addresses that are to be told when they are there again
)

// presence is what is known of whether a client's machine is up. ledger.mu guards it.
type presence struct {
	asked, answered bool      // ever
	silent          time.Time // since when it does not answer; zero: it does
	looked          time.Time // when it last did not
	wanted          time.Time // when others last asked for what the client has
	called          time.Time // when the client last called
}

// absence is whom locks were taken from; mu guards it.
type absence struct {
	mu        sync.Mutex
	left      map[netip.Addr]bool
	connected func(netip.Addr) bool
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

// wants notes that somebody has asked for what a client has.
func (g *ledger) wants(h *host, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.there.wanted = now
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

// found notes whether a client's machine is there, and reports whether the client is gone. Its silence goes on where it was asked after since.
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
		return now.Sub(p.silent) >= gone
	}
	return false
}

// goneLoop looks for clients that are gone, and tells those that were when they are there again.
func (s *Service) goneLoop() {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.lookForGone()
			s.tellAbsent()
		}
	}
}

// wantWaiting notes the clients whose locks others wait for. These are to be there themselves, by a call of late or a connection: else it may be
// we who are cut off, and all are silent.
func (s *Service) wantWaiting() {
	for by, holders := range s.waits.wanting() {
		if now := time.Now(); s.ledger.calledSince(by, now.Add(-wantedFor)) || s.isConnected(by.key.addr) {
			for h := range holders {
				s.ledger.wants(h, now)
			}
		}
	}
}

// calledSince reports whether a client has called after a time.
func (g *ledger) calledSince(h *host, since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return h.there.called.After(since)
}

// lookForGone asks the machines of clients that others wait for, and frees the locks of those that are gone.
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
	s.log.Warn("locks lost: others wait for them, and their client does not answer", logrus.Fields{"client": h.key.name, "peer": h.key.addr, "locks": n})
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	if len(s.absent.left) < mostAbsent {
		s.absent.left[h.key.addr] = true
	}
}

// tellAbsent tells those who are there again that we have started again, which for their locks is the same.
func (s *Service) tellAbsent() {
	s.absent.mu.Lock()
	list := keys(s.absent.left)
	s.absent.mu.Unlock()
	back := make([]bool, len(list))
	s.each(len(list), func(i int) { back[i] = s.reach(list[i]) })
	i := 0
	list = slices.DeleteFunc(list, func(netip.Addr) bool { i++; return !back[i-1] })
	if len(list) == 0 || s.ctx.Err() != nil {
		return
	}
	// Status monitors pass on what is news to them alone.
	if err := s.monitor.advance(); err != nil {
		s.log.Warn("clients with locks: "+err.Error(), nil)
		return
	}
	s.each(len(list), func(i int) {
		if s.notify(list[i]) == nil {
			s.absent.mu.Lock()
			delete(s.absent.left, list[i])
			s.absent.mu.Unlock()
		}
	})
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
