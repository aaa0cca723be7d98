// Targets: how a server, an export and a path on it are written.

package nfsclient

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Default ports: NFS over RDMA (RFC 8267 §6, IANA "nfsrdma"), NFS over TCP.
const (
	PortRDMA = 20049
	PortTCP  = 2049
)

// A Transport is how calls reach the server.
type Transport uint8

// The transports.
const (
	RDMA Transport = iota
	TCP
)

func (t Transport) String() string {
	switch t {
	case RDMA:
		return "rdma"
	case TCP:
		return "tcp"
	}
	return "transport " + strconv.Itoa(int(t))
}

// ParseTransport reads "rdma" or "tcp".
func ParseTransport(s string) (Transport, error) {
	switch s {
	case "rdma":
		return RDMA, nil
	case "tcp":
		return TCP, nil
	}
	return 0, fmt.Errorf("transport %q is neither rdma nor tcp", s)
}

// A Target is a path on a server.
type Target struct {
	Transport    Transport
	TransportSet bool   // the text itself named the transport (nfs:// is TCP)
	Host         string // name or address, no brackets
	Port         int    // 0: the transport's default
	Path         string // absolute, as it was written: ".." is for the server's tree to resolve; "/" when none was given
}

// ErrNotRemote is returned for text that names no server: a local path.
var ErrNotRemote = errors.New("not a remote path: write nfsrdma://HOST[:PORT]/export/path or HOST:/export/path")

// ParseTarget reads nfsrdma://HOST[:PORT]/path, nfs://HOST[:PORT]/path (TCP),
// or HOST:/path. The first two are URLs, so a byte that means something in a
// URL is written %XX; in the last the path stands as it is.
func ParseTarget(s string) (Target, error) {
	if strings.Contains(s, "\x00") {
		return Target{}, fmt.Errorf("target %q holds a zero byte", s)
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok && !strings.Contains(scheme, "/") {
		return parseURL(s)
	}
	host, p, ok := cutHost(s)
	if !ok {
		return Target{}, ErrNotRemote
	}
	if err := checkHost(host); err != nil {
		return Target{}, fmt.Errorf("target %q: %w", s, err)
	}
	return Target{Host: host, Path: p}, nil
}

// ParseServer reads what ParseTarget reads, and HOST and HOST:PORT alone.
func ParseServer(s string) (Target, error) {
	t, err := ParseTarget(s)
	if !errors.Is(err, ErrNotRemote) {
		return t, err
	}
	host, port := s, 0
	if h, p, err := net.SplitHostPort(s); err == nil {
		if port, err = parsePort(p); err != nil {
			return Target{}, fmt.Errorf("server %q: %w", s, err)
		}
		host = h
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if err := checkHost(host); err != nil {
		return Target{}, fmt.Errorf("server %q: %w", s, err)
	}
	return Target{Host: host, Port: port, Path: "/"}, nil
}

// cutHost splits HOST:/path. A slash before the colon makes it a local path. An
// IPv6 address needs no brackets here: ":/" ends it in either case.
func cutHost(s string) (host, p string, ok bool) {
	if strings.HasPrefix(s, "[") {
		end := strings.Index(s, "]:/")
		if end < 0 {
			return "", "", false
		}
		return s[1:end], s[end+2:], true
	}
	if i := strings.Index(s, ":/"); i > 0 {
		if a, err := netip.ParseAddr(s[:i]); err == nil && a.Is6() {
			return s[:i], s[i+1:], true
		}
	}
	i := strings.IndexByte(s, ':')
	if i <= 0 || !strings.HasPrefix(s[i+1:], "/") || strings.Contains(s[:i], "/") {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func parseURL(s string) (Target, error) {
	u, err := url.Parse(escapeZone(s))
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", s, errors.Unwrap(err))
	}
	t := Target{TransportSet: u.Scheme == "nfs"}
	switch u.Scheme {
	case "nfsrdma":
	case "nfs":
		t.Transport = TCP
	default:
		return Target{}, fmt.Errorf("target %q: scheme is neither nfsrdma nor nfs", s)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Target{}, fmt.Errorf("target %q: ?, # and @ in a path are written %%3F, %%23 and %%40", s)
	}
	t.Host = u.Hostname()
	if err := checkHost(t.Host); err != nil {
		return Target{}, fmt.Errorf("target %q: %w", s, err)
	}
	if p := u.Port(); p != "" {
		if t.Port, err = parsePort(p); err != nil {
			return Target{}, fmt.Errorf("target %q: %w", s, err)
		}
	}
	if strings.Contains(u.Path, "\x00") {
		return Target{}, fmt.Errorf("target %q holds a zero byte", s)
	}
	if t.Path = u.Path; t.Path == "" {
		t.Path = "/"
	}
	return t, nil
}

// escapeZone writes the % of an IPv6 zone as URLs have it (RFC 6874 §2): people
// write [fe80::1%eth0] as everywhere else.
func escapeZone(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	host, after, ok := strings.Cut(rest, "]")
	if !ok || !strings.HasPrefix(host, "[") || strings.Contains(host, "%25") {
		return s
	}
	return scheme + "://" + strings.Replace(host, "%", "%25", 1) + "]" + after
}

func parsePort(p string) (int, error) {
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not in 1..65535", p)
	}
	return int(n), nil
}

// checkHost allows an address, and a name of letters, digits, hyphens, dots and underscores.
func checkHost(h string) error {
	if h == "" {
		return errors.New("no host")
	}
	if a, err := netip.ParseAddr(h); err == nil && !strings.ContainsAny(a.Zone(), "/[]@?#% ") {
		return nil
	}
	if strings.Contains(h, ":") {
		return fmt.Errorf("host %q is not an IPv6 address (which is written in brackets: [fe80::1%%eth0])", h)
	}
	for _, r := range h {
		if !strings.ContainsRune("-._", r) && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') {
			return fmt.Errorf("host %q is not a name or an address", h)
		}
	}
	return nil
}

// Addr is HOST:PORT to dial, with the default port of the transport when none is set.
func (t Target) Addr() string {
	port := t.Port
	if port == 0 {
		port = PortRDMA
		if t.Transport == TCP {
			port = PortTCP
		}
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(port))
}

// String writes the target as a URL that ParseTarget reads back.
func (t Target) String() string {
	scheme := "nfsrdma"
	if t.Transport == TCP {
		scheme = "nfs"
	}
	host := t.Host
	if t.Port != 0 {
		host = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u := url.URL{Scheme: scheme, Host: host, Path: t.Path}
	return u.String()
}
