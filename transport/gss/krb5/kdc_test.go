// Tickets from an MIT KDC: keytabs, short lives, renewal, changed keys, and the KDC's refusals.

package krb5

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// establish creates a context between credentials and an acceptor, and returns both ends.
func establish(ctx context.Context, c *Credentials, host string, a *Acceptor) (initiator, acceptor gss.Context, err error) {
	i := c.Initiator("nfs", host)
	token, err := i.Start(ctx)
	if err != nil {
		return nil, nil, err
	}
	acceptor, reply, refused := a.Accept(token)
	initiator, err = i.Finish(reply)
	return initiator, acceptor, errors.Join(refused, err)
}

// TestKeytabLogin: the client logs in with a keytab of each enctype, and finds the machine's
// principal.
func TestKeytabLogin(t *testing.T) {
	eachEnctype(t, func(t *testing.T, r aRealm) {
		r.AddPrincipal("root/client.example", "")
		keytab := r.Keytab("root/client.example")
		for _, principal := range []string{"root/client.example", ""} {
			c := r.conf.Keytab(keytab, principal)
			i, got, err := establish(t.Context(), c, "localhost", r.acceptor(t))
			must.Succeed(t, err)
			if p := got.Principal(); p != "root/client.example@EXAMPLE.TEST" {
				t.Errorf("%q: the initiator is %s", principal, p)
			}
			if err := got.VerifyMIC(i.MIC(nil, []byte("x")), []byte("x")); err != nil {
				t.Errorf("%q: MIC: %v", principal, err)
			}
			name, end, err := c.Principal(t.Context())
			if err != nil || name != "root/client.example@EXAMPLE.TEST" || time.Until(end) < 9*time.Hour {
				t.Errorf("%q: credentials of %s until %v, %v", principal, name, end, err)
			}
		}
	})
}

// TestTicketsAreKept: a second context needs no exchange with the KDC.
func TestTicketsAreKept(t *testing.T) {
	r := newRealm(t)
	c := r.conf.Cache(r.ccache, os.Getuid())
	for range 2 {
		if _, _, err := establish(t.Context(), c, "localhost", r.acceptor(t)); err != nil {
			t.Fatalf("establish: %v", err)
		}
		r.Close()
	}
	c.forget(name{parts: []string{"nfs", "localhost"}, realm: r.Name})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := establish(ctx, c, "localhost", r.acceptor(t)); err == nil {
		t.Error("a closed KDC gives tickets")
	}
}

// TestCacheIsRead: a cache may be made and replaced later; an expired ticket is an error with the
// cure; a renewable one is renewed.
func TestCacheIsRead(t *testing.T) {
	r := newRealm(t)
	r.AddPrincipal("bob", "secret")
	file := filepath.Join(t.TempDir(), "cc")
	c, a := r.conf.Cache("FILE:"+file, os.Getuid()), r.acceptor(t)
	if _, _, err := establish(t.Context(), c, "localhost", a); err == nil || !strings.Contains(err.Error(), "run kinit") {
		t.Errorf("without a cache: %v", err)
	}
	for _, user := range []string{"alice", "bob"} {
		r.KinitTo("FILE:"+file, user, "secret")
		_, got, err := establish(t.Context(), c, "localhost", a)
		must.Succeed(t, err)
		if p := got.Principal(); p != user+"@EXAMPLE.TEST" {
			t.Errorf("after %s's kinit the client is %s", user, p)
		}
	}
	r.KinitTo("FILE:"+file, "alice", "secret", "-l", "1s")
	must.Become(t, "the ticket ends", func() bool {
		_, _, err := establish(t.Context(), c, "localhost", a)
		major, _ := codes(err)
		return major == gss.CredentialsExpired && strings.Contains(err.Error(), "run kinit")
	})
	r.KinitTo("FILE:"+file, "alice", "secret", "-l", "6s", "-r", "1h")
	must.Become(t, "the ticket is renewed", func() bool {
		time.Sleep(100 * time.Millisecond)
		_, end, err := c.Principal(t.Context())
		c.mu.Lock()
		defer c.mu.Unlock()
		return err == nil && time.Until(end) > 0 && time.Since(c.granting.start) < 6*time.Second && c.granting.end.After(ends(t, file))
	})
}

// ends returns the end of the ticket in a cache's file.
func ends(t *testing.T, file string) time.Time {
	t.Helper()
	c, _, err := readCache(file, -1)
	must.Succeed(t, err)
	return c.best(ticketGranting("EXAMPLE.TEST", "EXAMPLE.TEST")).end
}

// TestChangedKeys: after the service's keys changed, old tickets need the old keys, and a client
// whose ticket was refused gets a new one.
func TestChangedKeys(t *testing.T) {
	r := newRealm(t)
	c := r.conf.Cache(r.ccache, -1)
	a := r.acceptor(t)
	if _, _, err := establish(t.Context(), c, "localhost", a); err != nil {
		t.Fatalf("before the change: %v", err)
	}
	r.NewKeys("nfs/localhost")
	must.Succeed(t, os.WriteFile(r.keytab, onlyVersion(t, r.Keytab("nfs/localhost"), 2), 0o600))
	if _, _, err := establish(t.Context(), c, "localhost", a); err == nil || !strings.Contains(err.Error(), "extract the keytab again") {
		t.Errorf("the old ticket with the new keys: %v", err)
	}
	if _, _, err := establish(t.Context(), c, "localhost", a); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}

// onlyVersion returns a keytab's entries of one key version.
func onlyVersion(t *testing.T, keytab string, version uint32) []byte {
	t.Helper()
	b, err := os.ReadFile(keytab)
	must.Succeed(t, err)
	out := b[:2:2]
	for b = b[2:]; len(b) > 0; {
		n := 4 + int(binary.BigEndian.Uint32(b))
		if e, ok := parseKeytabEntry(b[4:n]); ok && e.Version == version {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// TestKDCRefuses: a KDC's refusal, or a failure before the request, is a *gss.Error with the cause
// or the cure.
func TestKDCRefuses(t *testing.T) {
	r := newRealm(t)
	stale := r.Keytab("nfs/localhost")
	r.NewKeys("nfs/localhost")
	r.NewKeys("nfs/localhost")
	for what, v := range map[string]struct {
		c    *Credentials
		host string
		want string
	}{
		"unknown service": {r.conf.Cache(r.ccache, -1), "elsewhere.example", "create the principal"},
		"unknown client":  {r.conf.Keytab(unknownKeytab(t), "nfs/server@EXAMPLE.TEST"), "localhost", "does not know the client"},
		"stale keytab":    {r.conf.Keytab(stale, "nfs/localhost"), "localhost", "extract it again"},
		"unknown realm":   {r.conf.Keytab(unknownKeytab(t), "nfs/server@NOWHERE.TEST"), "localhost", "NOWHERE.TEST"},
		"keyring":         {r.conf.Cache("KEYRING:persistent:0", -1), "localhost", "KEYRING"},
		"no such key":     {r.conf.Keytab(stale, "nfs/other"), "localhost", "no key of nfs/other@EXAMPLE.TEST"},
	} {
		_, _, err := establish(t.Context(), v.c, v.host, r.acceptor(t))
		if err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: %v, want %q", what, err, v.want)
		}
		if e := (*gss.Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %T, want *gss.Error", what, err)
		}
	}
}

// unknownKeytab returns a keytab with principals that no KDC knows.
func unknownKeytab(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keytab")
	must.Succeed(t, os.WriteFile(path, keytabFile(t, 1, "nfs/server@EXAMPLE.TEST", "nfs/server@NOWHERE.TEST"), 0o600))
	return path
}

// TestStartEnds: a request that no KDC answers ends with its context.
func TestStartEnds(t *testing.T) {
	r := realm.New(t, realm.Options{})
	r.AddPrincipal("alice", "secret")
	ccache := r.Kinit("alice", "secret")
	silent := filepath.Join(t.TempDir(), "krb5.conf")
	must.Succeed(t, os.WriteFile(silent, []byte("[realms]\nEXAMPLE.TEST = {\nkdc = 192.0.2.1\n}\n[domain_realm]\nlocalhost = EXAMPLE.TEST\n"), 0o644))
	conf, err := LoadConfig(silent)
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conf.Cache(ccache, -1).Initiator("nfs", "localhost").Start(ctx); err == nil {
		t.Error("a silent KDC gives tickets")
	}
}
