// Remedies: one for each failure of TLS and Kerberos, in the words of the user.

package secure

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// alert returns the error for an alert that the peer has sent.
func alert(text string) error {
	return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)}
}

func TestTLSCure(t *testing.T) {
	invalid := func(c *x509.Certificate) error { return x509.CertificateInvalidError{Cert: c, Reason: x509.Expired} }
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	own := Settings{CACert: "ca", Cert: "own"}
	for _, tt := range []struct {
		s    Settings
		kind transport.TLSFailure
		err  error
		want string
	}{
		{Settings{}, transport.TLSNotOffered, nil, "or do without: xprtsec=none"},
		{Settings{}, transport.TLSName, nil, "by tlsname=NAME"},
		{Settings{}, transport.TLSUnknownCA, nil, "authority by cacert=FILE"},
		{own, transport.TLSUnknownCA, nil, "by cacert=FILE: ca is of another one"},
		{own, transport.TLSExpired, invalid(&x509.Certificate{NotAfter: earlier}), "renew the server's certificate"},
		{own, transport.TLSExpired, invalid(&x509.Certificate{NotAfter: earlier, IsCA: true}), "renew the authority's certificate, and give the new one by cacert=FILE"},
		{own, transport.TLSExpired, invalid(&x509.Certificate{NotBefore: later, NotAfter: later}), "set the clocks"},
		{own, transport.TLSExpired, nil, "renew the server's certificate"},
		{own, transport.TLSCertificate, &certs.HandshakeError{Reason: certs.ReasonRevoked}, "have the server use another certificate"},
		{own, transport.TLSCertificate, &certs.HandshakeError{Reason: certs.ReasonCRL}, "list of the server's authority by crl=FILE"},
		{own, transport.TLSCertificate, errors.New("x"), "have the server use a certificate for servers"},
		{own, transport.TLSVersion, nil, "it must speak TLS 1.3"},
		{own, transport.TLSProtocol, nil, "give the server's NFS port"},
		{own, transport.TLSPeer, alert("protocol version not supported"), "it must speak TLS 1.3"},
		{own, transport.TLSPeer, alert("no application protocol"), "give the server's NFS port"},
		{Settings{}, transport.TLSPeer, alert("certificate required"), "xprtsec=mtls, cert=FILE and key=FILE"},
		{own, transport.TLSPeer, alert("unknown certificate authority"), "have the server trust the authority of own"},
		{own, transport.TLSPeer, alert("expired certificate"), "renew the certificate own"},
		{own, transport.TLSPeer, alert("revoked certificate"), "not revoked by cert=FILE"},
		{own, transport.TLSPeer, alert("bad certificate"), "another certificate by cert=FILE"},
		{own, transport.TLSPeerLeft, nil, "most likely it refuses the certificate"},
		{own, transport.TLSCutOff, nil, "a firewall or proxy"},
	} {
		if got := tt.s.TLSCure(&transport.TLSError{Failure: tt.kind, Err: tt.err}, Option); !strings.Contains(got, tt.want) {
			t.Errorf("%v, %v: got %q, want %q", tt.kind, tt.err, got, tt.want)
		}
	}
}

// TestKerberosCure: for failures at this machine, no remedy is on the server.
func TestKerberosCure(t *testing.T) {
	remote := func(code uint32) error {
		return fmt.Errorf("x: %w", &gss.Error{Major: gss.Failure, Minor: 0x96c73a00 + code})
	}
	local := func(code int32) error { return fmt.Errorf("x: %w", &TicketError{Code: code, Err: errors.New("y")}) }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{local(0), "run kinit"},
		{local(krb5.CodeNoKDC), "see that the KDC runs"},
		{local(krb5.CodeServiceUnknown), "mount by the name that the realm knows"},
		{local(krb5.CodeClientUnknown), "extract the keytab again"},
		{local(krb5.CodeNoEnctype), "an AES key"},
		{local(krb5.CodeSkew), "set the clocks"},
		{fmt.Errorf("x: %w", ErrLate), "see that the KDC runs"},
		{remote(krb5.CodeSkew), "set the clocks"},
		{remote(krb5.CodeNoKey), "on the server, extract the key of nfs/pc"},
		{remote(krb5.CodeKeyVersion), "on the server, extract the key of nfs/pc"},
		{remote(krb5.CodeIntegrity), "on the server, extract the key of nfs/pc"},
		{remote(60), "see the server's log"},
		{&transport.AuthError{Stat: oncrpc.AuthRejectedCred}, "have the server serve Kerberos"},
		{&transport.AuthError{Stat: oncrpc.AuthFailed}, "make this principal a user of the server"},
		{&transport.ConnectError{Err: errors.New("y")}, "try again"},
	} {
		if got := KerberosCure(tt.err, "pc"); !strings.Contains(got, tt.want) {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestKeytabWithoutConfiguration: a machine without krb5.conf still uses the usual keytab name.
func TestKeytabWithoutConfiguration(t *testing.T) {
	t.Setenv("KRB5_CONFIG", filepath.Join(t.TempDir(), "krb5.conf"))
	t.Setenv("KRB5_KTNAME", "")
	if got, want := newKerberos(&Settings{}, nil).Keytab(), "/etc/krb5.keytab"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCodeOfTicketError: an error about a user's tickets keeps the reason that the KDC gave.
func TestCodeOfTicketError(t *testing.T) {
	r := newRealm(t)
	k, temp, _ := here(t, r, Settings{})
	kinit(t, r, temp, alice, "alice")
	_, err := (&initiator{k: k, uid: alice, server: "nobody.test"}).Start(t.Context())
	var e *TicketError
	if !errors.As(err, &e) || e.Code != krb5.CodeServiceUnknown {
		t.Errorf("unknown service: got %v, want the code %d", err, krb5.CodeServiceUnknown)
	}
	r.Close()
	if err = start(t, k, alice); !errors.As(err, &e) || e.Code != krb5.CodeNoKDC {
		t.Errorf("without a KDC: got %v, want the code %d", err, krb5.CodeNoKDC)
	}
}
