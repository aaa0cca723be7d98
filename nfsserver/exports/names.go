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

// How long an answer is used, how long one is used on until the name service answers, how long a
// look-up may take, how many answers of each table are kept, and how many look-ups for each of them
// run at once: clients choose the addresses, and can have name servers of their own that are slow.
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
// is used while it is looked up again, but not if it has been old for staleAge: the address may
// have another owner by then. All methods may be called at once.
type Names struct {
	// Set once.
	lookup Lookup
	now    func() time.Time

	mu    sync.Mutex // guards all below
	addrs table[string, netip.Addr]
	names table[netip.Addr, string]
}

// A table has the answers to questions of one sort. Those of addresses, which clients choose, take
// nothing from those of hosts, which the exports file names.
type table[K comparable, T any] struct {
	answers map[K]*answer[T]
	running int // look-ups
}

// An answer is what is known of a name or an address; Names.mu guards it.
type answer[T any] struct {
	list  []T // replaced, never changed
	known bool
	busy  bool      // a look-up runs
	renew time.Time // when it is looked up again; it is set by each look-up, with and without an answer
	good  time.Time // when the name service last answered
}

// NewNames returns a Names that asks l; nil: what this machine asks.
func NewNames(l Lookup) *Names {
	if l == nil {
		l = net.DefaultResolver
	}
	return &Names{lookup: l, now: time.Now, addrs: newTable[string, netip.Addr](), names: newTable[netip.Addr, string]()}
}

func newTable[K comparable, T any]() table[K, T] { return table[K, T]{answers: map[K]*answer[T]{}} }

// Addrs are the addresses of a host.
func (n *Names) Addrs(host string) (addrs []netip.Addr, known bool) {
	return ask(n, &n.addrs, host, n.forward)
}

// Names are the names of an address that lead back to it.
func (n *Names) Names(addr netip.Addr) (names []string, known bool) {
	return ask(n, &n.names, addr, n.reverse)
}

// ask returns what is known of key, and has it looked up where that is needed.
func ask[K comparable, T any](n *Names, t *table[K, T], key K, look func(context.Context, K) ([]T, error)) ([]T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := t.answers[key]
	if a == nil {
		if !makeRoom(t.answers) {
			return nil, false // who asks again finds a look-up less under way
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

// makeRoom takes one answer out of a full table.
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

// fetch looks key up and notes the answer.
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
		if _, err := netip.ParseAddr(name); err == nil {
			// An address, which its owner can have a name server give as its own name, and with a
			// zone of any text, leads back to itself without a look-up.
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
