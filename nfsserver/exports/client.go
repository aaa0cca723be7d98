// Client specifications, and the match of an address against them.

package exports

import (
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// kind is a client specification's form.
type kind uint8

const (
	byAddress kind = iota
	byName
	byNetwork
	byPattern
	everybody
)

// rank returns the position in the order of exports(5): single hosts, networks, wildcards,
// everybody. Within one rank the first in the file decides.
func (k kind) rank() int {
	switch k {
	case byAddress, byName:
		return 0
	case byNetwork:
		return 1
	case byPattern:
		return 2
	}
	return 3
}

// clientSpec parses a client specification, up to its options.
func (p *parser) clientSpec() (c Client, err error) {
	begin := p.at
	c.Spec = p.until("(")
	fail := func(format string, args ...any) (Client, error) { return Client{}, p.fail(begin, format, args...) }
	switch spec := c.Spec; {
	case spec == "*" || spec == "<world>": // as printed by exportfs -v
		c.kind, c.Spec = everybody, "*"
		return c, nil
	case spec[0] == '@':
		return fail("netgroups such as %s are not supported: name hosts or networks", spec)
	case spec[0] == '=' || strings.HasPrefix(spec, "gss/"):
		return fail("%s is not supported: name hosts or networks", spec)
	case spec[0] == '[':
		inner, rest, _ := strings.Cut(spec[1:], "]")
		if _, err := netip.ParseAddr(inner); err == nil {
			return fail("write the address without brackets: %s%s", inner, rest)
		}
	}
	if strings.Contains(c.Spec, "/") {
		return p.network(begin, c)
	}
	if a, err := netip.ParseAddr(c.Spec); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return fail("%s: write the address without a zone, and one of IPv4 in its own form", c.Spec)
		}
		c.kind, c.net = byAddress, netip.PrefixFrom(a, a.BitLen())
		return c, nil
	}
	c.kind, c.name = byName, strings.ToLower(strings.TrimSuffix(c.Spec, "."))
	switch wild := strings.ContainsAny(c.name, "*?["); {
	case c.name == "" || strings.Trim(c.name, "abcdefghijklmnopqrstuvwxyz0123456789.-_*?[]^") != "":
		return fail("%q is neither a host name nor an address", c.Spec)
	case numeric(c.name) && wild:
		return fail("wildcards do not match addresses: write a network such as 192.0.2.0/24 instead of %s", c.Spec)
	case numeric(c.name):
		return fail("%s is not an address", c.Spec)
	case wild:
		c.kind = byPattern
	case strings.ContainsAny(c.name, "]^"):
		return fail("%q is neither a host name nor an address", c.Spec)
	}
	if _, err := path.Match(c.name, ""); err != nil {
		return fail("%s: a list of characters begins with [ and ends with ]", c.Spec)
	}
	return c, nil
}

// numeric reports whether a name looks like an address, apart from wildcards.
func numeric(name string) bool {
	return strings.Trim(name, "0123456789*?[]-.") == "" && strings.ContainsAny(name, "0123456789")
}

// network parses an address with a prefix length or a netmask.
func (p *parser) network(begin int, c Client) (Client, error) {
	host, mask, _ := strings.Cut(c.Spec, "/")
	at := begin + len(host) + 1
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return c, p.fail(begin, "%s is not an address, which stands before / and the length of a network", host)
	}
	bits, err := strconv.ParseUint(mask, 10, 8)
	switch m, maskErr := netip.ParseAddr(mask); {
	case maskErr == nil && m.Is4() && a.Is4():
		n, ok := maskLength(m.As4())
		if !ok {
			return c, p.fail(at, "%s is not a netmask: its one bits are not together", mask)
		}
		bits = uint64(n)
	case err != nil || int(bits) > a.BitLen():
		return c, p.fail(at, "the length of the network must be from 0 to %d, or the netmask of an IPv4 network", a.BitLen())
	}
	c.kind, c.net = byNetwork, netip.PrefixFrom(a, int(bits)).Masked()
	return c, nil
}

// maskLength counts the one bits of a netmask; ok is false if a zero bit precedes a one bit.
func maskLength(m [4]byte) (n int, ok bool) {
	v := uint32(m[0])<<24 | uint32(m[1])<<16 | uint32(m[2])<<8 | uint32(m[3])
	for ; v&(1<<31) != 0; v <<= 1 {
		n++
	}
	return n, v == 0
}

// Host returns the client's host name in lower case, or "" for another kind of client.
func (c *Client) Host() string {
	if c.kind == byName {
		return c.name
	}
	return ""
}

// A Resolver has hosts' names and addresses in memory and never blocks. known is false while it
// looks them up.
type Resolver interface {
	// Addrs returns a host's addresses.
	Addrs(host string) (addrs []netip.Addr, known bool)
	// Names returns an address's names in lower case, each of which resolves to that address.
	Names(addr netip.Addr) (names []string, known bool)
}

// A Match is the result for an address and an export's clients.
type Match struct {
	Client  *Client // nil: none
	Pending bool    // undecided: it depends on names being looked up
	ByName  bool    // names had a part in it, so it is valid only for a while
}

// Match finds the export's client for addr. An IPv4-mapped IPv6 address counts as the IPv4 address.
// It allocates nothing if no client is given by name.
func (x *Export) Match(addr netip.Addr, r Resolver) (m Match) {
	addr = addr.Unmap().WithZone("")
	for i, c := range x.ranked {
		ok, known := true, true
		switch c.kind {
		case byAddress, byNetwork:
			ok = c.net.Contains(addr)
		case byName:
			m.ByName = true
			var addrs []netip.Addr
			addrs, known = r.Addrs(c.name)
			ok = contains(addrs, addr)
		case byPattern:
			m.ByName = true
			var names []string
			names, known = r.Names(addr)
			ok = c.matches(names)
		}
		if !known {
			m.Pending = true
			askAhead(x.ranked[i+1:], r)
			return m
		}
		if ok {
			m.Client = c
			return m
		}
	}
	return m
}

// askAhead starts look-ups of the export's other hosts beside the first unknown one, because the
// result can depend on each.
func askAhead(rest []*Client, r Resolver) {
	for _, c := range rest {
		if c.kind == byName {
			r.Addrs(c.name)
		}
	}
}

// contains reports whether addr is in the list, with mapped addresses unmapped and zones ignored.
func contains(addrs []netip.Addr, addr netip.Addr) bool {
	for _, a := range addrs {
		if a.Unmap().WithZone("") == addr {
			return true
		}
	}
	return false
}

// matches reports whether one of the names fits the pattern. A star also matches dots.
func (c *Client) matches(names []string) bool {
	for _, name := range names {
		if ok, _ := path.Match(c.name, name); ok { // patterns in a parsed file are valid
			return true
		}
	}
	return false
}
