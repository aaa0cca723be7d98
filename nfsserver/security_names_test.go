// Names in certificates: each kind of name has patterns of its own.

package nfsserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestNamesOfOtherKinds: a pattern for hosts matches neither a mail address in that domain, as in a
// user's certificate, nor a URI.
func TestNamesOfOtherKinds(t *testing.T) {
	urn, err := url.Parse("urn:x.example.org")
	must.Succeed(t, err)
	for _, row := range []struct {
		options string
		leaf    x509.Certificate
		want    bool
	}{
		{"cert=*.example.org", x509.Certificate{EmailAddresses: []string{"alice@mail.example.org"}}, false},
		{"cert=*.example.org", x509.Certificate{URIs: []*url.URL{urn}}, false},
		{"cert=*.example.org", x509.Certificate{DNSNames: []string{"alice@mail.example.org"}}, false},
		{"cert=*@mail.example.org", x509.Certificate{EmailAddresses: []string{"alice@mail.example.org"}}, true},
		{"cert=urn:*.example.org", x509.Certificate{URIs: []*url.URL{urn}}, true},
		{"cert=2001:db8::*", x509.Certificate{IPAddresses: []net.IP{net.ParseIP("2001:db8::7")}}, true},
		{"cert=*", x509.Certificate{EmailAddresses: []string{"alice@mail.example.org"}}, true},
	} {
		state := transport.Channel{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&row.leaf, ourCA}}}}
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *(xprtsec=mtls,"+row.options+")\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler)})
		if got := s.StrongEnough(callOf(asys, state, &nfs3.AccessArgs{FH: s.RootHandle("/x")}), false); got != row.want {
			t.Errorf("%s for %v %v %v: got %t, want %t", row.options, row.leaf.DNSNames, row.leaf.EmailAddresses, row.leaf.URIs, got, row.want)
		}
	}
}
