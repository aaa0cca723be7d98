// Why a connection gets no TLS session.

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A TLSFailure is the kind of a TLSError.
type TLSFailure uint8

const (
	TLSOther       TLSFailure = iota // see the error
	TLSNotOffered                    // the server has no TLS, or a middle box has removed its offer
	TLSProbeReply                    // the answer to the probe is invalid
	TLSClearBytes                    // bytes in clear during the handshake
	TLSTimeout                       // the peer did not finish in time
	TLSCutOff                        // the connection ended during the handshake
	TLSVersion                       // no common version: TLS 1.3 is required
	TLSProtocol                      // another protocol than "sunrpc" (ALPN)
	TLSName                          // the certificate has another name
	TLSUnknownCA                     // no trusted authority has signed the certificate
	TLSExpired                       // the certificate is expired, or not yet valid
	TLSCertificate                   // the certificate is missing, revoked or not for this use
	TLSPeer                          // the peer ended the handshake with an alert
	TLSPeerLeft                      // the peer got this end's certificate, and left without an alert
	tlsFailures
)

var tlsFailureNames = [tlsFailures]string{
	TLSOther:       "other",
	TLSNotOffered:  "not_offered",
	TLSProbeReply:  "probe_reply",
	TLSClearBytes:  "clear_bytes",
	TLSTimeout:     "timeout",
	TLSCutOff:      "cut_off",
	TLSVersion:     "version",
	TLSProtocol:    "protocol",
	TLSName:        "name",
	TLSUnknownCA:   "unknown_authority",
	TLSExpired:     "expired",
	TLSCertificate: "certificate",
	TLSPeer:        "peer_alert",
	TLSPeerLeft:    "peer_left",
}

// String returns words joined by underscores, such as "unknown_authority".
func (f TLSFailure) String() string { return nameOfFailure(f) }

func nameOfFailure(f TLSFailure) string {
	if f < tlsFailures {
		return tlsFailureNames[f]
	}
	return tlsFailureNames[TLSOther]
}

// tlsFailureTexts are a client's texts. The cause follows, if it says more.
var tlsFailureTexts = [tlsFailures]string{
	TLSOther:       "the TLS handshake failed",
	TLSNotOffered:  "it offers no TLS, or something between removed the offer",
	TLSProbeReply:  "its answer to the TLS probe is invalid",
	TLSClearBytes:  "it sent bytes that are not TLS in the handshake",
	TLSTimeout:     "it did not finish the TLS handshake in time",
	TLSCutOff:      "the connection was cut in the TLS handshake",
	TLSVersion:     "it has no TLS 1.3",
	TLSProtocol:    "its TLS is for another protocol (ALPN)",
	TLSName:        "its certificate is for another name",
	TLSUnknownCA:   "its certificate is from an unknown authority",
	TLSExpired:     "its certificate has expired, or is not valid yet",
	TLSCertificate: "its certificate is refused",
	TLSPeer:        "it refused the TLS handshake",
	TLSPeerLeft:    "it ended the connection after it got this client's certificate, and gave no reason",
}

// A TLSError means no usable TLS session with the server: the client has sent no call but probes.
// It wraps an *AuthError, too, because a failed handshake is reported like a refusal by AUTH_ERROR
// (RFC 9289 §4.1).
type TLSError struct {
	Failure TLSFailure
	Err     error // nil: Failure says everything
}

func (e *TLSError) Error() string {
	text := tlsFailureTexts[TLSOther]
	if e.Failure < tlsFailures {
		text = tlsFailureTexts[e.Failure]
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + strings.TrimPrefix(plainCause(e.Err).Error(), "tls: ")
}

// Unwrap returns the cause and an *AuthError.
func (e *TLSError) Unwrap() []error {
	auth := &AuthError{Stat: oncrpc.AuthFailed}
	if e.Err == nil {
		return []error{auth}
	}
	return []error{e.Err, auth}
}

// errClearBytes means that bytes in clear followed a probe.
var errClearBytes = errors.New("bytes in clear after the TLS probe")

// A refusedCert is an error of tls.Config.VerifyConnection.
type refusedCert struct{ err error }

func (e *refusedCert) Error() string { return e.err.Error() }
func (e *refusedCert) Unwrap() error { return e.err }

// tlsFailure classifies a handshake's error.
func tlsFailure(err error) TLSFailure {
	var (
		clear   tls.RecordHeaderError
		refused *refusedCert
		invalid *tls.CertificateVerificationError
		op      *net.OpError
	)
	switch {
	case errors.Is(err, errClearBytes), errors.As(err, &clear):
		return TLSClearBytes
	case errors.Is(err, os.ErrDeadlineExceeded):
		return TLSTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, ErrClosed):
		return TLSCutOff
	case errors.Is(err, errNotRDMA):
		return TLSProtocol
	case errors.As(err, &refused):
		return TLSCertificate
	case errors.As(err, &invalid):
		return certFailure(invalid.Err)
	case errors.As(err, &op) && op.Op == "remote error":
		return TLSPeer
	}
	return TLSOther
}

// leftByPeer reports whether the peer closed or reset the connection.
func leftByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// certFailure classifies a certificate's invalidity.
func certFailure(err error) TLSFailure {
	var (
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &name):
		return TLSName
	case errors.As(err, &unknown):
		return TLSUnknownCA
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return TLSExpired
	}
	return TLSCertificate
}
