// Tickets of several users, with a realm's KDC.

package secure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// User numbers in these tests.
const alice, bob = 1001, 1002

// here returns the credentials of a machine in a realm; a directory of the test replaces /tmp.
func here(t *testing.T, r *realm.Realm, s Settings) (k *Kerberos, temp string, lines *[]string) {
	t.Helper()
	machine.NeedRoot(t, "root, to act for several users")
	t.Setenv("KRB5_CONFIG", r.Conf())
	t.Setenv("KRB5CCNAME", "")
	t.Setenv("KRB5_KTNAME", filepath.Join(t.TempDir(), "none"))
	temp, lines = t.TempDir(), new([]string)
	must.Succeed(t, os.Chmod(temp, 0o1777))
	k = newKerberos(&s, func(line string) { *lines = append(*lines, line) })
	k.find.Default, k.find.Temp, k.find.Run = "FILE:"+temp+"/krb5cc_%{uid}", []string{temp}, temp
	return k, temp, lines
}

// kinit writes a user's ticket to his usual cache.
func kinit(t *testing.T, r *realm.Realm, temp string, uid int, principal string, args ...string) {
	t.Helper()
	from := r.Kinit(principal, "secret", args...)
	must.Succeed(t, os.Chown(from, uid, uid))
	must.Succeed(t, os.Rename(from, filepath.Join(temp, fmt.Sprint("krb5cc_", uid))))
}

func newRealm(t *testing.T) *realm.Realm {
	r := realm.New(t, realm.Options{Enctypes: []string{realm.AES256SHA1}})
	for _, name := range []string{"alice", "bob"} {
		r.AddPrincipal(name, "secret")
	}
	r.AddPrincipal("nfs/server.test", "")
	r.AddPrincipal("host/client.test", "")
	return r
}

// start tries to get a user's ticket for the server.
func start(t *testing.T, k *Kerberos, uid uint32) error {
	_, err := (&initiator{k: k, uid: uid, server: "server.test"}).Start(t.Context())
	return err
}

// wantErrno checks the error number that programs get.
func wantErrno(t *testing.T, what string, err error, want syscall.Errno) {
	t.Helper()
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno != want || !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// Each user has his own ticket or none, and a new ticket is used at once.
func TestTicketsOfUsers(t *testing.T) {
	r := newRealm(t)
	k, temp, lines := here(t, r, Settings{})
	wantErrno(t, "without a ticket", start(t, k, alice), syscall.EACCES)
	wantErrno(t, "root without a keytab", start(t, k, 0), syscall.EACCES)
	kinit(t, r, temp, alice, "alice")
	must.Succeed(t, start(t, k, alice))
	wantErrno(t, "another user", start(t, k, bob), syscall.EACCES)
	principal, from, end, err := k.Principal(t.Context(), alice)
	if principal != "alice@EXAMPLE.TEST" || from != "FILE:"+temp+"/krb5cc_1001" || err != nil {
		t.Errorf("got %s from %s, %v", principal, from, err)
	}
	if left := time.Until(end); left < 9*time.Hour || left > 11*time.Hour {
		t.Errorf("ticket's end: in %v, want about 10h", left)
	}
	kinit(t, r, temp, bob, "bob")
	must.Succeed(t, start(t, k, bob))
	kinit(t, r, temp, alice, "bob") // from now on alice has bob's principal
	if principal, _, _, err = k.Principal(t.Context(), alice); principal != "bob@EXAMPLE.TEST" {
		t.Errorf("after kinit of another: got %s, %v", principal, err)
	}
	if len(*lines) != 3 || !strings.Contains((*lines)[0], "uid 1001 has no usable Kerberos ticket: run kinit as that user") {
		t.Errorf("logged %q, want one line for each user without a ticket", *lines)
	}
}

// An expired ticket is EKEYEXPIRED until there is a new one.
func TestExpiredTicket(t *testing.T) {
	r := newRealm(t)
	k, temp, _ := here(t, r, Settings{})
	kinit(t, r, temp, alice, "alice", "-l", "1s")
	must.Become(t, "an expired ticket", func() bool {
		_, _, _, err := k.Principal(t.Context(), alice)
		return errors.Is(err, syscall.EKEYEXPIRED)
	})
	err := start(t, k, alice)
	wantErrno(t, "expired", err, syscall.EKEYEXPIRED)
	if !strings.Contains(err.Error(), "the Kerberos tickets of uid 1001 have expired: run kinit") {
		t.Errorf("got %q", err)
	}
	younger := r.Kinit("bob", "secret")
	must.Succeed(t, os.Chown(younger, alice, alice))
	must.Succeed(t, os.Rename(younger, filepath.Join(temp, "krb5cc_1001_login")))
	if principal, _, _, err := k.Principal(t.Context(), alice); principal != "bob@EXAMPLE.TEST" {
		t.Errorf("beside the expired cache: got %s, %v, want the good one", principal, err)
	}
	kinit(t, r, temp, alice, "alice")
	must.Succeed(t, start(t, k, alice))
}

// A symbolic or hard link to another user's ticket is not used.
func TestStolenTicket(t *testing.T) {
	r := newRealm(t)
	k, temp, _ := here(t, r, Settings{})
	kinit(t, r, temp, alice, "alice")
	must.Succeed(t, os.Symlink(filepath.Join(temp, "krb5cc_1001"), filepath.Join(temp, "krb5cc_1002")))
	wantErrno(t, "a link to another's cache", start(t, k, bob), syscall.EACCES)
	must.Succeed(t, os.Remove(filepath.Join(temp, "krb5cc_1002")))
	must.Succeed(t, os.Link(filepath.Join(temp, "krb5cc_1001"), filepath.Join(temp, "krb5cc_1002")))
	wantErrno(t, "a name of another's cache", start(t, k, bob), syscall.EACCES)
}

// Root's keys come from the keytab, or with RootCache from its cache alone. KRB5CCNAME comes first.
func TestRootCredentials(t *testing.T) {
	r := newRealm(t)
	keytab := r.Keytab("host/client.test")
	for _, tt := range []struct {
		what  string
		s     Settings
		cache bool   // root has a cache in the usual place
		env   string // the principal in KRB5CCNAME's cache; "": not set
		want  string
	}{
		{"keytab", Settings{Keytab: keytab}, true, "", "host/client.test@EXAMPLE.TEST"},
		{"no keytab", Settings{}, true, "", "alice@EXAMPLE.TEST"},
		{"rootcred=ccache", Settings{Keytab: keytab, RootCache: true}, true, "", "alice@EXAMPLE.TEST"},
		{"rootcred=ccache, no cache", Settings{Keytab: keytab, RootCache: true}, false, "", ""},
		{"KRB5CCNAME", Settings{Keytab: keytab}, true, "bob", "bob@EXAMPLE.TEST"},
	} {
		k, temp, _ := here(t, r, tt.s)
		if tt.cache {
			kinit(t, r, temp, 0, "alice")
		}
		if tt.env != "" {
			k.find.Env = "FILE:" + r.Kinit(tt.env, "secret")
		}
		principal, _, _, err := k.Principal(t.Context(), 0)
		if principal != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %s, %v, want %s", tt.what, principal, err, tt.want)
		}
	}
}

// If no key server answers, programs get EACCES, not the network's error.
func TestNoKeyServer(t *testing.T) {
	r := newRealm(t)
	k, temp, _ := here(t, r, Settings{})
	kinit(t, r, temp, alice, "alice")
	r.Close()
	wantErrno(t, "without a KDC", start(t, k, alice), syscall.EACCES)
}

// The tickets of this process's user decide which of the export's flavors is used.
func TestOwnTickets(t *testing.T) {
	r := newRealm(t)
	k, temp, _ := here(t, r, Settings{})
	x := &Security{Settings: Settings{Sec: "krb5p:sys"}, Kerberos: k}
	var o nfsclient.Options
	must.Succeed(t, x.Apply(&o))
	if _, err := o.GSS(oncrpc.FlavorKrb5p, "server.test"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("without a ticket: got %v, want EACCES", err)
	}
	kinit(t, r, temp, 0, "alice")
	if auth, err := o.GSS(oncrpc.FlavorKrb5p, "server.test"); auth == nil || err != nil {
		t.Errorf("with a ticket: got %v, %v", auth, err)
	}
	if len(o.Sec) != 2 || o.TLS != nil {
		t.Errorf("options: flavors %v, want 2 and no TLS", o.Sec)
	}
}

// On a machine without krb5.conf the error names that file.
func TestNoConfiguration(t *testing.T) {
	t.Setenv("KRB5_CONFIG", filepath.Join(t.TempDir(), "krb5.conf"))
	k := newKerberos(&Settings{}, nil)
	_, err := k.Sources(alice)
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "krb5.conf") {
		t.Errorf("got %v", err)
	}
}

// A user without tickets is logged once in a minute, whatever the others do.
func TestLinesAboutUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		k := &Kerberos{log: func(line string) { lines = append(lines, line) }, logged: map[uint32]time.Time{}}
		for range 3 {
			for range 100 {
				k.complain(&TicketError{UID: alice, Err: errors.New("a")})
				k.complain(&TicketError{UID: bob, Expired: true, Err: errors.New("b")})
			}
			time.Sleep(logPause)
		}
		if len(lines) != 6 {
			t.Errorf("logged %d lines, want 6: %q", len(lines), lines)
		}
		for uid := range uint32(3 * maxLogged) {
			k.complain(&TicketError{UID: uid, Err: errors.New("c")})
			if n := len(k.logged); n > maxLogged {
				t.Fatalf("%d users are remembered, want at most %d", n, maxLogged)
			}
		}
	})
}
