// Names of hosts in principals: files of the machine, and DNS only if krb5.conf permits it.

package krb5

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A names is a resolver. A key is addr:, cname: or host: and the argument; the value is the result.
type names map[string]string

func (n names) look(key string) (string, error) {
	if v, ok := n[key]; ok {
		return v, nil
	}
	return "", errors.New("no " + key)
}

func (n names) LookupAddr(_ context.Context, addr string) ([]string, error) {
	v, err := n.look("addr:" + addr)
	return strings.Fields(v), err
}

func (n names) LookupCNAME(_ context.Context, host string) (string, error) {
	return n.look("cname:" + host)
}

func (n names) LookupHost(_ context.Context, host string) ([]string, error) {
	v, err := n.look("host:" + host)
	return strings.Fields(v), err
}

// TestHostNames: each setting in krb5.conf leads to the right names, while an attacker answers for
// DNS.
func TestHostNames(t *testing.T) {
	files := names{"addr:192.0.2.7": "known.example.", "cname:short": "short.example."}
	dns := names{
		"addr:192.0.2.7": "evil.test.", "addr:192.0.2.8": "evil.test.", "addr:192.0.2.9": "evil-reverse.test.",
		"cname:files.example": "evil.test.", "cname:short.example": "evil.test.", "cname:other.domain.test": "evil.test.",
		"cname:alone": "evil.test.", "host:evil.test": "192.0.2.9",
	}
	search := filepath.Join(t.TempDir(), "resolv.conf")
	must.Succeed(t, os.WriteFile(search, []byte("nameserver 192.0.2.1\ndomain first.test\nsearch Domain.Test. other.test\n"), 0o600))
	for _, row := range []struct{ conf, host, want string }{
		{"", "Files.Example.", "files.example"},
		{"", "192.0.2.7", "known.example"},
		{"", "192.0.2.8", "error"},
		{"", "short", "short.example"},
		{"", "other", "other.domain.test"},
		{"", "mapped", "mapped"},
		{"qualify_shortname = conf.test", "other", "other.conf.test"},
		{"qualify_shortname =", "alone", "alone"},
		{"dns_canonicalize_hostname = false", "files.example", "files.example"},
		{"dns_canonicalize_hostname = false", "192.0.2.8", "error"},
		{"rdns = true", "files.example", "files.example"},
		{"dns_canonicalize_hostname = fallback\nrdns = false", "files.example", "files.example evil.test"},
		{"dns_canonicalize_hostname = fallback", "files.example", "files.example evil-reverse.test"},
		{"dns_canonicalize_hostname = fallback", "unknown.example", "unknown.example"},
		{"dns_canonicalize_hostname = fallback", "192.0.2.7", "known.example"},
		{"dns_canonicalize_hostname = fallback", "192.0.2.8", "evil.test"},
		{"dns_canonicalize_hostname = true\nrdns = false", "files.example", "evil.test"},
		{"dns_canonicalize_hostname = yes", "files.example", "evil-reverse.test"},
		{"dns_canonicalize_hostname = true", "unknown.example", "unknown.example"},
		{"dns_canonicalize_hostname = true", "192.0.2.8", "evil.test"},
		{"dns_canonicalize_hostname = true", "192.0.2.10", "error"},
	} {
		c := conf(t, "[libdefaults]\n"+row.conf+"\n[domain_realm]\nmapped = R\n")
		c.files, c.dns, c.resolvConf = files, dns, search
		list, err := c.hostNames(t.Context(), row.host)
		got := strings.Join(list, " ")
		if err != nil {
			got = "error"
		}
		if got != row.want {
			t.Errorf("%s with %q: got %s (%v), want %s", row.host, row.conf, got, err, row.want)
		}
	}
}

// TestHostsFile: the default resolver of files knows this machine, and asks no DNS.
func TestHostsFile(t *testing.T) {
	c := conf(t, "[libdefaults]\n")
	if got, err := c.hostNames(t.Context(), "127.0.0.1"); err != nil || got[0] != "localhost" {
		t.Errorf("127.0.0.1: got %v, %v, want localhost", got, err)
	}
	if _, err := c.files.LookupAddr(t.Context(), "192.0.2.1"); err == nil || !strings.Contains(err.Error(), errNoDNS.Error()) {
		t.Errorf("192.0.2.1: got %v, want %v", err, errNoDNS)
	}
}

// TestFallbackToTheNameInDNS: if the KDC does not know the first name, the name in DNS is used, but
// only with the setting fallback.
func TestFallbackToTheNameInDNS(t *testing.T) {
	r := newRealm(t)
	r.conf.files, r.conf.dns = names{}, names{"cname:alias.example": "localhost."}
	for setting, known := range map[string]bool{"fallback": true, "false": false} {
		r.conf.profile["libdefaults/dns_canonicalize_hostname"] = []string{setting}
		_, _, err := establish(t.Context(), r.conf.Cache(r.ccache, -1), "alias.example", r.acceptor(t))
		if (err == nil) != known {
			t.Errorf("%s: got %v, want success: %t", setting, err, known)
		}
	}
}
