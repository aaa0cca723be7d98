// Which client an address matches, and where names come from.

package exports

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A zone is a name service in memory.
type zone struct {
	mu      sync.Mutex
	addrs   map[string][]string
	names   map[string][]string
	asked   int
	err     error
	blocked chan struct{} // replies wait until it is closed; nil: replies come at once
}

func (z *zone) answer(ctx context.Context, table map[string][]string, key string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	if z.blocked != nil {
		blocked := z.blocked
		z.mu.Unlock()
		select {
		case <-blocked:
		case <-ctx.Done():
		}
		z.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if z.err != nil {
		return nil, z.err
	}
	if len(table[key]) == 0 {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return table[key], nil
}

func (z *zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return z.answer(ctx, z.names, addr)
}

func (z *zone) LookupNetIP(ctx context.Context, _, host string) (out []netip.Addr, err error) {
	list, err := z.answer(ctx, z.addrs, strings.ToLower(strings.TrimSuffix(host, ".")))
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, err
}

// one returns the only export in a text.
func one(t *testing.T, text string) *Export {
	t.Helper()
	f, err := Parse("f", []byte(text))
	if err != nil || len(f.Exports) != 1 {
		t.Fatal(err)
	}
	return f.Exports[0]
}

func TestMatchTakesTheFirstOfTheMostSpecific(t *testing.T) {
	z := &zone{addrs: map[string][]string{"pc1": {"10.0.0.1"}, "pc1.x.org": {"10.0.0.1", "2001:db8::1"}, "pc2.x.org": {"10.0.0.2"}, "liar.x.org": {"10.9.9.9"},
		"mapped.x.org": {"::ffff:10.0.0.5"}, "zoned.x.org": {"fe80::5%lo"}},
		names: map[string][]string{"10.0.0.1": {"PC1.x.org."}, "10.0.0.2": {"pc2.x.org."}, "10.0.0.3": {"liar.x.org."}, "2001:db8::1": {"pc1.x.org."},
			"10.0.0.5": {"mapped.x.org."}}}
	for _, c := range []struct{ text, addr, want string }{
		{"/a * *.x.org 10.0.0.0/8 10.0.0.1", "10.0.0.1", "10.0.0.1"},
		{"/a * *.x.org 10.0.0.0/8 pc1", "10.0.0.1", "pc1"},
		{"/a * *.x.org 10.0.0.0/8 10.0.0.1 pc1", "10.0.0.1", "10.0.0.1"},
		{"/a * *.x.org 10.0.0.0/8 10.0.0.1", "10.0.0.2", "10.0.0.0/8"},
		// of several clients of the same kind, the first in the file
		{"/a 10.0.0.0/8 10.0.0.0/24", "10.0.0.2", "10.0.0.0/8"},
		{"/a 10.0.0.0/24 10.0.0.0/8", "10.0.0.2", "10.0.0.0/24"},
		{"/a * *.x.org", "10.0.0.2", "*.x.org"},
		{"/a * pc[2-3].x.org", "10.0.0.2", "pc[2-3].x.org"},
		{"/a * pc[2-3].x.org", "10.0.0.1", "*"},
		{"/a * PC?.X.ORG", "10.0.0.1", "PC?.X.ORG"},
		{"/a *.x.org", "10.0.0.3", ""}, // its name does not resolve back to the address
		{"/a *.x.org", "10.0.0.4", ""},
		{"/a *.x.org", "2001:db8::1", "*.x.org"},
		{"/a 2001:db8::/32 *", "2001:db8::1", "2001:db8::/32"},
		{"/a fe80::/10", "fe80::1%lo", "fe80::/10"},
		// name services may return IPv4 addresses as IPv6 addresses
		{"/a mapped.x.org", "10.0.0.5", "mapped.x.org"},
		{"/a m*.x.org", "10.0.0.5", "m*.x.org"},
		{"/a zoned.x.org", "fe80::5", "zoned.x.org"},
		{"/a 192.168.4.0/255.255.252.0", "192.168.7.9", "192.168.4.0/255.255.252.0"},
		{"/a 192.168.4.0/255.255.252.0", "192.168.8.1", ""},
		{"/a 0.0.0.0/0", "::1", ""},
		{"/a nothere *", "10.0.0.1", "*"},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, names := one(t, c.text), NewNames(z)
			addr := netip.MustParseAddr(c.addr)
			m := x.Match(addr, names)
			for m.Pending {
				synctest.Wait()
				m = x.Match(addr, names)
			}
			got := ""
			if m.Client != nil {
				got = m.Client.Spec
			}
			if got != c.want {
				t.Errorf("%s from %s: %q, want %q", c.text, c.addr, got, c.want)
			}
		})
	}
}

// TestNamesNeverBlock: while the name service is silent the result is pending; after the timeout it
// is decided.
func TestNamesNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{blocked: make(chan struct{})}
		x, names := one(t, "/a *.x.org(rw) *(ro)"), NewNames(z)
		begin := time.Now()
		x.Match(netip.MustParseAddr("10.0.0.1"), names)
		synctest.Wait()
		m := x.Match(netip.MustParseAddr("10.0.0.1"), names)
		must.Equal(t, "the answer is open", m, Match{Pending: true, ByName: true})
		must.Equal(t, "time that it took", time.Since(begin), 0)
		synctest.Wait()
		if z.asked != 1 {
			t.Errorf("%d look-ups of one name at once, want 1", z.asked)
		}
		time.Sleep(lookupWait)
		synctest.Wait()
		m = x.Match(netip.MustParseAddr("10.0.0.1"), names)
		must.Equal(t, "the answer is open", m.Pending, false)
		must.Equal(t, "client", m.Client, &x.Clients[1])
	})
}

// TestNamesAreRenewed: a result is used for nameAge. While the name service fails, the old result
// stays in use, but not forever.
func TestNamesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addrs: map[string][]string{"pc": {"10.0.0.1"}}}
		names := NewNames(z)
		get := func() string {
			names.Addrs("pc")
			synctest.Wait()
			list, known := names.Addrs("pc")
			return fmt.Sprint(list, known)
		}
		step := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			if got := get(); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		step(0, "[10.0.0.1] true")
		z.addrs["pc"] = []string{"10.0.0.2"}
		step(nameAge, "[10.0.0.1] true")
		step(time.Second, "[10.0.0.2] true")
		z.err = context.DeadlineExceeded
		step(nameAge+time.Second, "[10.0.0.2] true")
		step(staleAge, "[] true")
		z.err = nil
		step(failedAge+time.Second, "[10.0.0.2] true")
		delete(z.addrs, "pc")
		step(nameAge+time.Second, "[] true") // the name is known not to exist
	})
}

// TestOldNamesAreNotUsed: a result unused for long is not used, because the address may have
// another owner. Until the next look-up ends, the result is pending.
func TestOldNamesAreNotUsed(t *testing.T) {
	for _, c := range []struct {
		idle time.Duration
		want string
	}{
		{nameAge, "pc"}, // used, and renewed in the background
		{nameAge + staleAge - time.Second, "pc"},
		{nameAge + staleAge, "pending"},
		{24 * time.Hour, "pending"},
	} {
		synctest.Test(t, func(t *testing.T) {
			z := &zone{addrs: map[string][]string{"pc": {"10.0.0.1"}}}
			x, names, addr := one(t, "/a pc(rw) *(ro)"), NewNames(z), netip.MustParseAddr("10.0.0.1")
			x.Match(addr, names)
			synctest.Wait()
			z.addrs["pc"] = []string{"10.0.0.2"}
			time.Sleep(c.idle)
			got := "pending"
			if m := x.Match(addr, names); m.Client != nil {
				got = m.Client.Spec
			}
			if got != c.want {
				t.Errorf("after %v: %s, want %s", c.idle, got, c.want)
			}
			synctest.Wait()
			x.Match(addr, names)
			synctest.Wait()
			if c.idle > nameAge {
				must.Equal(t, "client after a new answer", x.Match(addr, names).Client, &x.Clients[1])
			}
		})
	}
}

// A literalZone replies as net.Resolver does: a name that is an address resolves to itself,
// including its zone.
type literalZone struct{ *zone }

func (z *literalZone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return z.zone.LookupNetIP(ctx, network, host)
}

// TestNamesThatAreAddresses: the owner of an address cannot give it an address as its name, so that
// the name fits a pattern.
func TestNamesThatAreAddresses(t *testing.T) {
	for _, c := range []struct{ addr, name, pattern string }{
		{"2001:db8::66", "2001:db8::66%pc1.x.org", "*.x.org"},
		{"10.0.0.66", "10.0.0.66", "*.*"},
		{"10.0.0.66", "::ffff:10.0.0.66%a.x.org", "*.x.org"},
	} {
		synctest.Test(t, func(t *testing.T) {
			names := NewNames(&literalZone{&zone{names: map[string][]string{c.addr: {c.name}}}})
			x, addr := one(t, "/a "+c.pattern), netip.MustParseAddr(c.addr)
			x.Match(addr, names)
			synctest.Wait()
			m := x.Match(addr, names)
			if m.Pending {
				t.Fatalf("%s: pending, want an answer", c.name)
			}
			if m.Client != nil {
				t.Errorf("%s is %s by the name %q, want no client", c.addr, m.Client.Spec, c.name)
			}
		})
	}
}

// TestHostsAreAskedTogether: each attempt by a client looks up lookupsMost hosts concurrently, not
// one after another.
func TestHostsAreAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addrs: map[string][]string{}}
		const hosts = 5 * lookupsMost
		text := "/a"
		for i := range hosts {
			name := fmt.Sprintf("pc%d", i)
			text, z.addrs[name] = text+" "+name, []string{fmt.Sprintf("10.0.0.%d", i)}
		}
		x, names, tries := one(t, text), NewNames(z), 0
		m := Match{Pending: true}
		for ; m.Pending; tries++ {
			m = x.Match(netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", hosts-1)), names)
			synctest.Wait()
		}
		if m.Client == nil {
			t.Fatal("no client, want the last")
		}
		if want := hosts/lookupsMost + 1; tries > want {
			t.Errorf("%d attempts for %d hosts, want at most %d", tries, hosts, want)
		}
	})
}

// TestAddressesTakeNoLookUpsFromHosts: clients whose name servers do not respond do not delay
// look-ups of hosts in the exports file.
func TestAddressesTakeNoLookUpsFromHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addrs: map[string][]string{"pc": {"10.0.0.1"}}, blocked: make(chan struct{})}
		names := NewNames(z)
		for i := range 2 * lookupsMost {
			names.Names(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
		}
		synctest.Wait()
		z.mu.Lock()
		blocked := z.blocked
		z.blocked = nil
		z.mu.Unlock()
		names.Addrs("pc")
		synctest.Wait()
		if _, known := names.Addrs("pc"); !known {
			t.Error("pc is not known, while the names of addresses are looked up")
		}
		close(blocked)
	})
}

// A halfZone fails to look up the addresses of some names.
type halfZone struct {
	*zone
	silent map[string]bool
}

func (z *halfZone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if z.silent[host] {
		return nil, context.DeadlineExceeded
	}
	return z.zone.LookupNetIP(ctx, network, host)
}

// TestNamesThatMayLeadBack: a failed look-up of one name does not change a known result. Other
// names that resolve back to the address are used at once.
func TestNamesThatMayLeadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("10.0.0.1")
		z := &halfZone{&zone{names: map[string][]string{"10.0.0.1": {"a.org", "b.org", "none.org"}},
			addrs: map[string][]string{"a.org": {"10.0.0.1"}, "b.org": {"10.0.0.1"}}}, map[string]bool{"a.org": true}}
		names := NewNames(z)
		for _, step := range []struct {
			what  string
			after time.Duration
			quiet []string
			want  string
		}{
			{"one of two is known", 0, []string{"a.org"}, "[b.org]"},
			{"both are", failedAge + time.Second, nil, "[a.org b.org]"},
			{"one is not any more", nameAge + time.Second, []string{"b.org"}, "[a.org b.org]"},
			{"for too long", staleAge, []string{"b.org"}, "[a.org]"},
		} {
			time.Sleep(step.after)
			clear(z.silent)
			for _, name := range step.quiet {
				z.silent[name] = true
			}
			names.Names(addr)
			synctest.Wait()
			if list, known := names.Names(addr); !known || fmt.Sprint(list) != step.want {
				t.Errorf("%s: %v, known %t, want %s", step.what, list, known, step.want)
			}
		}
	})
}

// TestNamesAreBounded: neither concurrent look-ups nor the cache grow with the number of clients.
func TestNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{blocked: make(chan struct{})}
		names := NewNames(z)
		addr := netip.MustParseAddr("10.0.0.1")
		for range 1000 {
			names.Names(addr)
			addr = addr.Next()
		}
		synctest.Wait()
		if z.asked != lookupsMost {
			t.Errorf("%d look-ups at once", z.asked)
		}
		close(z.blocked)
		synctest.Wait()
		for range 2 * mostNames {
			names.Names(addr)
			synctest.Wait()
			if _, known := names.Names(addr); !known {
				t.Fatalf("no answer for %v, with %d answers kept", addr, len(names.names.answers))
			}
			addr = addr.Next()
		}
		if len(names.names.answers) > mostNames {
			t.Errorf("%d names are kept", len(names.names.answers))
		}
	})
}

// TestNamesOfAnAddressAreBounded: if an address has many names, only a few are looked up.
func TestNamesOfAnAddressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{names: map[string][]string{}, addrs: map[string][]string{}}
		for i := range 100 {
			name := fmt.Sprintf("a%d.org", i)
			z.names["10.0.0.1"], z.addrs[name] = append(z.names["10.0.0.1"], name), []string{"10.0.0.1"}
		}
		names, addr := NewNames(z), netip.MustParseAddr("10.0.0.1")
		names.Names(addr)
		synctest.Wait()
		if list, _ := names.Names(addr); len(list) != namesMost {
			t.Errorf("%d names of an address with 100, want %d", len(list), namesMost)
		}
		if z.asked != 1+namesMost {
			t.Errorf("%d look-ups, want one of the address and %d of names", z.asked, namesMost)
		}
	})
}

// TestPlacesInAnyOrder: a position is right even after a later position was computed.
func TestPlacesInAnyOrder(t *testing.T) {
	s := scanner{text: []byte("ab\n\ncd\n")}
	for _, c := range []struct{ at, line, column int }{{5, 3, 2}, {0, 1, 1}, {2, 1, 3}, {7, 4, 1}, {3, 2, 1}, {4, 3, 1}, {4, 3, 1}} {
		if line, column := s.place(c.at); line != c.line || column != c.column {
			t.Errorf("offset %d: %d:%d, want %d:%d", c.at, line, column, c.line, c.column)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	x := one(t, "/a 10.0.0.0/8(rw) 10.0.0.1 *")
	addr := netip.MustParseAddr("10.0.0.2")
	if n := testing.AllocsPerRun(100, func() { x.Match(addr, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
