// RPC-with-TLS (RFC 9289) with Linux's client and server, whose handshakes are tlshd's.

package linux

import (
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
)

// readSmall reads a file of a mount and shows the mount's options.
const readSmall = "cat /mnt/hello.txt && grep ' /mnt ' /proc/mounts; umount /mnt\n"

// TestTLS: the guest and its own server, which shows that the guest works.
func TestTLS(t *testing.T) {
	g := bootSecure(t)
	a := g.withTLS()
	mountsTLS(t, g.Guest, itself)
	g.refusesServers(t, a, itself, func(bad *authority) {
		g.copyFiles("/etc/tlshd", bad.files("server.pem", "server.key")...)
	})
	quiet(t, g.Guest)
}

// mountsTLS: the guest mounts a server with both kinds of TLS.
func mountsTLS(t *testing.T, g *guest.Guest, p securePeer) {
	t.Helper()
	for _, sec := range []string{"tls", "mtls"} {
		out := run(t, g, p.at("tcp", "xprtsec="+sec)+readSmall+p.at("tcp", "xprtsec="+sec)+client1MB)
		if !strings.Contains(out, p.hello) || !strings.Contains(out, "xprtsec="+sec+",") {
			t.Errorf("xprtsec=%s: got %q", sec, out)
		}
	}
}

// refusesServers: the guest does not mount a server with a bad certificate, and mounts it once the
// certificate is good. use makes the server take the certificate of the authority's directory.
func (g *secureGuest) refusesServers(t *testing.T, a *authority, p securePeer, use func(*authority)) {
	other := newAuthority(t, t.TempDir(), "ca")
	for _, c := range []struct {
		name, host string
		a          *authority
		valid      time.Duration
		says       string // by tlshd
	}{
		{"wrong-name", "other.nfs.test", a, time.Hour, "Certificate owner unexpected."},
		{"expired", p.name, a, -time.Minute, "Certificate expired."},
		{"unknown-ca", p.name, other, time.Hour, "Certificate signer not found."},
	} {
		c.a.issue("server", c.host, time.Now().Add(c.valid))
		use(c.a)
		out := run(t, g.Guest, "wc -c < /run/tlshd.log > /tmp/at; ("+p.at("tcp", "xprtsec=tls")+") && echo mounted; tail -c +$(cat /tmp/at) /run/tlshd.log")
		if strings.Contains(out, "mounted\n") || !strings.Contains(out, "access denied by server") || !strings.Contains(out, c.says) {
			t.Errorf("%s: got %q, want no mount and %q", c.name, out, c.says)
		}
	}
	a.issue("server", p.name, time.Now().Add(time.Hour))
	use(a)
	run(t, g.Guest, p.at("tcp", "xprtsec=tls")+readSmall)
}
