// The security flags: their values, and the errors in the words of flags.

package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

func TestSecurityFlags(t *testing.T) {
	for _, tt := range []struct {
		flags Flags
		want  secure.Settings
		err   string
	}{
		{},
		{flags: Flags{Sec: "krb5p:krb5", XprtSec: "none"}, want: secure.Settings{Sec: "krb5p:krb5"}},
		{flags: Flags{XprtSec: "tls", Files: secure.Settings{CACert: "a", TLSName: "n"}}, want: secure.Settings{XprtSec: transport.XprtTLS, CACert: "a", TLSName: "n"}},
		{flags: Flags{XprtSec: "mtls", Files: secure.Settings{Cert: "c", Key: "k"}}, want: secure.Settings{XprtSec: transport.XprtMTLS, Cert: "c", Key: "k"}},
		{flags: Flags{Sec: "krb"}, err: `--sec "krb": must be sys, krb5, krb5i or krb5p, or several with colons between them`},
		{flags: Flags{XprtSec: "ssl"}, err: `--xprtsec "ssl": must be none, tls or mtls`},
		{flags: Flags{XprtSec: "mtls"}, err: "--xprtsec mtls needs a certificate of this client: add --cert FILE and --key FILE"},
		{flags: Flags{Files: secure.Settings{TLSName: "n"}}, err: "--tls-name has no effect without TLS: add --xprtsec tls"},
		{flags: Flags{Sec: "sys", Files: secure.Settings{Keytab: "k"}}, err: "--keytab has no effect with --sec sys: Kerberos is --sec krb5"},
	} {
		got, err := tt.flags.Security()
		if tt.err == "" && got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.flags, got, tt.want)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.err {
			t.Errorf("%+v: got error %q, want %q", tt.flags, text, tt.err)
		}
	}
}

// TestServerLeftAfterCertificate: the error says which end closed the connection, and the likely
// reason. A mount tries again, because the server may have stopped just then.
func TestServerLeftAfterCertificate(t *testing.T) {
	err := new(Session).explainTLS(nfsclient.Target{Host: "server"}, &transport.TLSError{Failure: transport.TLSPeerLeft})
	const want = "no TLS with the server: it ended the connection after it got this client's certificate, and gave no reason: most likely it refuses the certificate: "
	var again Unreachable
	if !errors.As(err, &again) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--tls-client-ca") {
		t.Errorf("got %v, want an Unreachable with %q", err, want)
	}
}
