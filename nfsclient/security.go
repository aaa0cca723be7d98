// Security flavors: choosing one for an export's calls.

package nfsclient

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// ErrNoKerberos is the error for Kerberos without Options.GSS.
var ErrNoKerberos = errors.New("this program has no Kerberos")

// A FlavorError means that an export and this client have no usable security flavor in common.
type FlavorError struct {
	Path    string
	Offered []oncrpc.Flavor // by the server, in its order
	Wanted  []oncrpc.Flavor // Options.Sec
	Err     error           // why an offered and wanted flavor cannot be used; nil: there is none
}

func (e *FlavorError) Error() string {
	s := "mount " + e.Path + ": the server wants " + SecNames(e.Offered)
	if len(e.Wanted) > 0 {
		s += ", this client " + SecNames(e.Wanted)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns EACCES, and the reason.
func (e *FlavorError) Unwrap() []error {
	if e.Err == nil {
		return []error{syscall.EACCES}
	}
	return []error{syscall.EACCES, e.Err}
}

// SecNames formats flavors as the mount option sec=.
func SecNames(list []oncrpc.Flavor) string {
	words := make([]string, len(list))
	for i, f := range list {
		words[i] = SecName(f)
	}
	return "sec=" + strings.Join(words, ":")
}

// SecName returns a flavor's name in the mount option sec=, or its number.
func SecName(f oncrpc.Flavor) string {
	switch {
	case f == oncrpc.FlavorNone:
		return "none"
	case f == oncrpc.FlavorSys:
		return "sys"
	case f == oncrpc.FlavorTLS:
		return "tls"
	case isKrb5(f):
		return f.String()
	}
	return strconv.FormatUint(uint64(f), 10)
}

// isKrb5 reports whether a flavor needs Options.GSS.
func isKrb5(f oncrpc.Flavor) bool {
	return f == oncrpc.FlavorKrb5 || f == oncrpc.FlavorKrb5i || f == oncrpc.FlavorKrb5p
}

// Kerberos reports whether this Client's NFS calls use Kerberos.
func (c *Client) Kerberos() bool { return isKrb5(c.flavor) }

// Flavor returns the flavor of this Client's NFS calls.
func (c *Client) Flavor() oncrpc.Flavor { return c.flavor }

// withFlavor returns a Client on the same connections with a flavor for its calls.
func (c *Client) withFlavor(f oncrpc.Flavor) (*Client, error) {
	switch {
	case f == c.flavor:
		return c, nil
	case !isKrb5(f):
		return nil, fmt.Errorf("flavor %s is not supported", SecName(f))
	case c.opt.GSS == nil:
		return nil, ErrNoKerberos
	case c.group() != nil:
		return nil, errors.New("Kerberos with several servers is not supported: name one server")
	}
	return c.secure.client(f, func() (*Client, error) {
		auth, err := c.opt.GSS(f, c.host)
		if err != nil {
			return nil, err
		}
		as := *c
		as.auth, as.flavor = auth, f
		return &as, nil
	})
}

// secureClients are the Clients by flavor, shared by all mounts from one server: programs compare
// Clients to see whether two paths are on the same server.
type secureClients struct {
	mu sync.Mutex // guards all
	by map[oncrpc.Flavor]*Client
}

// client returns the Client for a flavor, made if necessary.
func (s *secureClients) client(f oncrpc.Flavor, make func() (*Client, error)) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if as := s.by[f]; as != nil {
		return as, nil
	}
	as, err := make()
	if err == nil {
		if s.by == nil {
			s.by = map[oncrpc.Flavor]*Client{}
		}
		s.by[f] = as
	}
	return as, err
}

// AsAuth returns a Client like As, with credentials of flavor f for NFS calls. cred is for programs
// on other connections, which have no Kerberos: MOUNT and the lock manager.
func (c *Client) AsAuth(f oncrpc.Flavor, auth *transport.Auth, cred transport.Cred) *Client {
	as := *c
	as.auth, as.flavor, as.other = auth, f, transport.NewAuth(cred)
	return &as
}

// WithFlavors returns the Client for an export with a list of flavors from MNT: the first in the
// server's order that Options.Sec allows and this client can use, as Linux does. A server without a
// list takes AUTH_SYS. AUTH_NONE in the list means that the server accepts any flavor.
func (c *Client) WithFlavors(dir string, list []uint32) (*Client, error) {
	if c.flavor != oncrpc.FlavorSys {
		return c, nil // the caller has set credentials of another flavor
	}
	e := &FlavorError{Path: dir, Wanted: c.opt.Sec}
	for _, f := range list {
		e.Offered = append(e.Offered, oncrpc.Flavor(f))
	}
	try := e.Offered
	if len(list) == 0 || slices.Contains(list, uint32(oncrpc.FlavorNone)) {
		try = append(slices.Clone(try), c.opt.Sec...)
		try = append(try, oncrpc.FlavorSys)
	}
	for _, f := range try {
		if len(c.opt.Sec) > 0 && !slices.Contains(c.opt.Sec, f) || f != oncrpc.FlavorSys && !isKrb5(f) {
			continue
		}
		as, err := c.withFlavor(f)
		if err == nil {
			return as, nil
		}
		if e.Err == nil {
			e.Err = fmt.Errorf("%s: %w", SecName(f), err)
		}
	}
	return nil, e
}
