// Remedies for failed TLS handshakes, and for Kerberos.

package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Writer formats a security option as its user writes it. Without a value it returns the name.
type Writer func(name, value string) string

// Flag writes an option as a flag of commands: --cacert FILE.
func Flag(name, value string) string {
	if name == "tlsname" {
		name = "tls-name"
	}
	if value == "" {
		return "--" + name
	}
	return "--" + name + " " + value
}

// Option writes an option as mount -o takes it: cacert=FILE.
func Option(name, value string) string {
	if value == "" {
		return name
	}
	return name + "=" + value
}

// TLSCure returns the remedy for a failed handshake with a server.
func (s *Settings) TLSCure(e *transport.TLSError, write Writer) string {
	switch e.Failure {
	case transport.TLSNotOffered:
		return "have the server serve TLS with a certificate (nfsrdmad cert makes one), or do without: " + write("xprtsec", "none")
	case transport.TLSName:
		return "name the server as its certificate does, or give that name by " + write("tlsname", "NAME")
	case transport.TLSUnknownCA:
		cure := "give the certificate of the server's authority by " + write("cacert", "FILE")
		if s.CACert != "" {
			cure += ": " + s.CACert + " is of another one"
		}
		return cure
	case transport.TLSExpired:
		return expiredCure(e, write)
	case transport.TLSVersion:
		return "update the server: it must speak TLS 1.3"
	case transport.TLSProtocol:
		return otherProtocol
	case transport.TLSCertificate:
		return certificateCure(e, write)
	case transport.TLSPeer:
		return s.refusalCure(e, write)
	case transport.TLSPeerLeft:
		return "most likely it refuses the certificate: have it trust the certificate's authority (nfsrdmad: --tls-client-ca, Linux: x509.truststore= in /etc/tlshd.conf), " +
			"check its dates and use (nfsrdmad cert show FILE), and see the server's log"
	}
	return "see the server's log, and whether a firewall or proxy between breaks TLS"
}

const otherProtocol = "the port's TLS is for another protocol: give the server's NFS port"

// expiredCure returns the remedy for a certificate of the server's chain that is not valid now.
func expiredCure(e *transport.TLSError, write Writer) string {
	var invalid x509.CertificateInvalidError
	switch known := errors.As(e, &invalid) && invalid.Cert != nil; {
	case known && time.Now().Before(invalid.Cert.NotBefore):
		return "set the clocks of this machine and of the server by NTP (chronyc tracking, timedatectl)"
	case known && invalid.Cert.IsCA:
		return "renew the authority's certificate, and give the new one by " + write("cacert", "FILE")
	}
	return "renew the server's certificate (nfsrdmad cert server NAME --force)"
}

// certificateCure returns the remedy for a server's certificate that this client refuses.
func certificateCure(e *transport.TLSError, write Writer) string {
	var refused *certs.HandshakeError
	if errors.As(e, &refused) {
		switch refused.Reason {
		case certs.ReasonRevoked:
			return "have the server use another certificate (nfsrdmad cert server NAME --force makes one)"
		case certs.ReasonCRL:
			return "give the present list of the server's authority by " + write("crl", "FILE") + " (nfsrdmad cert revoke renews it)"
		}
	}
	return "have the server use a certificate for servers (nfsrdmad cert server NAME makes one)"
}

// Alerts of TLS (RFC 8446 §6) with a remedy.
const (
	alertHandshakeFailure tls.AlertError = 40
	alertCertRevoked      tls.AlertError = 44
	alertCertExpired      tls.AlertError = 45
	alertUnknownCA        tls.AlertError = 48
	alertVersion          tls.AlertError = 70
	alertCertRequired     tls.AlertError = 116
	alertNoProtocol       tls.AlertError = 120
)

// refusalCure returns the remedy for a server's alert. crypto/tls does not export the alert's type,
// so the text identifies it.
func (s *Settings) refusalCure(e *transport.TLSError, write Writer) string {
	var op *net.OpError
	is := func(codes ...tls.AlertError) bool {
		return errors.As(e, &op) && slices.ContainsFunc(codes, func(c tls.AlertError) bool { return c.Error() == op.Err.Error() })
	}
	const another = " (nfsrdmad cert client NAME makes one)"
	switch {
	case is(alertHandshakeFailure, alertVersion):
		return "update the server: it must speak TLS 1.3"
	case is(alertNoProtocol):
		return otherProtocol
	case s.Cert == "":
		return "send a certificate of this client: " + write("xprtsec", "mtls") + ", " + write("cert", "FILE") + " and " + write("key", "FILE") + another
	case is(alertUnknownCA):
		return "have the server trust the authority of " + s.Cert + " (nfsrdmad: --tls-client-ca, Linux: x509.truststore= in /etc/tlshd.conf)"
	case is(alertCertExpired):
		return "renew the certificate " + s.Cert + " (nfsrdmad cert client NAME --force)"
	case is(alertCertRevoked):
		return "give a certificate that is not revoked by " + write("cert", "FILE") + another
	case s.notForClients():
		return "give a certificate for clients by " + write("cert", "FILE") + another + ": " + s.Cert + " is for servers"
	}
	return "give another certificate by " + write("cert", "FILE") + another + ": " + s.Cert + " is refused there, perhaps as a revoked one (its log has the reason)"
}

// notForClients reports whether this client's certificate is only for other purposes.
func (s *Settings) notForClients() bool {
	_, list, err := certs.Read(s.Cert)
	if err != nil || len(list) == 0 || len(list[0].ExtKeyUsage) == 0 {
		return false
	}
	return !slices.Contains(list[0].ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(list[0].ExtKeyUsage, x509.ExtKeyUsageAny)
}

// Remedies for both ends of Kerberos.
const (
	cureClock = "set the clocks of this machine, of the KDC and of the server by NTP (chronyc tracking, timedatectl)"
	cureKDC   = "see that the KDC runs and that port 88 is open: TCP and UDP"
)

// KerberosCure returns the remedy for a call whose security context could not be created. server is
// the name in the mount.
func KerberosCure(err error, server string) string {
	var local *TicketError
	var auth *transport.AuthError
	var gone *transport.ConnectError
	switch code := krb5.Code(err); {
	case errors.As(err, &local):
		return local.Cure()
	case errors.Is(err, ErrLate):
		return cureKDC
	case code == krb5.CodeSkew:
		return cureClock
	case code == krb5.CodeNoKey, code == krb5.CodeKeyVersion, code == krb5.CodeIntegrity:
		return "on the server, extract the key of nfs/" + server + " by kadmin (ktadd -k KEYTAB); klist -ke KEYTAB lists its keys"
	case errors.As(err, &auth) && auth.Stat == oncrpc.AuthRejectedCred:
		return "have the server serve Kerberos: a keytab with a key of nfs/" + server + ", and sec= in the exports file"
	case errors.As(err, &auth) && auth.Stat == oncrpc.AuthFailed:
		return "make this principal a user of the server: one of the same name there, or a line in the file of --idmap"
	case errors.As(err, &gone):
		return "try again: the connection was lost"
	}
	return "see the server's log: it has the reason"
}

// Cure returns the remedy for a user without a ticket.
func (e *TicketError) Cure() string {
	switch e.Code {
	case krb5.CodeServiceUnknown:
		return "mount by the name that the realm knows, or create the server's principal by kadmin (addprinc -randkey nfs/NAME, then ktadd on the server)"
	case krb5.CodeClientUnknown, krb5.CodePreauthFailed:
		return "extract the keytab again by kadmin (ktadd), or run kinit as this user"
	case krb5.CodeNoEnctype:
		return "give the server's principal an AES key by kadmin (ktadd on the server)"
	case krb5.CodeSkew:
		return cureClock
	case krb5.CodeNoKDC:
		return cureKDC
	}
	return "run kinit as this user; klist shows the tickets"
}
