// Who has locks: hosts and their owners, and bounds of what they and all together can take.

package nlm

import (
	"net/netip"
	"sync"
	"time"
)

// A hostKey is a client: the address that it calls from and the name that it gives itself. A user
// of this machine other than root is a client apart from all others here, so that none releases
// another's locks.
type hostKey struct {
	addr netip.Addr // unmapped
	uid  int64      // of a user of this machine, -1: none in particular
	name string
}

// A host is a client that has locks, waits for some, or had some lately. Its fields are guarded by
// ledger.mu.
type host struct {
	key    hostKey
	owners map[ownerKey]*owner
	used   counts

	idle  time.Time // since when nothing is used
	state int32     // of its status monitor, as it has notified us last; 0: it has not
	there presence
}

// An ownerKey tells the owners of a host apart.
type ownerKey struct {
	object string
	svid   int32
}

// An owner is a process, or what else a client says, that locks are held by.
type owner struct {
	host *host
	key  ownerKey
	refs int // guarded by ledger.mu: holdings, waiters, shares and running calls
}

// counts is how much is used of what is bounded.
type counts struct{ files, locks, waiters, owners int }

// bounds of one client and of all.
type bounds struct {
	hosts     int // all, each known for a time after its last lock
	hostsAt   int // at one address
	one, all  counts
	forgotten time.Duration // how long an idle host is known
}

// within reports whether what is used is less than, or equal to, what can be.
func (c counts) within(most counts) bool {
	return c.files <= most.files && c.locks <= most.locks && c.waiters <= most.waiters && c.owners <= most.owners
}

func (c counts) plus(d counts) counts {
	return counts{c.files + d.files, c.locks + d.locks, c.waiters + d.waiters, c.owners + d.owners}
}

// defaultBounds lets no client take more than half of anything. Each file with locks takes a
// descriptor.
func defaultBounds(files int) bounds {
	all := counts{files: files, locks: 64 << 10, waiters: 4 << 10, owners: 16 << 10}
	return bounds{hosts: 8 << 10, hostsAt: 256, all: all, forgotten: 10 * time.Minute,
		one: counts{all.files / 2, all.locks / 2, all.waiters / 2, all.owners / 2}}
}

// maxHostName is the longest name of a client in bytes, as DNS has it.
const maxHostName = 255

// A ledger is the hosts and what they use. Its lock is innermost: nothing is waited for under it.
type ledger struct {
	bounds bounds // set once

	mu    sync.Mutex // guards all below and the hosts and owners
	hosts map[hostKey]*host
	used  counts
}

func (g *ledger) init(b bounds) {
	g.bounds, g.hosts = b, map[hostKey]*host{}
}

// enter returns the owner of a request, with a reference; nil: there are too many.
func (g *ledger) enter(hk hostKey, ok ownerKey) *owner {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hosts[hk]
	if h == nil {
		if len(hk.name) > maxHostName || len(g.hosts) >= g.bounds.hosts || len(g.at(hk.addr)) >= g.bounds.hostsAt {
			return nil
		}
		h = &host{key: hk, owners: map[ownerKey]*owner{}, idle: time.Now()}
		g.hosts[hk] = h
	}
	h.calls()
	o := h.owners[ok]
	if o == nil {
		if !g.take(h, counts{owners: 1}) {
			return nil
		}
		o = &owner{host: h, key: ok}
		h.owners[ok] = o
	}
	o.refs++
	return o
}

// calls notes that a client is there.
func (h *host) calls() { h.there.silent, h.there.called = time.Time{}, time.Now() }

// known is enter of an owner that has something; nil: it has nothing.
func (g *ledger) known(hk hostKey, ok ownerKey) *owner {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hosts[hk]
	if h == nil {
		return nil
	}
	h.calls()
	o := h.owners[ok]
	if o != nil {
		o.refs++
	}
	return o
}

// leave gives n references back. An owner without any is forgotten.
func (g *ledger) leave(o *owner, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.refs -= n; o.refs > 0 {
		return
	}
	delete(o.host.owners, o.key)
	g.give(o.host, counts{owners: 1})
}

// take has h use more, and reports whether it can.
func (g *ledger) take(h *host, d counts) bool {
	one, all := h.used.plus(d), g.used.plus(d)
	if !one.within(g.bounds.one) || !all.within(g.bounds.all) {
		return false
	}
	h.used, g.used = one, all
	return true
}

func (g *ledger) give(h *host, d counts) {
	minus := counts{-d.files, -d.locks, -d.waiters, -d.owners}
	h.used, g.used = h.used.plus(minus), g.used.plus(minus)
	if h.isIdle() {
		h.idle = time.Now()
	}
}

// isIdle reports whether a host has nothing. A file that it was the first to lock, and others have
// locks of, is not its any more.
func (h *host) isIdle() bool { return len(h.owners) == 0 }

// charge has an owner with a reference use more, and reports whether it can; each lock and waiter
// is one more reference.
func (g *ledger) charge(o *owner, d counts) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.take(o.host, d) {
		return false
	}
	o.refs += d.locks + d.waiters
	return true
}

// credit is the opposite of charge.
func (g *ledger) credit(o *owner, d counts) {
	g.mu.Lock()
	g.give(o.host, d)
	g.mu.Unlock()
	g.leave(o, d.locks+d.waiters)
}

// chargeFile has a host use a file more, and reports whether it can.
func (g *ledger) chargeFile(h *host) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take(h, counts{files: 1})
}

// creditFile is the opposite of chargeFile.
func (g *ledger) creditFile(h *host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.give(h, counts{files: 1})
}

// sweep drops the hosts that have used nothing for a time, and returns those that are left.
func (g *ledger) sweep(now time.Time) (left map[hostKey]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left = map[hostKey]bool{}
	for k, h := range g.hosts {
		if h.isIdle() && now.Sub(h.idle) >= g.bounds.forgotten {
			delete(g.hosts, k)
		} else {
			left[k] = true
		}
	}
	return left
}

// at returns the hosts at an address. mu is held.
func (g *ledger) at(addr netip.Addr) (found []*host) {
	for k, h := range g.hosts {
		if k.addr == addr {
			found = append(found, h)
		}
	}
	return found
}

// hostsAt returns the hosts at an address.
func (g *ledger) hostsAt(addr netip.Addr) []*host {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at(addr)
}

// notified takes note of the state that a host says it has, and reports whether that is news.
func (g *ledger) notified(h *host, state int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	news := h.state != state
	h.state = state
	return news
}
