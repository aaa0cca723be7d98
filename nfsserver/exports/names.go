// Host names: looked up in the background, cached for a while, bounded in number.

package exports

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Limits of look-ups. Clients choose the addresses, and their name servers may be slow.
const (
	nameAge     = time.Minute      // how long a result is used
	failedAge   = 10 * time.Second // the wait after a failed look-up
	staleAge    = 10 * time.Minute // how long an old result is used while look-ups fail
	lookupWait  = 5 * time.Second  // how long a look-up may take
	mostNames   = 4096             // results in a table
	lookupsMost = 16               // concurrent look-ups for a table
	namesMost   = 8                // names of an address
)

// A Lookup is a name service; net.Resolver is one.
type Lookup interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Names is a Resolver that queries a name service and caches the results. An address's name counts
// only if the name resolves back to the address, because an address's owner can give it any name.
// An old result is used during the next look-up, but no longer than staleAge, because the address
// may then have another owner. The methods of Names may be called concurrently.
type Names struct {
	// Set once.
	lookup Lookup
	now    func() time.Time

	mu    sync.Mutex // guards all below
	addrs table[string, netip.Addr]
	names table[netip.Addr, string]
}

// A table holds the results for one kind of query. Addresses, chosen by clients, have another table
// than hosts, named by the exports file, so neither displaces the other.
type table[K comparable, T any] struct {
	answers map[K]*answer[T]
	running int // running look-ups
}

// An answer is the cached result for a name or an address; Names.mu guards it.
type answer[T any] struct {
	list  []T // replaced, never modified
	known bool
	busy  bool      // a look-up is running
	renew time.Time // when to look it up again; set after each look-up, also a failed one
	good  time.Time // time of the name service's last answer
}

// NewNames returns a Names that queries l; nil: this machine's resolver.
func NewNames(l Lookup) *Names {
	if l == nil {
		l = net.DefaultResolver
	}
	return &Names{lookup: l, now: time.Now, addrs: newTable[string, netip.Addr](), names: newTable[netip.Addr, string]()}
}

func newTable[K comparable, T any]() table[K, T] { return table[K, T]{answers: map[K]*answer[T]{}} }

// Addrs returns a host's addresses.
func (n *Names) Addrs(host string) (addrs []netip.Addr, known bool) {
	return ask(n, &n.addrs, host, n.forward)
}

// Names returns those names of addr that resolve back to addr.
func (n *Names) Names(addr netip.Addr) (names []string, known bool) {
	return ask(n, &n.names, addr, n.reverse)
}

// ask returns the cached result for key, and starts a look-up if one is needed.
func ask[K comparable, T any](n *Names, t *table[K, T], key K, look func(context.Context, K) ([]T, error)) ([]T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := t.answers[key]
	if a == nil {
		if !makeRoom(t.answers) {
			return nil, false // another look-up will have finished by the next attempt
		}
		a = &answer[T]{}
		t.answers[key] = a
	}
	now := n.now()
	if !a.busy && now.After(a.renew) && t.running < lookupsMost {
		a.busy = true
		t.running++
		go fetch(n, t, a, key, look)
	}
	if now.Sub(a.renew) >= staleAge {
		return nil, false
	}
	return a.list, a.known
}

// makeRoom removes one answer from a full table; false: all answers are being looked up.
func makeRoom[K comparable, T any](answers map[K]*answer[T]) bool {
	if len(answers) < mostNames {
		return true
	}
	for key, a := range answers {
		if !a.busy {
			delete(answers, key)
			return true
		}
	}
	return false
}

// fetch looks up key and stores the result.
func fetch[K comparable, T any](n *Names, t *table[K, T], a *answer[T], key K, look func(context.Context, K) ([]T, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupWait)
	defer cancel()
	list, err := look(ctx, key)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	t.running--
	a.busy, a.known, a.renew = false, true, now.Add(nameAge)
	switch {
	case err == nil || isMissing(err):
		a.list, a.good = list, now
	case now.Sub(a.good) >= staleAge:
		a.list = list
	}
	if err != nil {
		a.renew = now.Add(failedAge)
	}
}

// isMissing reports whether an error means that the name does not exist.
func isMissing(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// forward queries the name service for a host's addresses.
func (n *Names) forward(ctx context.Context, host string) ([]netip.Addr, error) {
	return n.lookup.LookupNetIP(ctx, "ip", host)
}

// reverse returns the names that resolve back to addr. It returns an error if a name's look-up
// failed, because that name may resolve back, too.
func (n *Names) reverse(ctx context.Context, addr netip.Addr) (out []string, failed error) {
	names, err := n.lookup.LookupAddr(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), namesMost)] {
		if _, err := netip.ParseAddr(name); err == nil {
			// Skip an address in place of a name. addr's owner can make a name server return one,
			// with a zone of any text, and it would resolve to itself without a look-up.
			continue
		}
		addrs, err := n.lookup.LookupNetIP(ctx, "ip", name)
		switch {
		case contains(addrs, addr):
			out = append(out, strings.ToLower(strings.TrimSuffix(name, ".")))
		case err != nil && !isMissing(err):
			failed = err
		}
	}
	return out, failed
}
