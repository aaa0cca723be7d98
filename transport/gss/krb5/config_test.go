// krb5.conf, cache names and the choice of a keytab's principal.

package krb5

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// conf writes the files of a configuration and loads the first one.
func conf(t *testing.T, files ...string) *Config {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for i, text := range files {
		name := []string{"krb5.conf", "d/one", "d/two.conf", "d/not.rpmsave", "d/.hidden.conf"}[i]
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644))
	}
	c, err := LoadConfig(filepath.Join(dir, "krb5.conf"))
	must.Succeed(t, err)
	return c
}

func TestConfig(t *testing.T) {
	c := conf(t, `# comment
includedir DIR/d
[libdefaults]
	default_realm = LATE.EXAMPLE
	clockskew = 2m
	dns_lookup_kdc = no
	permitted_enctypes = aes256-cts-hmac-sha384-192, rc4-hmac aes128-sha1 aes128-cts
	default_ccache_name = "FILE:/run/user/%{uid}/krb5cc"
	default_keytab_name = FILE:/etc/nfs.keytab
[realms]
	EXAMPLE.ORG = {
		kdc = kdc1.example.org
		kdc = kdc2.example.org:750
		kdc = https://proxy.example.org/KdcProxy
		auth_to_local_names = {
			root = nobody
		}
		admin_server = kdc1.example.org
	}
[domain_realm]
	.example.org = EXAMPLE.ORG
	.lab.example.org = LAB.EXAMPLE
	host.lab.example.org = HOST.EXAMPLE
	bare.example = BARE.EXAMPLE
[appdefaults]
	pam = { 
		x = 1
	}
`, "[libdefaults]\ndefault_realm = EXAMPLE.ORG\n", "[realms]\nEXAMPLE.ORG = {\nkdc = [2001:db8::1]\n}*\n", "broken", "broken")
	must.Equal(t, "realm", c.Realm(), "EXAMPLE.ORG")
	must.Equal(t, "clock skew", c.ClockSkew(), 2*time.Minute)
	if got, want := fmt.Sprint(c.KDCs("EXAMPLE.ORG")), "[[2001:db8::1]:88 kdc1.example.org:88 kdc2.example.org:750]"; got != want {
		t.Errorf("KDCs: got %s, want %s", got, want)
	}
	if got := c.enctypes("default_tgs_enctypes"); !slices.Equal(got, []int32{AES256SHA2, AES128SHA1}) {
		t.Errorf("enctypes: %v", got)
	}
	for host, want := range map[string]string{
		"a.example.org": "EXAMPLE.ORG", "A.B.Example.Org.": "EXAMPLE.ORG", "x.lab.example.org": "LAB.EXAMPLE",
		"host.lab.example.org": "HOST.EXAMPLE", "bare.example": "BARE.EXAMPLE", "example.org": "", "other.example": "", "short": "",
	} {
		if got := c.RealmOf(host); got != want {
			t.Errorf("realm of %s: got %q, want %q", host, got, want)
		}
	}
	t.Setenv("KRB5_KTNAME", "")
	must.Equal(t, "keytab", c.KeytabName(), "/etc/nfs.keytab")
	t.Setenv("KRB5CCNAME", "DIR:/x")
	must.Equal(t, "own cache", c.CacheName(os.Getuid()), "DIR:/x")
	must.Equal(t, "another's cache", c.CacheName(4711), "FILE:/run/user/4711/krb5cc")
	for _, host := range []string{"A.Example.Org.", "a.example.org"} {
		if got, err := c.hostNames(t.Context(), host); err != nil || len(got) != 1 || got[0] != "a.example.org" {
			t.Errorf("names of %s: got %q, %v, want a.example.org", host, got, err)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Setenv("KRB5CCNAME", "")
	t.Setenv("KRB5_KTNAME", "")
	c := conf(t, "[libdefaults]\n")
	must.Equal(t, "clock skew", c.ClockSkew(), DefaultClockSkew)
	must.Equal(t, "keytab", c.KeytabName(), "/etc/krb5.keytab")
	must.Equal(t, "cache", c.CacheName(12), "FILE:/tmp/krb5cc_12")
	if got := len(c.enctypes("default_tgs_enctypes")); got != len(enctypes) {
		t.Errorf("%d enctypes, want all", got)
	}
}

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "krb5.conf")
	if _, err := LoadConfig(file); err == nil {
		t.Error("a missing file is loaded")
	}
	for _, text := range []string{"[libdefaults", "stray", "[libdefaults]\nstray", "include " + file, "include /nonexistent/x\n"} {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
		if _, err := LoadConfig(file); err == nil {
			t.Errorf("%q is loaded", text)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d 2h": 26 * time.Hour,
		"1:30": 90 * time.Minute, "0:0:7": 7 * time.Second, "10s": 10 * time.Second,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "-5", "1:2:3:4", "xd"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestMachinePrincipal(t *testing.T) {
	entries := func(names ...string) (list []KeytabEntry) {
		for _, n := range names {
			list = append(list, KeytabEntry{name: parseName(n, "R")})
		}
		return list
	}
	for _, v := range []struct {
		host, want string
		names      []string
	}{
		{"box.example.org", "BOX$@R", []string{"host/box.example.org", "root/box.example.org", "BOX$"}},
		{"box.example.org", "root/box.example.org@R", []string{"host/box.example.org", "nfs/box.example.org", "root/box.example.org"}},
		{"box", "nfs/box.example.org@R", []string{"root/other", "host/box.example.org", "nfs/box.example.org"}},
		{"box", "host/box@R", []string{"root/other", "host/box"}},
		{"box", "nfs/other@R", []string{"host/other", "nfs/other", "alice"}},
		{"box", "", []string{"alice", "HTTP/box"}},
	} {
		got, ok := machinePrincipal(entries(v.names...), v.host)
		if text := got.String(); ok != (v.want != "") || ok && text != v.want {
			t.Errorf("%q at %s: got %s, %v, want %q", v.names, v.host, text, ok, v.want)
		}
	}
}

func TestCacheFile(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	must.Succeed(t, os.Mkdir(other, 0o755), os.WriteFile(filepath.Join(other, "primary"), []byte("tkt7\n"), 0o644))
	bad := filepath.Join(dir, "bad")
	must.Succeed(t, os.Mkdir(bad, 0o755), os.WriteFile(filepath.Join(bad, "primary"), []byte("tkt/../../x\n"), 0o644))
	for cache, want := range map[string]string{
		"/tmp/a:b": "/tmp/a:b", "FILE:/tmp/c": "/tmp/c", "relative": "relative", "DIR:" + dir: dir + "/tkt",
		"DIR:" + other: other + "/tkt7", "DIR::" + other + "/tkt3": other + "/tkt3",
	} {
		if got, err := cacheFile(cache); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", cache, got, err, want)
		}
	}
	for _, cache := range []string{"KEYRING:persistent:0", "KCM:", "MEMORY:x", "DIR:" + bad} {
		if got, err := cacheFile(cache); err == nil || !strings.Contains(err.Error(), "cache") {
			t.Errorf("%s: got %q, %v", cache, got, err)
		}
	}
	if _, err := cacheFile("KEYRING:persistent:0"); err == nil || !strings.Contains(err.Error(), "default_ccache_name = FILE:") {
		t.Errorf("KEYRING: the error says no cure: %v", err)
	}
}
