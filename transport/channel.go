// Channels: how a connection protects its bytes.

package transport

import (
	"crypto/tls"
	"fmt"
)

// XprtSec is a connection's protection, in ascending order. The names are those of the Linux mount
// option xprtsec.
type XprtSec uint8

const (
	XprtNone XprtSec = iota // in clear
	XprtTLS                 // TLS; the client has no verified certificate
	XprtMTLS                // TLS; both ends have verified certificates
)

var xprtSecNames = [...]string{"none", "tls", "mtls"}

func (s XprtSec) String() string {
	if int(s) >= len(xprtSecNames) {
		return fmt.Sprintf("xprtsec(%d)", uint8(s))
	}
	return xprtSecNames[s]
}

// ParseXprtSec returns the XprtSec with this name.
func ParseXprtSec(name string) (XprtSec, error) {
	for s, known := range xprtSecNames {
		if name == known {
			return XprtSec(s), nil
		}
	}
	return 0, fmt.Errorf("%q is none of none, tls, mtls", name)
}

// A Channel is a connection's protection, the same for all calls of the connection after its
// handshake.
type Channel struct {
	TLS    *tls.ConnectionState // nil: in clear; read only
	Kernel bool                 // the kernel encrypts and decrypts the session, not this process

	client bool // this end is the client
	shown  bool // the client has presented a certificate
}

// fields returns names and values for a log line about a TLS session.
func (c Channel) fields() []any {
	f := []any{"xprtsec", c.Level().String(), "version", tls.VersionName(c.TLS.Version), "cipher", tls.CipherSuiteName(c.TLS.CipherSuite)}
	if c.Kernel {
		f = append(f, "kernel", true)
	}
	if c.Level() == XprtMTLS {
		f = append(f, "client", c.TLS.PeerCertificates[0].Subject.String())
	}
	return f
}

// Cipher returns the name of the cipher suite; "": in clear.
func (c Channel) Cipher() string {
	if c.TLS == nil {
		return ""
	}
	return tls.CipherSuiteName(c.TLS.CipherSuite)
}

// Level returns the protection. On the server a client's certificate counts only with a verified
// chain.
func (c Channel) Level() XprtSec {
	switch {
	case c.TLS == nil:
		return XprtNone
	case c.client && c.shown, !c.client && len(c.TLS.VerifiedChains) > 0:
		return XprtMTLS
	}
	return XprtTLS
}
