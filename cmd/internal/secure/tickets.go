// The places with a user's tickets, and the choice of the first good one.

package secure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
)

// nfsService is the first part of an NFS server's principal (RFC 2623 §2.4).
const nfsService = "nfs"

// maxSources bounds the places tried for one user, and maxCredentials the remembered credentials.
const (
	maxSources     = 8
	maxCredentials = 4096
)

// A Source is a place with a user's tickets or keys.
type Source struct {
	Name string // "FILE:/tmp/krb5cc_1000", or "keytab /etc/krb5.keytab"
	*krb5.Credentials
}

// Sources returns the places with a user's tickets, the best first. Root's keytab comes before its
// caches, as with rpc.gssd(8), unless this process runs as root with KRB5CCNAME set.
func (k *Kerberos) Sources(uid uint32) ([]Source, error) {
	if k.confErr != nil {
		return nil, &TicketError{UID: uid, Err: k.confErr}
	}
	var list, machine []Source
	if uid == 0 && !k.rootCache {
		if name := k.Keytab(); readable(name) {
			machine = append(machine, k.source(uid, "keytab "+name, func() *krb5.Credentials { return k.conf.Keytab(name, "") }))
		}
	}
	find := *k.find
	if find.Default == "" {
		find.Default = k.conf.CacheName(int(uid))
	}
	caches, err := find.Find(uid)
	for _, c := range caches {
		list = append(list, k.source(uid, c.Name, func() *krb5.Credentials { return k.conf.Cache(c.Name, int(uid)) }))
	}
	if list = list[:min(len(list), maxSources)]; uid == k.find.Own && k.find.Env != "" {
		list = append(list, machine...)
	} else {
		list = append(machine, list...)
	}
	if len(list) == 0 {
		return nil, &TicketError{UID: uid, Err: err}
	}
	return list, nil
}

// Keytab returns the path of the keytab.
func (k *Kerberos) Keytab() string {
	switch {
	case k.keytab != "":
		return k.keytab
	case k.conf == nil: // krb5.conf cannot be read
		return new(krb5.Config).KeytabName()
	}
	return k.conf.KeytabName()
}

// Config returns krb5.conf, or the error from reading it.
func (k *Kerberos) Config() (*krb5.Config, error) { return k.conf, k.confErr }

func readable(name string) bool {
	f, err := os.Open(name)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// source returns a place with its credentials, which keep tickets between calls.
func (k *Kerberos) source(uid uint32, name string, open func() *krb5.Credentials) Source {
	key := fmt.Sprint(uid, " ", name)
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.known[key]
	if c == nil {
		if len(k.known) >= maxCredentials {
			clear(k.known)
		}
		c = open()
		k.known[key] = c
	}
	return Source{name, c}
}

// Principal returns the user's principal, and the end of the ticket that new contexts use.
func (k *Kerberos) Principal(ctx context.Context, uid uint32) (principal, from string, end time.Time, err error) {
	sources, err := k.Sources(uid)
	if err != nil {
		return "", "", time.Time{}, err
	}
	var reasons reasons
	for _, s := range sources {
		if principal, end, err = s.Principal(ctx); err == nil {
			return principal, s.Name, end, nil
		}
		reasons.add(s.Name, err)
	}
	return "", "", time.Time{}, reasons.error(uid)
}

// ErrLate means that no KDC has answered before the end of the call that needs a ticket.
var ErrLate = errors.New("no KDC has answered in time")

// An initiator tries a user's places in turn.
type initiator struct {
	gss.Initiator // the initiator that has succeeded

	k      *Kerberos
	uid    uint32
	server string
}

// Start gets a ticket for the server.
func (i *initiator) Start(ctx context.Context) ([]byte, error) {
	sources, err := i.k.Sources(i.uid)
	if err != nil {
		return nil, i.failed(err)
	}
	var reasons reasons
	for _, s := range sources {
		in := s.Initiator(nfsService, i.server)
		token, err := in.Start(ctx)
		if err == nil {
			i.Initiator = in
			return token, nil
		}
		if ctx.Err() != nil { // the context's end is not the tickets' fault
			return nil, fmt.Errorf("%w: %w", ErrLate, err)
		}
		reasons.add(s.Name, err)
	}
	return nil, i.failed(reasons.error(i.uid))
}

// failed logs that the user has no tickets.
func (i *initiator) failed(err error) error {
	var e *TicketError
	if errors.As(err, &e) {
		i.k.complain(e)
	}
	return err
}

// reasons collects the errors from a user's places, and whether credentials there have expired.
type reasons struct {
	errs    []error
	expired bool
	code    int32 // krb5.Code of the last error that has one
}

func (r *reasons) add(name string, err error) {
	var g *gss.Error
	if errors.As(err, &g) {
		r.expired = r.expired || g.Major == gss.CredentialsExpired
		r.code = cmp.Or(krb5.Code(err), r.code)
		err = errors.New(g.Text)
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
}

func (r *reasons) error(uid uint32) *TicketError {
	return &TicketError{UID: uid, Expired: r.expired, Code: r.code, Err: errors.Join(r.errs...)}
}
