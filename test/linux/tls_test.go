// RPC-with-TLS (RFC 9289) with Linux's client and server, whose handshakes are tlshd's.

package linux

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestTLS: first the guest mounts its own server, which shows that the guest works. Then it mounts
// ours, and our commands use the guest's server.
func TestTLS(t *testing.T) {
	g := bootSecure(t)
	a := g.withTLS()
	t.Run("linux-linux", func(t *testing.T) {
		mountsTLS(t, g.Guest, itself)
		g.refusesServers(t, a, itself, func(bad *authority) {
			g.copyFiles("/etc/tlshd", bad.files("server.pem", "server.key")...)
		})
		quiet(t, g.Guest)
	})
	t.Run("serve", func(t *testing.T) { g.mountsOurTLS(t, a) })
	t.Run("commands", func(t *testing.T) { g.servesOurTLS(t, a) })
}

// servesOurTLS: our commands use the guest's server, and fail with a bad certificate on either
// side.
func (g *secureGuest) servesOurTLS(t *testing.T, a *authority) {
	a.issue("server", guestName, time.Now().Add(time.Hour))
	a.issue("client", hostName, time.Now().Add(time.Hour))
	g.copyFiles("/etc/tlshd", a.files("server.pem", "server.key")...)
	f := a.files("ca.pem", "client.pem", "client.key")
	s := g.reached(t)
	withTLS := tcpTool(t, s)
	withTLS.args = append(withTLS.args, "--cacert", f[0], "--tls-name", guestName, "--xprtsec")
	tls, mtls, noName := withTLS, withTLS, tcpTool(t, s)
	tls.args = append(slices.Clone(withTLS.args), "tls")
	mtls.args = append(slices.Clone(withTLS.args), "mtls", "--cert", f[1], "--key", f[2])
	listCatCopy(t, tls, 16)
	commands(t, mtls)
	noName.args = append(noName.args, "--cacert", f[0], "--xprtsec", "tls")
	noName.fails("certificate", "cat", noName.path("hello.txt"))
	a.issue("server", guestName, time.Now().Add(-time.Minute))
	g.copyFiles("/etc/tlshd", a.files("server.pem", "server.key")...)
	tls.fails("expired", "cat", tls.path("hello.txt"))
	other := newAuthority(t, t.TempDir(), "ca")
	other.issue("server", guestName, time.Now().Add(time.Hour))
	g.copyFiles("/etc/tlshd", other.files("server.pem", "server.key")...)
	tls.fails("authority", "cat", tls.path("hello.txt"))
	quiet(t, g.Guest)
}

// mountsOurTLS: the guest mounts our server, and works there. A client without TLS, or with a bad
// certificate, gets no file.
func (g *secureGuest) mountsOurTLS(t *testing.T, a *authority) {
	a.revoke("crl.pem")
	a.issue("server", hostName, time.Now().Add(time.Hour))
	f := a.files("server.pem", "server.key", "ca.pem", "crl.pem")
	s, p := g.serve(t, "--xprtsec", "tls:mtls", "--tls-cert", f[0], "--tls-key", f[1], "--tls-client-ca", f[2], "--tls-crl", f[3])
	mountsTLS(t, g.Guest, p)
	hides(t, g.Guest, s, p, "tcp", "xprtsec=tls", true)
	run(t, g.Guest, p.at("tcp", "xprtsec=tls"))
	checks(t, g.Guest, "-dir /mnt -large 16 -run 'sizes|large|mmap|symlinks|rename|unlink-open|attributes|readdir|parallel'")
	run(t, g.Guest, unmount)
	g.refusesServers(t, a, p, func(bad *authority) {
		for i, from := range bad.files("server.pem", "server.key") {
			b, err := os.ReadFile(from)
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(f[i], b, 0o600))
		}
		time.Sleep(lookInterval)
	})
	weak := "RPC: server " + hostName + " requires stronger authentication" // in the guest's log
	s.refuses(g, p, "", "call refused: its connection is less protected than the export demands")
	other := newAuthority(t, t.TempDir(), "ca")
	other.issue("client", guestName, time.Now().Add(time.Hour))
	g.copyFiles("/etc/tlshd", other.files("client.pem", "client.key")...)
	s.refuses(g, p, "xprtsec=mtls", "unknown authority")
	a.issue("client", guestName, time.Now().Add(-time.Minute))
	g.copyFiles("/etc/tlshd", a.files("client.pem", "client.key")...)
	s.refuses(g, p, "xprtsec=mtls", "expired")
	a.revoke("crl.pem", a.issue("client", guestName, time.Now().Add(time.Hour)))
	g.copyFiles("/etc/tlshd", a.files("client.pem", "client.key")...)
	s.refuses(g, p, "xprtsec=mtls", "revoked")
	quiet(t, g.Guest, weak)
}

// lookInterval is the time after which our server has looked at its files again, and after which it
// logs another failed handshake.
const lookInterval = 1100 * time.Millisecond

// refuses: the guest cannot use a mount with options, and the server's log says why.
func (s *server) refuses(g *secureGuest, p securePeer, options, why string) {
	s.t.Helper()
	time.Sleep(lookInterval)
	before := len(s.log.String())
	out := run(s.t, g.Guest, "("+p.at("tcp", options)+") && ls -l /mnt; umount /mnt; true")
	said := s.log.String()[before:]
	if strings.Contains(out, "hello.txt") || !strings.Contains(out, "mount.nfs: ") || !strings.Contains(said, why) {
		s.t.Errorf("options %q: the guest said %q, the server %q; want a refusal and %q", options, out, said, why)
	}
}

// mountsTLS: the guest mounts a server with both kinds of TLS.
func mountsTLS(t *testing.T, g *guest.Guest, p securePeer) {
	t.Helper()
	for _, sec := range []string{"xprtsec=tls", "xprtsec=mtls"} {
		readsSmall(t, g, p, "tcp", sec)
		run(t, g, p.at("tcp", sec)+client1MB)
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
	readsSmall(t, g.Guest, p, "tcp", "xprtsec=tls")
}
