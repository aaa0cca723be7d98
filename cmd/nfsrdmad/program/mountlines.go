// The commands that mount an export, in the output of serve: transport, port, demanded security.

package program

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A mountDemand is the security for a mount command that all of an export's clients can use. The
// zero value is AUTH_SYS in clear.
type mountDemand struct {
	flavor string   // Kerberos; "": AUTH_SYS is accepted
	hosts  []string // with Kerberos: names in the keytab

	level       transport.XprtSec
	certificate *x509.Certificate // with TLS: the server's
	authority   string            // file with its issuer; "": this system trusts it, or no file is known
}

// demand returns the security that an export demands by its rules, or by the flags.
func (s *exportSet) demand(name string) *mountDemand {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if x := s.list[i].Rules; x != nil && s.list[i].Name == name {
			return s.o.security.mountDemand(x)
		}
	}
	flags := s.o.security.demands()
	return s.o.security.mountDemand(&exports.Export{Clients: []exports.Client{{Options: exports.Options{Security: flags}}}})
}

// mountDemand combines rules: the strongest level, because rules accept a stronger one, too, and a
// flavor that all accept.
func (s *security) mountDemand(x *exports.Export) *mountDemand {
	d := &mountDemand{flavor: commonKerberos(x.Clients)}
	for i := range x.Clients {
		d.level = max(d.level, x.Clients[i].Options.XprtSec)
	}
	if d.flavor != "" {
		d.hosts = s.kerberos.hosts()
	}
	if d.level > transport.XprtNone && s.store != nil {
		chain := s.store.Server().Certificates[0]
		d.certificate, d.authority = chain.Leaf, s.authorityOf(chain.Leaf, chain.Certificate[1:])
	}
	return d
}

// commonKerberos returns the first flavor that all rules accept; "" if AUTH_SYS is among them, or
// none is.
func commonKerberos(rules []exports.Client) (name string) {
	if len(rules) == 0 {
		return ""
	}
	for _, f := range rules[0].Options.Flavors() {
		refuses := func(c exports.Client) bool {
			return !slices.ContainsFunc(c.Options.Flavors(), func(o exports.FlavorAccess) bool { return o.Flavor == f.Flavor })
		}
		switch {
		case slices.ContainsFunc(rules, refuses):
		case f.Flavor <= oncrpc.FlavorSys:
			return ""
		case name == "":
			name = exports.FlavorName(f.Flavor)
		}
	}
	return name
}

// authorityOf returns the file with the authority that issued the server's certificate: one in
// clientCA, or ca.crt beside the certificate, where nfsrdmad cert puts it. It returns "" if this
// system trusts the certificate, or no such file has the issuer.
func (s *security) authorityOf(leaf *x509.Certificate, rest [][]byte) string {
	between := x509.NewCertPool()
	for _, der := range rest {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Intermediates: between}); err == nil {
		return ""
	}
	for _, file := range append(slices.Clone(s.clientCA), filepath.Join(filepath.Dir(s.cert), certs.AuthorityFile)) {
		store, err := certs.Open(certs.Options{Authorities: []string{file}})
		if err != nil {
			continue
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: store.Client("").RootCAs, Intermediates: between}); err == nil {
			if whole, err := filepath.Abs(file); err == nil {
				return whole
			}
			return file
		}
	}
	return ""
}

// hosts returns the hosts of the principals nfs/HOST, in the keytab's order.
func (k *kerberos) hosts() (list []string) {
	k.live.mu.Lock()
	defer k.live.mu.Unlock()
	for _, p := range k.live.principals {
		name, _, _ := strings.Cut(p, "@")
		if host, ok := strings.CutPrefix(name, "nfs/"); ok {
			list = append(list, host)
		}
	}
	return list
}

// hostPort returns an address for a command. With Kerberos the host is a name in the keytab,
// because a client asks for a ticket by the host's name.
func (d *mountDemand) hostPort(a net.Addr) (host, port string) {
	host, port = hostPort(a)
	local := host
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip.IsLoopback() {
		local = "localhost"
	}
	own := func(h string) bool {
		return strings.EqualFold(h, local) || strings.EqualFold(strings.SplitN(h, ".", 2)[0], local)
	}
	if i := slices.IndexFunc(d.hosts, own); i >= 0 {
		return d.hosts[i], port
	}
	if len(d.hosts) > 0 {
		return d.hosts[0], port
	}
	return host, port
}

// certName returns a name from the certificate if the certificate does not have host; "": it has
// host, or no name.
func (d *mountDemand) certName(host string) string {
	if d.certificate == nil || d.certificate.VerifyHostname(host) == nil {
		return ""
	}
	for _, name := range d.certificate.DNSNames {
		if d.certificate.VerifyHostname(name) == nil {
			return name
		}
	}
	for _, ip := range d.certificate.IPAddresses {
		return ip.String()
	}
	return ""
}

// options returns the mount options that our client and Linux share.
func (d *mountDemand) options() (words []string) {
	if d.flavor != "" {
		words = append(words, "sec="+d.flavor)
	}
	if d.level > transport.XprtNone {
		words = append(words, "xprtsec="+d.level.String())
	}
	return words
}

// A client's own files, in the directory of nfsrdmad cert.
const (
	clientCert = certDir + "/CLIENT.crt"
	clientKey  = certDir + "/CLIENT.key"
)

// note returns the line about files that a client needs, or "".
func (d *mountDemand) note() string {
	var files []string
	if d.authority != "" {
		files = append(files, d.authority)
	}
	if d.level == transport.XprtMTLS {
		files = append(files, "a certificate and a key of its own (nfsrdmad cert client)")
	}
	if len(files) == 0 {
		return ""
	}
	return "a client needs " + strings.Join(files, ", and ") + "; Linux names such files in /etc/tlshd.conf"
}

// clientLine returns the command that mounts an export with our client, over RDMA if it is served.
func clientLine(name string, s *nfsserver.Service, d *mountDemand) string {
	var words []string
	addr, usual := s.RDMAAddr, "20049"
	if addr == nil && s.RoCEAddr != nil && d.level == transport.XprtNone { // RoCE has no TLS
		addr, words = s.RoCEAddr, append(words, "rdma=roce")
	}
	if addr == nil && s.TCPAddr == nil {
		return "(xprtsec=" + d.level.String() + " is for TCP and iWARP: serve with --tcp-port as well)"
	}
	if addr == nil {
		addr, usual, words = s.TCPAddr, "2049", append(words, "proto=tcp")
	}
	host, port := d.hostPort(addr)
	if port != usual {
		words = append(words, "port="+port)
	}
	words = append(words, d.options()...)
	if d.authority != "" {
		words = append(words, "cacert="+text.ShellWord(d.authority))
	}
	if d.level == transport.XprtMTLS {
		words = append(words, "cert="+clientCert, "key="+clientKey)
	}
	if name := d.certName(host); name != "" {
		words = append(words, "tlsname="+text.ShellWord(name))
	}
	options := ""
	if len(words) > 0 {
		options = "-o " + strings.Join(words, ",") + " "
	}
	return "nfsrdma mount " + options + host + ":" + text.ShellWord(name) + " /mnt"
}

// mountLines returns the commands that mount an export on Linux, without the ports that mount.nfs
// finds by rpcbind. With TLS the host is a name in the certificate.
func mountLines(name string, s *nfsserver.Service, p *portMapping, d *mountDemand) (lines []string) {
	if s.TCPAddr == nil {
		return []string{"(mount.nfs asks MOUNT over TCP: serve with --tcp-port as well)"}
	}
	host, tcp := d.hostPort(s.TCPAddr)
	if n := d.certName(host); n != "" {
		host = bracketed(n)
	}
	over := s.RDMAAddr
	if over == nil {
		over = s.RoCEAddr
	}
	line := func(proto, port, usual string) {
		words := []string{"vers=3", "proto=" + proto}
		// mount.nfs asks rpcbind for the TCP port only, so another RDMA port than usual must be
		// given.
		if !p.known || proto == "rdma" && port != usual {
			words = append(words, "port="+port)
		}
		if !p.locks {
			words = append(words, "nolock")
		}
		if !p.known {
			words = append(words, "mountproto=tcp", "mountport="+tcp)
		}
		words = append(words, d.options()...)
		lines = append(lines, fmt.Sprintf("mount -o %s %s:%s /mnt", strings.Join(words, ","), host, text.ShellWord(name)))
	}
	if over != nil && d.level == transport.XprtNone { // Linux has no TLS over RDMA
		_, rdma := hostPort(over)
		line("rdma", rdma, "20049")
	}
	line("tcp", tcp, "2049")
	return lines
}

// hostPort splits an address for clients. Instead of the unspecified address it returns this
// machine's name.
func hostPort(a net.Addr) (host, port string) {
	host, port, _ = net.SplitHostPort(a.String())
	ip := net.ParseIP(host)
	switch {
	case ip.IsUnspecified():
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	default:
		host = bracketed(host)
	}
	return host, port
}

// bracketed encloses an IPv6 address in brackets.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
