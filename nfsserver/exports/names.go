// Host names: looked up beside the calls, kept for a while, bounded in number.

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

// How long an answer is used, how long one is used on while the name service does not answer, how
// long a look-up may take, how many answers are kept, and how many look-ups run at once: clients
// choose the addresses.
const (
	nameAge     = time.Minute
	failedAge   = 10 * time.Second
	staleAge    = 10 * time.Minute
	lookupWait  = 5 * time.Second
	mostNames   = 4096
	lookupsMost = 16
	namesMost   = 8 // of one address
)

// A Lookup is a name service; net.Resolver is one.
type Lookup interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Names is a Resolver that asks a name service and remembers. A name of an address counts only if
// it leads back to that address, as anybody can give his addresses any name. An answer that is old
// is used once more while it is looked up again. All methods may be called at once.
type Names struct {
	// Set once.
	lookup Lookup
	now    func() time.Time

	mu      sync.Mutex // guards all below
	addrs   map[string]*answer[netip.Addr]
	names   map[netip.Addr]*answer[string]
	running int
}

// An answer is what is known of a name or an address; Names.mu guards it.
type answer[T any] struct {
	list  []T // replaced, never changed
	known bool
	busy  bool      // a look-up runs
	renew time.Time // when it is looked up again
	good  time.Time // when the name service last answered
}

// NewNames returns a Names that asks l; nil: what this machine asks.
func NewNames(l Lookup) *Names {
	if l == nil {
		l = net.DefaultResolver
	}
	return &Names{lookup: l, now: time.Now, addrs: map[string]*answer[netip.Addr]{}, names: map[netip.Addr]*answer[string]{}}
}

// Addrs are the addresses of a host.
func (n *Names) Addrs(host string) (addrs []netip.Addr, known bool) {
	return ask(n, n.addrs, host, n.forward)
}

// Names are the names of an address that lead back to it.
func (n *Names) Names(addr netip.Addr) (names []string, known bool) {
	return ask(n, n.names, addr, n.reverse)
}

// ask returns what is known of key, and has it looked up where that is needed.
func ask[K comparable, T any](n *Names, table map[K]*answer[T], key K, look func(context.Context, K) ([]T, error)) ([]T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := table[key]
	if a == nil {
		if !makeRoom(table) {
			return nil, false // who asks again finds a look-up less under way
		}
		a = &answer[T]{}
		table[key] = a
	}
	if !a.busy && n.now().After(a.renew) && n.running < lookupsMost {
		a.busy = true
		n.running++
		go fetch(n, a, key, look)
	}
	return a.list, a.known
}

// makeRoom takes one answer out of a full table.
func makeRoom[K comparable, T any](table map[K]*answer[T]) bool {
	if len(table) < mostNames {
		return true
	}
	for key, a := range table {
		if !a.busy {
			delete(table, key)
			return true
		}
	}
	return false
}

// fetch looks key up and notes the answer.
func fetch[K comparable, T any](n *Names, a *answer[T], key K, look func(context.Context, K) ([]T, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupWait)
	defer cancel()
	list, err := look(ctx, key)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.running--
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

// isMissing reports whether an error is the answer that there is no such name.
func isMissing(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

func (n *Names) forward(ctx context.Context, host string) ([]netip.Addr, error) {
	return n.lookup.LookupNetIP(ctx, "ip", host)
}

// reverse returns the names that lead back. An error stands for those that may do so.
func (n *Names) reverse(ctx context.Context, addr netip.Addr) (out []string, failed error) {
	names, err := n.lookup.LookupAddr(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), namesMost)] {
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
