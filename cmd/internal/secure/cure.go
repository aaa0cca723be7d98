// Remedies for failed TLS handshakes.

package secure

import "github.com/nfsrdma/nfsrdma/transport"

// TLSCure returns the remedy for a failed handshake.
func TLSCure(f transport.TLSFailure) string {
	switch f {
	case transport.TLSNotOffered:
		return "have the server serve TLS with a certificate (nfsrdmad cert makes one), or mount with xprtsec=none"
	case transport.TLSName:
		return "name the server as its certificate does, or give that name by --tls-name (tlsname= of mounts)"
	case transport.TLSUnknownCA:
		return "give the certificate of the server's authority by --cacert"
	case transport.TLSExpired:
		return "renew the certificate; if it is valid, set the clock of this machine"
	case transport.TLSVersion:
		return "the server must speak TLS 1.3"
	case transport.TLSProtocol:
		return "the port's TLS is for another protocol: give the server's NFS port"
	case transport.TLSCertificate:
		return "have the server use a certificate that is for servers and not revoked (nfsrdmad cert makes one)"
	case transport.TLSPeer:
		return "see the server's log: it may want a certificate of this client (--xprtsec mtls --cert FILE --key FILE), or refuse the one it got"
	case transport.TLSPeerLeft:
		return "most likely it refuses the certificate: have it trust the certificate's authority (nfsrdmad: --tls-client-ca, Linux: x509.truststore= in /etc/tlshd.conf), " +
			"check its dates and use (nfsrdmad cert show FILE), and see the server's log"
	}
	return "see the server's log, and whether a firewall or proxy between breaks TLS"
}
