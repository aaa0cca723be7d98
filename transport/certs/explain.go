// Errors of handshakes: the reason, and the cure in one line.

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// A Reason is why a handshake failed, in one word for metrics.
type Reason string

// The reasons.
const (
	ReasonName        Reason = "name"        // the certificate is for other names
	ReasonExpired     Reason = "expired"     // or not valid yet
	ReasonUnknownCA   Reason = "unknown_ca"  // no trusted authority has issued it
	ReasonRevoked     Reason = "revoked"     // on its issuer's revocation list
	ReasonCRL         Reason = "crl"         // a revocation list is missing or expired
	ReasonUsage       Reason = "usage"       // the certificate is for another purpose, or broken
	ReasonNone        Reason = "none"        // the client has no certificate
	ReasonVersion     Reason = "version"     // no TLS 1.3
	ReasonProtocol    Reason = "protocol"    // the peer does not follow TLS
	ReasonRefused     Reason = "refused"     // the peer has refused, by an alert
	ReasonInterrupted Reason = "interrupted" // the connection ended, or took too long
	ReasonOther       Reason = "other"
)

// A HandshakeError is a failed handshake. Its text has the cure.
type HandshakeError struct {
	Reason Reason
	text   string
	err    error
}

func (e *HandshakeError) Error() string { return e.text }

// Unwrap returns the error of crypto/tls, or nil.
func (e *HandshakeError) Unwrap() error { return e.err }

func failure(r Reason, format string, args ...any) *HandshakeError {
	return &HandshakeError{Reason: r, text: fmt.Sprintf(format, args...)}
}

// Explain returns the reason for an error from a handshake, or from a Read after it: only then does
// a client learn that the server has refused its certificate. A nil err gives nil.
func Explain(err error) *HandshakeError {
	if err == nil {
		return nil
	}
	var known *HandshakeError
	if errors.As(err, &known) {
		return known
	}
	e := explainCertificate(err)
	if e == nil {
		e = explainProtocol(err)
	}
	e.err = err
	return e
}

// explainCertificate explains a refused certificate; nil for another error.
func explainCertificate(err error) *HandshakeError {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var any *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return failure(ReasonName, "the certificate is not for %s, but for %s: use such a name, or make a certificate with this one",
			printable(name.Host), names(name.Certificate))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return explainValidity(&invalid)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return failure(ReasonUsage, "the certificate of %s is not for this purpose (extended key usage): use one for servers or clients", subject(invalid.Cert))
	case errors.As(err, &unknown) && unknown.Cert != nil:
		return failure(ReasonUnknownCA, "the certificate of %s is from %s, not from a trusted authority: add the certificate of its authority",
			subject(unknown.Cert), printable(unknown.Cert.Issuer.String()))
	case errors.As(err, &any):
		return failure(ReasonUsage, "the certificate is refused: %s: make another", printable(any.Err.Error()))
	case strings.Contains(err.Error(), "didn't provide a certificate"):
		return failure(ReasonNone, "the client has no certificate: give it one, or do not require it")
	}
	return nil
}

// explainValidity explains why a certificate is not valid now.
func explainValidity(e *x509.CertificateInvalidError) *HandshakeError {
	if strings.Contains(e.Detail, " is before ") {
		return failure(ReasonExpired, "the certificate of %s is valid only from %s: check the clocks", subject(e.Cert), date(e.Cert.NotBefore))
	}
	return failure(ReasonExpired, "the certificate of %s expired on %s: renew it", subject(e.Cert), date(e.Cert.NotAfter))
}

// alerts explain a peer's refusal.
var alerts = map[tls.AlertError]string{
	40:  "no common parameters: check the peer's log",
	42:  "our certificate is bad: check the peer's log",
	43:  "our certificate has a type that it cannot use: make one with ECDSA P-256 or RSA",
	44:  "our certificate is revoked: use another",
	45:  "our certificate has expired: renew it",
	46:  "our certificate is not acceptable: check the peer's log",
	48:  "our certificate is from an authority that it does not know: add that authority to the peer's file",
	70:  "it has no common version of TLS: it must have TLS 1.3",
	116: "it requires a certificate: name the file with ours",
	120: "it does not serve RPC on this port: check the port",
}

// explainAlert explains a peer's alert. crypto/tls does not export the alert's type, so the text
// identifies it.
func explainAlert(alert error) *HandshakeError {
	for code, why := range alerts {
		if code.Error() == alert.Error() {
			return failure(ReasonRefused, "the peer refuses the connection: %s", why)
		}
	}
	return failure(ReasonRefused, "the peer refuses the connection: %s: check the peer's log", alert)
}

// explainProtocol explains the other errors.
func explainProtocol(err error) *HandshakeError {
	var remote *net.OpError
	var header tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.As(err, &remote) && remote.Op == "remote error":
		return explainAlert(remote.Err)
	case errors.As(err, &header):
		return failure(ReasonProtocol, "the peer does not speak TLS here: check the port, and the peer's xprtsec")
	case strings.Contains(text, "unsupported versions") || strings.Contains(text, "unsupported protocol version"):
		return failure(ReasonVersion, "the peer has no TLS 1.3: update it")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failure(ReasonInterrupted, "the handshake took too long: check the network, and the peer's log")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failure(ReasonInterrupted, "the connection was cut in the handshake: check the peer's log")
	}
	return failure(ReasonOther, "the handshake failed: %s", printable(text))
}

// namesShown limits the names in an error.
const namesShown = 8

// names lists the names in a certificate.
func names(c *x509.Certificate) string {
	p := factsOf(c)
	all := append([]string{}, p.DNS...)
	for _, a := range p.IPs {
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return "no name at all (" + subject(c) + ")"
	}
	more := ""
	if n := len(all) - namesShown; n > 0 {
		all, more = all[:namesShown], fmt.Sprintf(" and %d more", n)
	}
	for i := range all {
		all[i] = printable(all[i])
	}
	return strings.Join(all, ", ") + more
}

// subject names a certificate's owner.
func subject(c *x509.Certificate) string {
	if s := c.Subject.String(); s != "" {
		return printable(s)
	}
	p := factsOf(c)
	for _, list := range [][]string{p.DNS, p.Emails, p.URIs} {
		if len(list) > 0 {
			return printable(list[0])
		}
	}
	return "serial number " + serial(c.SerialNumber)
}

// maxShown limits a peer's text in an error, in bytes.
const maxShown = 200

// printable returns a peer's text for one line of a log.
func printable(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "..."
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
