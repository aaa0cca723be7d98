// The levels of protection and their names.

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestXprtSecNames: each level's name leads back to the level, and other names are refused.
func TestXprtSecNames(t *testing.T) {
	for want, name := range map[XprtSec]string{XprtNone: "none", XprtTLS: "tls", XprtMTLS: "mtls"} {
		got, err := ParseXprtSec(name)
		if err != nil || got != want {
			t.Errorf("ParseXprtSec(%q) = %v, %v; want %v", name, got, err, want)
		}
		if want.String() != name {
			t.Errorf("%d.String() = %q, want %q", want, want, name)
		}
	}
	for _, bad := range []string{"", "TLS", "tls ", "xprtsec(3)"} {
		if got, err := ParseXprtSec(bad); err == nil {
			t.Errorf("ParseXprtSec(%q) = %v, want an error", bad, got)
		}
	}
	if got, want := XprtSec(3).String(), "xprtsec(3)"; got != want {
		t.Errorf("String of an unknown level = %q, want %q", got, want)
	}
}

// TestChannelLevels: only a verified certificate makes mutual TLS, not a certificate as such.
func TestChannelLevels(t *testing.T) {
	conformance.Proves(t, "R9289-064")
	cert := []*x509.Certificate{{}}
	for _, c := range []struct {
		name string
		tls  *tls.ConnectionState
		want XprtSec
	}{
		{"in clear", nil, XprtNone},
		{"anonymous", &tls.ConnectionState{}, XprtTLS},
		{"unverified", &tls.ConnectionState{PeerCertificates: cert}, XprtTLS},
		{"verified", &tls.ConnectionState{PeerCertificates: cert, VerifiedChains: [][]*x509.Certificate{cert}}, XprtMTLS},
	} {
		if got := (Channel{TLS: c.tls}).Level(); got != c.want {
			t.Errorf("%s: level %v, want %v", c.name, got, c.want)
		}
	}
}
