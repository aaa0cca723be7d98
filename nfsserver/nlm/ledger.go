// The accounts of hosts and their owners: references, and bounds for one host and for all.

package nlm

import (
	"net/netip"
	"sync"
	"time"
)

// A hostKey identifies a client: its source address and the name it calls itself. A local user
// other than root is a separate client, so none releases another's locks.
type hostKey struct {
	addr netip.Addr // unmapped
	uid  int64      // of a local user; -1: no particular one
	name string
}

// A host is a client that has, awaits or recently had locks. ledger.mu guards its fields.
type host struct {
	key    hostKey
	owners map[ownerKey]*owner
	used   counts

	idle     time.Time // end of the host's last use
	state    int32     // from its status monitor's last notice; 0: none so far
	presence presence
}

// An ownerKey identifies an owner within its host.
type ownerKey struct {
	object string
	svid   int32
}

// An owner holds locks: a process, or another entity named by the client.
type owner struct {
	host *host
	key  ownerKey
	refs int // guarded by ledger.mu: holdings, waiters, shares and running calls
}

// counts are amounts of bounded resources.
type counts struct{ files, locks, waiters, owners int }

// bounds are the limits for one client and for all.
type bounds struct {
	hosts     int // in total; each is known for a time after its last lock
	hostsAt   int // at one address
	one, all  counts
	forgotten time.Duration // for which an idle host is known
}

// within reports whether no count exceeds its bound.
func (c counts) within(most counts) bool {
	return c.files <= most.files && c.locks <= most.locks && c.waiters <= most.waiters && c.owners <= most.owners
}

func (c counts) plus(d counts) counts {
	return counts{c.files + d.files, c.locks + d.locks, c.waiters + d.waiters, c.owners + d.owners}
}

// defaultBounds lets no client take more than half of any resource. Each file with locks takes a
// descriptor.
func defaultBounds(files int) bounds {
	all := counts{files: files, locks: 64 << 10, waiters: 4 << 10, owners: 16 << 10}
	return bounds{hosts: 8 << 10, hostsAt: 256, all: all, forgotten: 10 * time.Minute,
		one: counts{all.files / 2, all.locks / 2, all.waiters / 2, all.owners / 2}}
}

// maxHostName is the longest client name in bytes, as in DNS.
const maxHostName = 255

// A ledger holds the hosts and their use of resources. Its lock is innermost: no code blocks while
// holding it.
type ledger struct {
	bounds bounds // set once

	mu    sync.Mutex // guards all below and the hosts and owners
	hosts map[hostKey]*host
	used  counts
}

// init prepares the zero value.
func (g *ledger) init(b bounds) {
	g.bounds, g.hosts = b, map[hostKey]*host{}
}

// enter returns a request's owner with a reference, or nil at a bound.
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

// calls records a call at this moment.
func (h *host) calls() { h.presence.silent, h.presence.called = time.Time{}, time.Now() }

// known is enter for an existing owner, or nil.
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

// leave drops n references. An owner without references is forgotten.
func (g *ledger) leave(o *owner, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.refs -= n; o.refs > 0 {
		return
	}
	delete(o.host.owners, o.key)
	g.give(o.host, counts{owners: 1})
}

// take charges d to h if the bounds permit, and reports whether they do. mu is held.
func (g *ledger) take(h *host, d counts) bool {
	one, all := h.used.plus(d), g.used.plus(d)
	if !one.within(g.bounds.one) || !all.within(g.bounds.all) {
		return false
	}
	h.used, g.used = one, all
	return true
}

// give undoes take. A host without owners becomes idle. mu is held.
func (g *ledger) give(h *host, d counts) {
	minus := counts{-d.files, -d.locks, -d.waiters, -d.owners}
	h.used, g.used = h.used.plus(minus), g.used.plus(minus)
	if h.isIdle() {
		h.idle = time.Now()
	}
}

// isIdle reports whether a host holds and awaits nothing. A charge for a file with only others'
// locks does not count.
func (h *host) isIdle() bool { return len(h.owners) == 0 }

// charge charges d to an owner with a reference, and reports whether the bounds permit it. Each
// lock and waiter takes one more reference.
func (g *ledger) charge(o *owner, d counts) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.take(o.host, d) {
		return false
	}
	o.refs += d.locks + d.waiters
	return true
}

// credit undoes charge.
func (g *ledger) credit(o *owner, d counts) {
	g.mu.Lock()
	g.give(o.host, d)
	g.mu.Unlock()
	g.leave(o, d.locks+d.waiters)
}

// chargeFile charges a file to a host, and reports whether the bounds permit it.
func (g *ledger) chargeFile(h *host) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take(h, counts{files: 1})
}

// creditFile undoes chargeFile.
func (g *ledger) creditFile(h *host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.give(h, counts{files: 1})
}

// sweep drops the hosts idle for bounds.forgotten, and returns the remaining ones.
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

// notified records the state number of a host's status monitor, and reports whether it is new.
func (g *ledger) notified(h *host, state int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	news := h.state != state
	h.state = state
	return news
}
