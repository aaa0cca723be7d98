// The check of TLS: the server's offer, and its certificate.

package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/transport"
)

// expirySoon is the time before a certificate's end at which its renewal is due.
const expirySoon = 14 * 24 * time.Hour

// checkTLS makes a TLS session on the TCP port. If no TLS is wanted, it reports the offer only, and
// does not verify the certificate: nothing is sent.
func checkTLS(ctx context.Context, cu *checkup) Finding {
	wanted := cu.Security != nil && cu.Security.XprtSec != transport.XprtNone
	cfg := cu.config("nfs")
	if wanted {
		cfg.TLS = cu.Security.Config(cu.Host)
	} else {
		cfg.TLS = &tls.Config{InsecureSkipVerify: true, ServerName: cu.Host}
	}
	c, err := transport.DialTCP(ctx, cu.portAddr(cu.TCPPort), cfg)
	if err != nil {
		return cu.withoutTLS(wanted, err)
	}
	channel := c.Channel()
	state := channel.TLS
	c.Close()
	if state == nil || len(state.PeerCertificates) == 0 {
		return warn("try again: the connection was lost a moment ago", "no TLS session any more")
	}
	text := fmt.Sprintf("%s, %s, certificate for %s", tls.VersionName(state.Version), channel.Cipher(), certNames(state.PeerCertificates[0]))
	if !wanted {
		return ok("offered, and not asked for (--xprtsec tls): %s, not verified", text)
	}
	end, whose := cu.firstExpiry(state)
	left := end.Sub(cu.Now())
	text += fmt.Sprintf(", valid for %d days", int(left/(24*time.Hour)))
	if left < expirySoon {
		return warn("renew it in time: after that nothing connects", "%s: %s ends on %s", text, whose, end.Format(time.DateOnly))
	}
	return ok("%s", text)
}

// certNames lists the names in a certificate.
func certNames(c *x509.Certificate) string {
	names := append([]string{}, c.DNSNames...)
	for _, a := range c.IPAddresses {
		names = append(names, a.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
}

// firstExpiry returns the first end of a certificate in the server's chain, or of this client's.
func (cu *checkup) firstExpiry(state *tls.ConnectionState) (end time.Time, whose string) {
	end, whose = state.PeerCertificates[0].NotAfter, "the server's certificate"
	if len(state.VerifiedChains) > 0 {
		for _, c := range state.VerifiedChains[0][1:] {
			if c.NotAfter.Before(end) {
				end, whose = c.NotAfter, "its authority "+c.Subject.CommonName
			}
		}
	}
	if own := cu.Security.OwnExpiry(); !own.IsZero() && own.Before(end) {
		end, whose = own, "the certificate of this client"
	}
	return end, whose
}

// withoutTLS returns the finding for a failed handshake.
func (cu *checkup) withoutTLS(wanted bool, err error) Finding {
	var e *transport.TLSError
	switch found := errors.As(err, &e); {
	case !found:
		return cu.failIfWanted(true, "try again: the port answered a moment ago", "%v", err)
	case !wanted && e.Failure == transport.TLSNotOffered:
		return ok("not offered, and not asked for")
	case !wanted:
		return ok("offered, and not asked for (--xprtsec tls); a try without a certificate of this client: %v", e)
	}
	return fail(secure.TLSCure(e.Failure), "%v", e)
}
