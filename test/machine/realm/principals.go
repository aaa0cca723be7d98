// Principals, keytabs and credential caches.

package realm

import (
	"fmt"
	"strings"
)

// kadmin runs one command of kadmin.local.
func (r *Realm) kadmin(format string, args ...any) string {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.run("kadmin.local", "-r", r.Name, "-q", fmt.Sprintf(format, args...))
	for line := range strings.Lines(out) { // kadmin.local's status is 0 also after a failed command
		for _, sign := range []string{" while ", "usage: ", "Unknown request"} {
			if strings.Contains(line, sign) {
				r.t.Fatalf("realm: kadmin.local "+format+": %s", append(args, line)...)
			}
		}
	}
	return out
}

// keysalts returns the option of a command for keys of some enctypes only.
func keysalts(enctypes []string) string {
	if len(enctypes) == 0 {
		return ""
	}
	return "-e " + strings.Join(enctypes, ":normal,") + ":normal "
}

// AddPrincipal adds a principal with a password, or with random keys if password is "". Without
// enctypes it has a key of each enctype of the realm.
func (r *Realm) AddPrincipal(name, password string, enctypes ...string) {
	r.t.Helper()
	if password == "" {
		r.kadmin("addprinc %s-randkey %s", keysalts(enctypes), name)
		return
	}
	r.kadmin("addprinc %s-pw %s %s", keysalts(enctypes), password, name)
}

// NewKeys gives a principal new random keys with the next key version number. The KDC keeps the old
// keys for tickets in use.
func (r *Realm) NewKeys(name string, enctypes ...string) {
	r.t.Helper()
	r.kadmin("cpw %s-randkey -keepold %s", keysalts(enctypes), name)
}

// Keytab writes the present keys of the principals to a new keytab file and returns its path.
func (r *Realm) Keytab(principals ...string) string {
	r.t.Helper()
	path := r.fresh("keytab")
	r.KeytabTo(path, principals...)
	return path
}

// KeytabTo adds the principals' keys to a keytab file, which need not exist.
func (r *Realm) KeytabTo(path string, principals ...string) {
	r.t.Helper()
	for _, p := range principals {
		r.kadmin("ktadd -norandkey -k %s %s", path, p)
	}
}

// Kinit gets a ticket-granting ticket with a password and returns the path of a new credential
// cache (type FILE). Further arguments go to kinit(1), such as "-l", "10s".
func (r *Realm) Kinit(principal, password string, args ...string) string {
	r.t.Helper()
	path := r.fresh("ccache")
	r.KinitTo("FILE:"+path, principal, password, args...)
	return path
}

// KinitTo gets a ticket like Kinit, into a named cache.
func (r *Realm) KinitTo(ccache, principal, password string, args ...string) {
	r.t.Helper()
	r.input(password+"\n", "kinit", append(append([]string{"-c", ccache}, args...), principal)...)
}

// fresh returns the path of a file that does not exist yet.
func (r *Realm) fresh(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return r.file(fmt.Sprintf("%s.%d", name, r.n))
}
