// Tests of the settings: lists of flavors, and contradictions.

package secure

import (
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

func TestParseSec(t *testing.T) {
	for in, want := range map[string]string{
		"sys": "sys", "krb5": "krb5", "krb5p:krb5i": "krb5p:krb5i", "krb5:sys:krb5": "krb5:sys", "sys:krb5:krb5i:krb5p": "sys:krb5:krb5i:krb5p",
		"": "", "none": "", "krb5:": "", ":sys": "", "KRB5": "", "krb5,sys": "", "spkm3": "", "krb5 ": "",
	} {
		got, err := ParseSec(in)
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if (err == nil) != (want != "") {
			t.Errorf("%q: got error %v, want one only for an invalid list", in, err)
		}
	}
}

func TestFlavors(t *testing.T) {
	for in, want := range map[string][]oncrpc.Flavor{
		"": nil, "sys": {oncrpc.FlavorSys}, "krb5p:krb5": {oncrpc.FlavorKrb5p, oncrpc.FlavorKrb5}, "krb5i:sys": {oncrpc.FlavorKrb5i, oncrpc.FlavorSys},
	} {
		s := Settings{Sec: in}
		if got := s.Flavors(); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
		if got, want := s.Kerberos(), strings.HasPrefix(in, "krb5p"); got != want {
			t.Errorf("%q needs Kerberos: got %v, want %v", in, got, want)
		}
	}
	if got, want := strings.Join(SecWords(), " "), "sys krb5 krb5i krb5p"; got != want {
		t.Errorf("words: got %q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	const tls, mtls = transport.XprtTLS, transport.XprtMTLS
	for _, tt := range []struct {
		s    Settings
		want string
	}{
		{Settings{}, ""},
		{Settings{CACert: "f"}, "cacert has no effect without TLS: add xprtsec=tls"},
		{Settings{Cert: "f"}, "cert has no effect without TLS: add xprtsec=tls"},
		{Settings{Key: "f"}, "key has no effect without TLS: add xprtsec=tls"},
		{Settings{CRL: "f"}, "crl has no effect without TLS: add xprtsec=tls"},
		{Settings{TLSName: "n"}, "tlsname has no effect without TLS: add xprtsec=tls"},
		{Settings{XprtSec: tls, CACert: "f", CRL: "g", TLSName: "n"}, ""},
		{Settings{XprtSec: tls, CRL: "g"}, "crl needs the certificate of the list's authority: add cacert=FILE"},
		{Settings{XprtSec: tls, Cert: "f"}, "xprtsec=tls sends no certificate of this client: write xprtsec=mtls"},
		{Settings{XprtSec: tls, Key: "f"}, "xprtsec=tls sends no certificate of this client: write xprtsec=mtls"},
		{Settings{XprtSec: mtls}, "xprtsec=mtls needs a certificate of this client: add cert=FILE and key=FILE"},
		{Settings{XprtSec: mtls, Key: "f"}, "xprtsec=mtls needs a certificate of this client: add cert=FILE and key=FILE"},
		{Settings{XprtSec: mtls, Cert: "f"}, "xprtsec=mtls needs a certificate of this client: add cert=FILE and key=FILE"},
		{Settings{XprtSec: mtls, Cert: "f", Key: "g"}, ""},
		{Settings{Sec: "sys", Keytab: "k"}, "keytab has no effect with sec=sys: Kerberos is sec=krb5"},
		{Settings{Sec: "sys", RootCache: true}, "rootcred has no effect with sec=sys: Kerberos is sec=krb5"},
		{Settings{Sec: "sys:krb5i", Keytab: "k", RootCache: true}, ""},
		{Settings{Keytab: "k", RootCache: true}, ""},
	} {
		got := ""
		if err := tt.s.Check(Option); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.s, got, tt.want)
		}
	}
}
