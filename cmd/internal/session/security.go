// The security flags.

package session

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Security returns the settings of the security flags, or an error about an invalid flag.
func (f *Flags) Security() (s secure.Settings, err error) {
	s = f.Files
	if f.Sec != "" {
		if s.Sec, err = secure.ParseSec(f.Sec); err != nil {
			return s, fmt.Errorf("--sec %q: %w", f.Sec, err)
		}
	}
	if f.XprtSec != "" {
		if s.XprtSec, err = transport.ParseXprtSec(f.XprtSec); err != nil {
			return s, fmt.Errorf("--xprtsec %q: must be none, tls or mtls", f.XprtSec)
		}
	}
	return s, s.Check(secure.Flag)
}

// Security returns the files and credentials of the security flags, read once.
func (s *Session) Security() (*secure.Security, error) {
	if s.security != nil {
		return s.security, nil
	}
	settings, err := s.Flags.Security()
	if err != nil {
		return nil, err
	}
	s.security, err = settings.Open(secure.Flag, s.say)
	return s.security, err
}

// UseSecurity sets the files and credentials of the caller, such as a mount with its own options,
// for the remedies in errors.
func (s *Session) UseSecurity(x *secure.Security) { s.security = x }

// WithFlavor returns c with the flavor of --sec, for calls without a mount.
func (s *Session) WithFlavor(t nfsclient.Target, c *nfsclient.Client) (*nfsclient.Client, error) {
	as, err := c.WithFlavors("/", nil)
	var flavor *nfsclient.FlavorError
	if errors.As(err, &flavor) {
		err = fmt.Errorf("%s: %s", s.Name(t), flavorCure(flavor))
	}
	return as, err
}

// secure applies the security flags to the options of a connection.
func (s *Session) secure(o *nfsclient.Options) error {
	x, err := s.Security()
	if err != nil {
		return err
	}
	return x.Apply(o)
}
