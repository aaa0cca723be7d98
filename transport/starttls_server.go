// The configuration of a server's handshake, and why one failed.

package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// A helloWatch remembers parts of the handshake that explain a failure.
type helloWatch struct {
	old, otherALPN bool     // of the client's first message
	needsCert      bool     // the configuration requires a certificate
	names          []string // in the server's certificate
}

// serverTLS returns the configuration for one session of the protocol, without the parts of cfg
// that RPC-with-TLS excludes.
func serverTLS(cfg *tls.Config, alpn string) (*tls.Config, *helloWatch) {
	w := &helloWatch{}
	cfg = strictTLS(cfg, alpn)
	// A server MUST request the client's identity (RFC 9289 §4.2). Anonymous clients may have
	// none.
	if cfg.ClientAuth == tls.NoClientCert {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	// Each session is checked against the present certificates and lists of revoked ones. A ticket
	// would also permit data before the handshake's end, which MUST NOT be used (RFC 9289 §6).
	cfg.SessionTicketsDisabled = true
	w.needsCert = cfg.ClientAuth == tls.RequireAnyClientCert || cfg.ClientAuth == tls.RequireAndVerifyClientCert
	if len(cfg.Certificates) > 0 && cfg.Certificates[0].Leaf != nil {
		leaf := cfg.Certificates[0].Leaf
		w.names = leaf.DNSNames
		for _, ip := range leaf.IPAddresses {
			w.names = append(slices.Clip(w.names), ip.String())
		}
	}
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		w.old = !slices.Contains(h.SupportedVersions, tls.VersionTLS13)
		w.otherALPN = len(h.SupportedProtos) > 0 && !slices.Contains(h.SupportedProtos, alpn)
		return nil, nil
	}
	return cfg, w
}

// reason classifies a failure of the stream's handshake.
func (w *helloWatch) reason(err error, s *tlsStream) TLSFailure {
	switch {
	case w.old:
		return TLSVersion
	case w.otherALPN:
		return TLSProtocol
	}
	why := tlsFailure(err)
	var op *net.OpError
	wrote := errors.As(err, &op) && op.Op == "write" // perhaps the certificate did not leave
	switch {
	case why == TLSOther && w.needsCert: // crypto/tls has no error value for a missing certificate
		why = TLSCertificate
	case why == TLSCutOff && leftByPeer(err) && !wrote && s.wire.sealed.Load() > helloRetryMax:
		why = TLSPeerLeft
	}
	return why
}

// helloRetryMax is more than the bytes of a HelloRetryRequest and a change_cipher_spec (RFC 8446
// §4.1.4). A server that has sent more has sent its certificate.
const helloRetryMax = 256

// explain returns the cause for the log. If one end refused the other's certificate, or the client
// left after it, the text ends with a remedy.
func (w *helloWatch) explain(why TLSFailure, err error) error {
	var alert *net.OpError
	switch {
	case why == TLSPeerLeft:
		return fmt.Errorf("the client ended the connection after it got this server's certificate, and gave no reason: "+
			"most likely it does not trust the certificate's authority, or uses a name that is not in the certificate: %s", w.cure())
	case why == TLSPeer && errors.As(err, &alert) && strings.Contains(alert.Err.Error(), "certificate"):
		return fmt.Errorf("the client refuses this server's certificate (%w): %s", alert.Err, w.cure())
	case errors.As(err, new(*refusedCert)):
		return err // the configuration's check has its own words
	case why == TLSUnknownCA:
		return fmt.Errorf("%w: give this server the certificate of the client's authority (--tls-client-ca of nfsrdmad)", err)
	case why == TLSExpired:
		return fmt.Errorf("%w: renew the client's certificate, or set the clocks by NTP", err)
	case why == TLSCertificate:
		return fmt.Errorf("%w: give the client a certificate for clients (nfsrdmad cert client)", err)
	}
	return err
}

// namesShown limits the names in a line of the log.
const namesShown = 4

// cure returns advice on how to make a client accept the server's certificate.
func (w *helloWatch) cure() string {
	by := ""
	if n := len(w.names); n > 0 {
		by = ", and mount by a name in the certificate: " + strings.Join(w.names[:min(n, namesShown)], ", ")
	}
	return "give the client the authority's certificate (cacert= of nfsrdma, x509.truststore= in /etc/tlshd.conf of Linux)" + by
}
