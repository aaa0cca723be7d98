// The check of TLS: the server's offer, and its certificate.

package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// expirySoon is the time before a certificate's end at which its renewal is due.
const expirySoon = 14 * 24 * time.Hour

// checkTLS makes a TLS session on the TCP port. If no TLS is wanted, it only reports whether the
// server offers TLS. It then does not verify the certificate, because no call is sent.
func checkTLS(ctx context.Context, cu *checkup) Finding {
	wanted := cu.overTLS()
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

// firstExpiry returns which certificate expires first, in the server's chain or this client's, and
// when.
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
	cu.tlsBroken = true
	return fail(cu.Security.Cure(e), "%v", e)
}

// afterTLS returns the finding of checks that need a session, after a failed handshake.
func afterTLS() Finding { return skip("", "not tried: it needs %q to be well", tlsCheck) }

// demandOfTLS finds out whether a call was refused because its export demands TLS, or a client
// certificate. It repeats the call over TLS and accepts any certificate, because a call without TLS
// has already shown the same data. o are the options of the refused call.
func (cu *checkup) demandOfTLS(ctx context.Context, o nfsclient.Options, port int, err error) (Finding, bool) {
	weak, denied := refusedForTLS(err)
	if !weak && !denied || cu.roce {
		return Finding{}, false
	}
	if cu.overTLS() {
		if !weak {
			return Finding{}, false
		}
		return cu.demandOfCertificate(), true
	}
	var trusted atomic.Bool
	o.TLS = func(string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, ServerName: cu.Host, VerifyConnection: func(state tls.ConnectionState) error {
			trusted.Store(systemTrusts(&state, cu.Host))
			return nil
		}}
	}
	var tlsError *transport.TLSError
	err = cu.fsinfoOnce(ctx, o, port)
	switch stillWeak, _ := refusedForTLS(err); {
	case err == nil:
		cu.demand, cu.trusted = transport.XprtTLS, trusted.Load()
		return fail("ask for TLS: "+secure.Flag("xprtsec", "tls")+cu.orAuthority(), "the export demands TLS (xprtsec=tls)"), true
	case weak && (stillWeak || errors.As(err, &tlsError) && tlsError.Failure == transport.TLSPeer):
		cu.demand, cu.trusted = transport.XprtMTLS, trusted.Load()
		return cu.demandOfCertificate(), true
	}
	return Finding{}, false
}

// demandOfCertificate returns the finding for an export to which TLS without a client certificate
// gives no access.
func (cu *checkup) demandOfCertificate() Finding {
	if cu.overTLS() && cu.Security.XprtSec == transport.XprtMTLS {
		cu.refused = true
		return fail("send a certificate of a name and authority that the export admits (cert= and ca= in the exports file)", "the export does not admit the certificate %s", cu.Security.Settings.Cert)
	}
	cu.demand = transport.XprtMTLS
	return fail("send a certificate of this client: "+secure.Flag("xprtsec", "mtls")+" "+secure.Flag("cert", "FILE")+" "+secure.Flag("key", "FILE")+cu.orAuthority()+
		" (nfsrdmad cert client NAME makes one)", "the export demands a certificate of this client (xprtsec=mtls)")
}

// orAuthority returns the flag for the server's authority if this system does not trust the
// certificate.
func (cu *checkup) orAuthority() string {
	if cu.trusted || cu.overTLS() {
		return ""
	}
	return " " + secure.Flag("cacert", "FILE")
}

// refusedForTLS reports whether a server may have refused a call because of its connection: with
// AUTH_TOOWEAK or, as Linux's server does, with NFS3ERR_ACCES.
func refusedForTLS(err error) (weak, denied bool) {
	var auth *transport.AuthError
	var status *nfsclient.StatusError
	weak = errors.As(err, &auth) && auth.Stat == oncrpc.AuthTooWeak
	return weak, asStatus(err, &status) && status.Status == nfs3.ErrAcces
}

// fsinfoOnce calls FSINFO on the export over a separate connection.
func (cu *checkup) fsinfoOnce(ctx context.Context, o nfsclient.Options, port int) error {
	c, err := nfsclient.Dial(ctx, cu.portAddr(port), o)
	if err != nil {
		return err
	}
	cu.atEnd(c.Close)
	if c, err = c.WithFlavors(cu.export, cu.flavors); err != nil {
		return err
	}
	_, err = c.Fsinfo(ctx, cu.root)
	return err
}

// systemTrusts reports whether a mount accepts the server's certificate without cacert=.
func systemTrusts(state *tls.ConnectionState, host string) bool {
	o := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(o)
	return err == nil
}
