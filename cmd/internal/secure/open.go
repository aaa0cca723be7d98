// From settings to connection options.

package secure

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Security has the settings' files and credentials. It is safe for concurrent use.
type Security struct {
	Settings           // set once
	Kerberos *Kerberos // nil: the settings exclude it

	write Writer
	store *certs.Store // nil: no TLS
}

// Open reads the files of the settings. Errors name options by write.
func (s *Settings) Open(write Writer, log func(line string)) (*Security, error) {
	x := &Security{Settings: *s, write: write}
	if s.XprtSec != transport.XprtNone {
		o := certs.Options{Certificate: s.Cert, Key: s.Key}
		if s.CACert != "" {
			o.Authorities = []string{s.CACert}
		}
		if s.CRL != "" {
			o.Revocations = []string{s.CRL}
		}
		var err error
		if x.store, err = certs.Open(o); err != nil {
			return nil, err
		}
	}
	if s.Sec != "sys" {
		x.Kerberos = newKerberos(s, log)
	}
	return x, nil
}

// Apply sets the security options for connections.
func (x *Security) Apply(o *nfsclient.Options) error {
	o.Sec = x.Flavors()
	if x.Kerberos != nil && o.Cred == nil {
		o.GSS = x.Kerberos.own
	}
	if x.store == nil {
		return nil
	}
	if o.Transport == nfsclient.RDMA && o.Provider == nfsclient.RoCE {
		return fmt.Errorf("%s is not possible over RoCE: use iWARP (%s), TCP, or %s", x.Write("xprtsec", x.XprtSec.String()), x.Write("rdma", "iwarp"), x.Write("sec", "krb5p"))
	}
	o.TLS = x.Config
	return nil
}

// Write formats an option as its user writes it. A nil Security writes flags.
func (x *Security) Write(name, value string) string {
	if x == nil || x.write == nil {
		return Flag(name, value)
	}
	return x.write(name, value)
}

// Cure returns the remedy for a failed handshake with a server. A nil Security has no files.
func (x *Security) Cure(e *transport.TLSError) string {
	if x == nil {
		return new(Settings).TLSCure(e, Flag)
	}
	return x.TLSCure(e, x.Write)
}

// Config returns the TLS configuration for a connection to a server.
func (x *Security) Config(server string) *tls.Config {
	if x.TLSName != "" {
		server = x.TLSName
	}
	cfg := x.store.Client(server)
	// A mount outlives its certificate and the revocation lists. So each handshake uses the files
	// as they are then.
	cfg.GetClientCertificate = func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		now := x.store.Client(server)
		if now.GetClientCertificate == nil {
			return new(tls.Certificate), nil
		}
		return now.GetClientCertificate(i)
	}
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if now := x.store.Client(server); now.VerifyConnection != nil {
			return now.VerifyConnection(state)
		}
		return nil
	}
	return cfg
}

// OwnExpiry returns when this client's certificate expires; zero: it has none.
func (x *Security) OwnExpiry() time.Time {
	if x.store == nil {
		return time.Time{}
	}
	return x.store.Stats().NotAfter
}

// service returns the protection that a flavor gives to calls (RFC 2203 §5.1).
func service(f oncrpc.Flavor) transport.Service {
	switch f {
	case oncrpc.FlavorKrb5i:
		return transport.ServiceIntegrity
	case oncrpc.FlavorKrb5p:
		return transport.ServicePrivacy
	}
	return transport.ServiceNone
}
