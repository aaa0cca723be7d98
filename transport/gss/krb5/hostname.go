// The name of a host in its principal.

package krb5

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// # DNS
//
// DNS is not authenticated. An attacker who answers for it can name another host, whose key is
// perhaps stolen, and so make a client accept a false server. MIT's library asks DNS by default
// (dns_canonicalize_hostname = true), and rpc.gssd asks it for addresses and names without a dot.
// Here only this machine's files count, unless krb5.conf permits DNS: a name with a dot is used as
// it is, and an address or another name is looked up in /etc/hosts. A name without a dot gets
// qualify_shortname, or the first search domain of /etc/resolv.conf.

// A resolver looks up names, as *net.Resolver does.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// Values of dns_canonicalize_hostname.
type canonicalization uint8

const (
	canonicalNever    canonicalization = iota // the default here
	canonicalFallback                         // if the KDC does not know the name as it is
	canonicalAlways                           // the default of MIT
)

func (c *Config) canonicalization() canonicalization {
	const path = "libdefaults/dns_canonicalize_hostname"
	switch {
	case strings.EqualFold(c.profile.first(path, ""), "fallback"):
		return canonicalFallback
	case c.profile.yes(path, false):
		return canonicalAlways
	}
	return canonicalNever
}

// errNoDNS is filesResolver's error for names that the files lack.
var errNoDNS = errors.New("DNS is not asked")

// filesResolver looks up names in /etc/hosts.
var filesResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errNoDNS }}

// hostNames returns the names to try in turn in a host's principal, in lower case.
func (c *Config) hostNames(ctx context.Context, host string) ([]string, error) {
	host, mode := lowerName(host), c.canonicalization()
	if _, err := netip.ParseAddr(host); err == nil {
		name, err := c.nameOf(ctx, host, mode)
		return []string{name}, err
	}
	plain := c.qualified(ctx, host)
	if mode == canonicalNever {
		return []string{plain}, nil
	}
	full := c.inDNS(ctx, plain)
	if mode == canonicalAlways || full == plain {
		return []string{full}, nil
	}
	return []string{plain, full}, nil
}

// nameOf returns the name of an address.
func (c *Config) nameOf(ctx context.Context, addr string, mode canonicalization) (string, error) {
	names, err := c.files.LookupAddr(ctx, addr)
	if err == nil && len(names) > 0 {
		return lowerName(names[0]), nil
	}
	if mode == canonicalNever {
		return "", fmt.Errorf("krb5: %s has no name in /etc/hosts, and DNS is not trusted: mount by the name in the server's principal, nfs/NAME, or set dns_canonicalize_hostname = true in krb5.conf", addr)
	}
	if names, err = c.dns.LookupAddr(ctx, addr); err != nil || len(names) == 0 {
		return "", fmt.Errorf("krb5: %s has no name in DNS: mount by the name in the server's principal, nfs/NAME", addr)
	}
	return lowerName(names[0]), nil
}

// qualified adds the domain to a name without dots, by this machine's files. A name in domain_realm
// needs none.
func (c *Config) qualified(ctx context.Context, host string) string {
	if strings.Contains(host, ".") || c.RealmOf(host) != "" {
		return host
	}
	if full, err := c.files.LookupCNAME(ctx, host); err == nil && strings.Contains(lowerName(full), ".") {
		return lowerName(full)
	}
	if domain := lowerName(c.shortDomain()); domain != "" {
		return host + "." + domain
	}
	return host
}

// shortDomain returns the domain of names without dots, or "".
func (c *Config) shortDomain() string {
	if set := c.profile["libdefaults/qualify_shortname"]; len(set) > 0 {
		return set[0]
	}
	f, err := os.Open(c.resolvConf)
	if err != nil {
		return ""
	}
	defer f.Close()
	domain := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && slices.Contains([]string{"search", "domain"}, words[0]) {
			domain = words[1] // the last line counts
		}
	}
	return domain
}

// inDNS returns a host's canonical name in DNS, or the name as it is. With rdns, the default, it is
// the name of the host's address.
func (c *Config) inDNS(ctx context.Context, host string) string {
	full, err := c.dns.LookupCNAME(ctx, host)
	if err != nil {
		return host
	}
	full = lowerName(full)
	if !c.profile.yes("libdefaults/rdns", true) {
		return full
	}
	if addrs, err := c.dns.LookupHost(ctx, full); err == nil && len(addrs) > 0 {
		if names, err := c.dns.LookupAddr(ctx, addrs[0]); err == nil && len(names) > 0 {
			return lowerName(names[0])
		}
	}
	return full
}

// lowerName returns a host's name in lower case, without the dot at its end.
func lowerName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
