// The realm's tickets and keys, as MIT's own programs see them.

package realm

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// output runs an MIT program with a credential cache and returns its output and exit status.
func output(r *Realm, ccache string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = r.Env(ccache)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRealm(t *testing.T) {
	r := New(t, Options{Life: time.Hour})
	r.AddPrincipal("alice", "secret")
	r.AddPrincipal("nfs/localhost", "")
	r.AddPrincipal("host/localhost", "", AES128SHA2)
	keytab := r.Keytab("nfs/localhost", "host/localhost")
	keys, err := output(r, "", "klist", "-ke", keytab)
	if n := strings.Count(keys, "nfs/localhost@EXAMPLE.TEST"); err != nil || n != 4 {
		t.Errorf("keytab: %v, %d keys of nfs/localhost, want 4:\n%s", err, n, keys)
	}
	if n := strings.Count(keys, "host/localhost@EXAMPLE.TEST"); n != 1 || !strings.Contains(keys, AES128SHA2) {
		t.Errorf("keytab: %d keys of host/localhost, want 1:\n%s", n, keys)
	}

	ccache := r.Kinit("alice", "secret")
	for service, has := range map[string]bool{"nfs/localhost": true, "nfs/elsewhere": false} {
		if said, err := output(r, ccache, "kvno", "-k", keytab, service); (err == nil) != has {
			t.Errorf("ticket for %s: %v, want %v\n%s%s", service, err, has, said, r.Log())
		}
	}
	r.NewKeys("nfs/localhost")
	r.KeytabTo(keytab, "nfs/localhost")
	if keys, err := output(r, "", "klist", "-k", keytab); err != nil || !strings.Contains(keys, "   2 nfs/localhost@") {
		t.Errorf("keytab after NewKeys: %v\n%s", err, keys)
	}
	r.Close()
	if said, err := output(r, ccache, "kvno", "host/localhost"); err == nil {
		t.Errorf("a closed realm gives tickets: %s", said)
	}
}

// TestShortLife: a ticket of one second ends.
func TestShortLife(t *testing.T) {
	r := New(t, Options{Name: "SHORT.TEST", Enctypes: []string{AES128SHA1}})
	r.AddPrincipal("bob", "secret")
	ccache := r.Kinit("bob", "secret", "-l", "1s")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := output(r, ccache, "klist", "-s"); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a ticket of one second is valid after a minute")
		}
	}
}
