// TLS and Kerberos of a mount.

package mounter

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// secure sets the security options of a connection. The first call reads their files.
func (r *Request) secure(o *nfsclient.Options, log func(string)) (err error) {
	if r.security == nil {
		if r.security, err = r.Options.Security.Open(secure.Option, log); err != nil {
			return fmt.Errorf("%s: %w", r.Spec, err)
		}
	}
	if err = r.security.Apply(o); err != nil {
		return fmt.Errorf("%s: %w", r.Spec, err)
	}
	return nil
}

// users returns the credentials of the mount's users; nil: AUTH_SYS.
func (r *Request) users(c *nfsclient.Client) func(uid uint32) *transport.Auth {
	if !c.Kerberos() {
		return nil
	}
	server := r.Source.Targets[0].Host
	return func(uid uint32) *transport.Auth { return r.security.Kerberos.Auth(uid, c.Flavor(), server) }
}
