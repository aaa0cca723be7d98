// Credentials of a client: tickets of a credential cache, or of a keytab's principal.

package krb5

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// margin is the least remaining life of a ticket that is used.
const margin = 10 * time.Second

// Credentials get service tickets for one client and keep them. They are safe for concurrent use.
type Credentials struct {
	conf   *Config
	source source

	mu       sync.Mutex // guards all below; never held during a request
	granting ticket
	services map[string]ticket  // by the requested name; all for granting's client
	flights  map[string]*flight // running requests by key, see known; "": for granting
}

// A source has a client's ticket-granting ticket.
type source interface {
	// current returns the ticket-granting ticket to use now (the zero value: none), and the
	// function that gets the next one (nil: not needed yet). While earlier is valid, t is earlier,
	// unless the file has changed. Credentials.mu is held.
	current(earlier ticket) (t ticket, next func(ctx context.Context) (ticket, error), err error)
}

// Cache returns the credentials in a cache: FILE:path, a path, or DIR:path. "" is the cache of the
// owner, a user's number (see Config.CacheName). The file must belong to the owner; -1 allows any.
// The file is read when a ticket is needed, and again after a change.
func (c *Config) Cache(cache string, owner int) *Credentials {
	if cache == "" {
		uid := owner
		if owner < 0 {
			uid = os.Getuid()
		}
		cache = c.CacheName(uid)
	}
	return &Credentials{conf: c, source: &cacheSource{conf: c, cache: cache, owner: owner}, services: map[string]ticket{}}
}

// Keytab returns the credentials of a keytab's principal, which logs in when a ticket is needed.
// "" is the machine's principal, chosen as rpc.gssd does for a host: HOST$, then root, nfs and host
// with the host's name, then these with any name.
func (c *Config) Keytab(path, principal string) *Credentials {
	return &Credentials{conf: c, source: &keytabSource{conf: c, path: path, principal: principal}, services: map[string]ticket{}}
}

// Principal returns the client's name and the end of its ticket-granting ticket, after getting one
// if needed.
func (c *Credentials) Principal(ctx context.Context) (principal string, expires time.Time, err error) {
	t, err := c.granted(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	return t.client.String(), t.end, nil
}

// granted returns the ticket-granting ticket. It waits for a KDC only without a valid one: renewing
// a valid ticket delays nothing.
func (c *Credentials) granted(ctx context.Context) (ticket, error) {
	t, next, err := c.look()
	if err == nil && next != nil {
		t, err = next.wait(ctx)
	}
	if err != nil {
		return ticket{}, asGSS(majorNoCred, err)
	}
	return t, nil
}

// look returns the ticket-granting ticket, or the request for it.
func (c *Credentials) look() (ticket, *flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, next, err := c.source.current(c.granting)
	if err != nil {
		return ticket{}, nil, err
	}
	good := t.encoded != nil
	if good {
		c.grant(t)
	}
	if next == nil {
		return t, nil, nil
	}
	from := c.granting.encoded
	f := c.fly("", next, func(t ticket) {
		if bytes.Equal(c.granting.encoded, from) { // else the file has another ticket meanwhile
			c.grant(t)
		}
	})
	if good {
		return t, nil, nil
	}
	return ticket{}, f, nil
}

// grant sets the ticket-granting ticket. Tickets of another client are dropped. mu is held.
func (c *Credentials) grant(t ticket) {
	if !t.client.same(c.granting.client) {
		clear(c.services)
	}
	c.granting = t
}

// asGSS makes an error a *gss.Error, except the error of an interrupted request.
func asGSS(major uint32, err error) error {
	switch err.(type) { //nolint:errorlint // only the outermost error
	case *gss.Error:
		return err
	}
	if text, ok := strings.CutPrefix(err.Error(), "krb5: "); ok {
		return gssError(major, text)
	}
	return gssError(major, err.Error())
}

// ticket returns a ticket for a service.
func (c *Credentials) ticket(ctx context.Context, service name) (ticket, error) {
	tgt, err := c.granted(ctx)
	if err != nil {
		return ticket{}, err
	}
	t, f := c.known(tgt, service)
	if f != nil {
		t, err = f.wait(ctx)
	}
	if err != nil {
		return ticket{}, asGSS(gss.Failure, err)
	}
	return t, nil
}

// known returns the ticket that is kept for a service, or the request for one.
func (c *Credentials) known(tgt ticket, service name) (ticket, *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := service.String()
	if t, ok := c.services[key]; ok && usable(t) && t.client.same(tgt.client) {
		return t, nil
	}
	// The client is part of the key: when the file changes, a request for the earlier client may
	// still run.
	return ticket{}, c.fly(tgt.client.String()+" "+key, func(ctx context.Context) (ticket, error) {
		return c.conf.serviceTicket(ctx, tgt, service, false)
	}, func(t ticket) {
		if t.client.same(c.granting.client) {
			c.services[key] = t
		}
	})
}

// forget drops a service's ticket, which the service has refused.
func (c *Credentials) forget(service name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.services, service.String())
}

func usable(t ticket) bool { return time.Until(t.end) > margin }

// A cacheSource reads a credential cache.
type cacheSource struct {
	conf  *Config
	cache string
	owner int
	info  os.FileInfo // the file's when it was read; Credentials.mu guards it
}

func (s *cacheSource) current(earlier ticket) (ticket, func(context.Context) (ticket, error), error) {
	path, err := cacheFile(s.cache)
	if err != nil {
		return ticket{}, nil, err
	}
	if info, err := os.Lstat(path); err == nil && s.info != nil && sameFile(info, s.info) && time.Until(earlier.end) > 0 {
		return earlier, s.renewal(earlier), nil
	}
	c, info, err := readCache(path, s.owner)
	if err != nil {
		return ticket{}, nil, err
	}
	s.info = info
	t := c.best(ticketGranting(c.client.realm, c.client.realm))
	if t == nil {
		return ticket{}, nil, fmt.Errorf("krb5: the credential cache %s has no ticket-granting ticket of %s: run kinit", path, c.client)
	}
	t.client = c.client
	if time.Until(t.end) <= 0 {
		return ticket{}, nil, krbError(gss.CredentialsExpired, apTicketExpired, "the ticket of %s in %s expired at %v: run kinit", c.client, path, t.end)
	}
	return *t, s.renewal(*t), nil
}

// renewal returns the function that renews a ticket; nil: the ticket is not near its end, or not
// renewable. The file keeps the old ticket.
func (s *cacheSource) renewal(t ticket) func(context.Context) (ticket, error) {
	left, life := time.Until(t.end), t.end.Sub(t.start)
	if left > life/6 || !t.renew.After(t.end) {
		return nil
	}
	return func(ctx context.Context) (ticket, error) { return s.conf.serviceTicket(ctx, t, t.server, true) }
}

// A keytabSource logs in with a keytab's key.
type keytabSource struct {
	conf            *Config
	path, principal string
}

func (s *keytabSource) current(earlier ticket) (ticket, func(context.Context) (ticket, error), error) {
	life := earlier.end.Sub(earlier.start)
	switch {
	case earlier.encoded != nil && time.Until(earlier.end) > min(life/6, 5*time.Minute):
		return earlier, nil, nil
	case usable(earlier):
		return earlier, s.login, nil
	}
	return ticket{}, s.login, nil
}

// login gets a ticket with the file's present keys.
func (s *keytabSource) login(ctx context.Context) (ticket, error) {
	file, err := readFile(s.path)
	if err != nil {
		return ticket{}, fmt.Errorf("krb5: keytab: %w", err)
	}
	entries, err := parseKeytab(file)
	if err != nil {
		return ticket{}, fmt.Errorf("krb5: keytab %s: %w", s.path, err)
	}
	entries = slices.DeleteFunc(entries, func(e KeytabEntry) bool { return enctypeOf(e.Enctype) == nil })
	client, err := s.choose(entries)
	if err != nil {
		return ticket{}, err
	}
	entries = slices.DeleteFunc(entries, func(e KeytabEntry) bool { return !e.name.same(client) })
	return s.conf.login(ctx, client, entries, file)
}

// choose returns the configured principal, or the machine's.
func (s *keytabSource) choose(entries []KeytabEntry) (name, error) {
	if s.principal != "" {
		want := parseName(s.principal, s.conf.Realm())
		for _, e := range entries {
			if e.name.same(want) {
				return e.name, nil
			}
		}
		return name{}, fmt.Errorf("krb5: keytab %s has no key of %s with a supported enctype (%s)", s.path, want, enctypeNames())
	}
	host, err := os.Hostname()
	if err != nil {
		return name{}, fmt.Errorf("krb5: %w", err)
	}
	if n, ok := machinePrincipal(entries, strings.ToLower(host)); ok {
		return n, nil
	}
	return name{}, fmt.Errorf("krb5: keytab %s has no principal for this machine: add nfs/%s or host/%s", s.path, host, host)
}

// machinePrincipal chooses a machine's principal in rpc.gssd(8)'s order. host is a name with or
// without a domain.
func machinePrincipal(entries []KeytabEntry, host string) (name, bool) {
	short, _, _ := strings.Cut(host, ".")
	for _, e := range entries {
		if len(e.name.parts) == 1 && strings.EqualFold(e.name.parts[0], short+"$") {
			return e.name, true
		}
	}
	for _, any := range []bool{false, true} {
		for _, service := range []string{"root", "nfs", "host"} {
			for _, e := range entries {
				if len(e.name.parts) != 2 || e.name.parts[0] != service {
					continue
				}
				named := strings.ToLower(e.name.parts[1])
				if before, _, _ := strings.Cut(named, "."); any || named == host || before == host {
					return e.name, true
				}
			}
		}
	}
	return name{}, false
}

// sameFile reports whether a file is unchanged.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
