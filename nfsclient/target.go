// Targets: the notation for a server, an export and a path on it.

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

// A Transport is the protocol below ONC RPC.
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

// ParseTransport parses "rdma" or "tcp".
func ParseTransport(s string) (Transport, error) {
	switch s {
	case "rdma":
		return RDMA, nil
	case "tcp":
		return TCP, nil
	}
	return 0, fmt.Errorf("transport %q is neither rdma nor tcp", s)
}

// A Target is a path on a server, or on several equivalent servers.
type Target struct {
	Transport    Transport
	TransportSet bool   // the parsed text named the transport (nfs:// is TCP)
	Host         string // name or address, no brackets
	Port         int    // 0: the transport's default
	Others       string // further servers, as in a URL: HOST[:PORT],HOST[:PORT]; see Servers
	Path         string // absolute and unchanged ("." and ".." included); default "/"
}

// ErrNotRemote is the error for a local path.
var ErrNotRemote = errors.New("not a remote path: write nfsrdma://HOST[:PORT]/export/path or HOST:/export/path")

// ParseTarget parses nfsrdma://HOST[:PORT]/path, nfs://HOST[:PORT]/path (TCP), or HOST:/path. The
// first two are URLs, so special bytes are written %XX; the last takes the path literally. Several
// servers are HOST,HOST in place of HOST, each with its own port if needed.
func ParseTarget(s string) (Target, error) {
	if strings.Contains(s, "\x00") {
		return Target{}, fmt.Errorf("target %q holds a zero byte", s)
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok && !strings.Contains(scheme, "/") {
		return parseURL(s)
	}
	hosts, p, ok := cutHost(s)
	if !ok {
		return Target{}, ErrNotRemote
	}
	t, err := parseServers(hosts)
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", s, err)
	}
	t.Path = p
	return t, nil
}

// ParseServer parses the forms of ParseTarget, and HOST or HOST:PORT, or several.
func ParseServer(s string) (Target, error) {
	t, err := ParseTarget(s)
	if !errors.Is(err, ErrNotRemote) {
		return t, err
	}
	if t, err = parseServers(s); err != nil {
		return Target{}, fmt.Errorf("server %q: %w", s, err)
	}
	t.Path = "/"
	return t, nil
}

// parseServers parses HOST[:PORT],HOST[:PORT].
func parseServers(s string) (t Target, err error) {
	list := strings.Split(s, ",")
	for i, one := range list {
		host, port := one, 0
		if a, err := netip.ParseAddr(one); err == nil && a.Is6() {
			// An IPv6 address without brackets has no port.
		} else if h, p, err := net.SplitHostPort(one); err == nil {
			if port, err = parsePort(p); err != nil {
				return Target{}, err
			}
			host = h
		} else if inner, ok := strings.CutPrefix(host, "["); ok {
			host = strings.TrimSuffix(inner, "]")
		}
		if err := checkHost(host); err != nil {
			if host == "" && len(list) > 1 {
				err = errors.New("no host at a comma")
			}
			return Target{}, err
		}
		t.add(i, host, port)
	}
	return t, nil
}

// add adds server number i to the target.
func (t *Target) add(i int, host string, port int) {
	switch {
	case i == 0:
		t.Host, t.Port = host, port
		return
	case i > 1:
		t.Others += ","
	}
	t.Others += hostPort(host, port)
}

// hostPort formats HOST[:PORT] as in a URL.
func hostPort(host string, port int) string {
	switch {
	case port != 0:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	return host
}

// Servers returns one target for each server.
func (t Target) Servers() []Target {
	others := t.Others
	t.Others = ""
	all := []Target{t}
	for others != "" {
		var one string
		one, others, _ = strings.Cut(others, ",")
		s, _ := parseServers(one) // no error: this package has parsed or written the text
		t.Host, t.Port = s.Host, s.Port
		all = append(all, t)
	}
	return all
}

// WithPort returns the target with this port for all servers.
func (t Target) WithPort(port int) Target {
	servers := t.Servers()
	t.Others = ""
	for i, s := range servers {
		t.add(i, s.Host, port)
	}
	return t
}

// Hosts returns the servers' hosts, separated by commas, with IPv6 addresses in brackets.
func (t Target) Hosts() string {
	var hosts []string
	for _, s := range t.Servers() {
		hosts = append(hosts, hostPort(s.Host, 0))
	}
	return strings.Join(hosts, ",")
}

// cutHost splits HOST:/path, with one or several hosts. A slash before the colon makes it a local
// path. An IPv6 address needs no brackets here, because ":/" ends it in either case.
func cutHost(s string) (hosts, p string, ok bool) {
	i := strings.Index(s, ":/")
	if i <= 0 || strings.Contains(s[:i], "/") {
		return "", "", false
	}
	hosts, p = s[:i], s[i+1:]
	if strings.Contains(hosts, ",") || !strings.Contains(hosts, ":") {
		return hosts, p, true
	}
	// In this form a single server has no port, and a:b:/c is a local file.
	if strings.HasPrefix(hosts, "[") && strings.HasSuffix(hosts, "]") {
		return hosts, p, true
	}
	a, err := netip.ParseAddr(hosts)
	return hosts, p, err == nil && a.Is6()
}

// parseURL parses a URL; net/url parses one server at a time.
func parseURL(s string) (Target, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	var t Target
	for i, one := range strings.Split(rest[:end], ",") {
		u, err := parseOne(scheme+"://"+one+rest[end:], s)
		if err != nil {
			return Target{}, err
		}
		if i == 0 {
			t = u
			continue
		}
		t.add(i, u.Host, u.Port)
	}
	return t, nil
}

// parseOne parses the URL s of one server; whole is for messages.
func parseOne(s, whole string) (Target, error) {
	u, err := url.Parse(escapeZone(s))
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", whole, errors.Unwrap(err))
	}
	t := Target{TransportSet: u.Scheme == "nfs"}
	switch u.Scheme {
	case "nfsrdma":
	case "nfs":
		t.Transport = TCP
	default:
		return Target{}, fmt.Errorf("target %q: scheme is neither nfsrdma nor nfs", whole)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Target{}, fmt.Errorf("target %q: ?, # and @ in a path are written %%3F, %%23 and %%40", whole)
	}
	t.Host = u.Hostname()
	if err := checkHost(t.Host); err != nil {
		return Target{}, fmt.Errorf("target %q: %w", whole, err)
	}
	if p := u.Port(); p != "" {
		if t.Port, err = parsePort(p); err != nil {
			return Target{}, fmt.Errorf("target %q: %w", whole, err)
		}
	}
	if strings.Contains(u.Path, "\x00") {
		return Target{}, fmt.Errorf("target %q holds a zero byte", whole)
	}
	if t.Path = u.Path; t.Path == "" {
		t.Path = "/"
	}
	return t, nil
}

// escapeZone escapes the % of an IPv6 zone as URLs require (RFC 6874 §2). Users write
// [fe80::1%eth0] as everywhere else.
func escapeZone(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	host, after, ok := strings.Cut(rest, "]")
	if !ok || !strings.HasPrefix(host, "[") || strings.Contains(host, "%25") {
		return s
	}
	return scheme + "://" + strings.Replace(host, "%", "%25", 1) + "]" + after
}

// parsePort parses a port from 1 to 65535.
func parsePort(p string) (int, error) {
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not in 1..65535", p)
	}
	return int(n), nil
}

// checkHost allows an address, or a name of letters, digits, hyphens, dots and underscores.
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

// Addr returns HOST:PORT for dialing, with the transport's default port if none is set. Several
// servers are separated by commas.
func (t Target) Addr() string {
	if t.Others != "" {
		var all []string
		for _, s := range t.Servers() {
			all = append(all, s.Addr())
		}
		return strings.Join(all, ",")
	}
	port := t.Port
	if port == 0 {
		port = PortRDMA
		if t.Transport == TCP {
			port = PortTCP
		}
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(port))
}

// String formats the target as a URL for ParseTarget.
func (t Target) String() string {
	scheme := "nfsrdma"
	if t.Transport == TCP {
		scheme = "nfs"
	}
	u := url.URL{Scheme: scheme, Host: hostPort(t.Host, t.Port), Path: t.Path}
	if t.Others != "" {
		u.Host += "," + t.Others
	}
	return u.String()
}
