// The small authority's files, verified by openssl.

package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// extension returns an extension that no parser knows.
func extension(critical bool) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Critical: critical, Value: []byte{5, 0}}
}

// openssl runs openssl, and returns its output.
func openssl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		machine.Skip(t, "needs openssl")
	}
	out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput()
	return string(out), err
}

func TestOpenSSLAccepts(t *testing.T) {
	conformance.Proves(t, "R9289-051", "R9289-052", "R9289-054")
	p := newPKI(t)
	ca := filepath.Join(p.dir, AuthorityFile)
	list := p.revoke(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslserver", "-verify_hostname", "files.example.org", p.server.Certificate}, "OK"},
		{[]string{"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslserver", "-verify_ip", "127.0.0.1", p.server.Certificate}, "OK"},
		{[]string{"verify", "-x509_strict", "-CAfile", ca, "-purpose", "sslclient", "-verify_email", "alice@example.org", p.client.Certificate}, "OK"},
		{[]string{"verify", "-x509_strict", "-CAfile", ca, "-CRLfile", list, "-crl_check_all", p.client.Certificate}, "OK"},
		{[]string{"x509", "-in", p.client.Certificate, "-noout", "-text"}, "DNS:pc7.example.org, email:alice@example.org, IP Address:10.0.0.7, URI:https://example.org/pc7"},
		{[]string{"x509", "-in", ca, "-noout", "-text"}, "CA:TRUE, pathlen:0"},
		{[]string{"crl", "-in", list, "-CAfile", ca, "-noout"}, "verify OK"},
		{[]string{"pkey", "-in", p.client.Key, "-noout", "-text"}, "P-256"},
	} {
		if out, err := openssl(t, c.args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("openssl %v: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}

func TestOpenSSLRefuses(t *testing.T) {
	p := newPKI(t)
	ca := filepath.Join(p.dir, AuthorityFile)
	list := p.revoke(t, p.client.Certificate)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"verify", "-CAfile", ca, "-CRLfile", list, "-crl_check_all", p.client.Certificate}, "certificate revoked"},
		{[]string{"verify", "-CAfile", ca, "-purpose", "sslserver", p.client.Certificate}, "unsuitable certificate purpose"},
		{[]string{"verify", "-CAfile", ca, "-verify_hostname", "x.example.org", p.server.Certificate}, "hostname mismatch"},
	} {
		if out, err := openssl(t, c.args...); err == nil || !strings.Contains(strings.ToLower(out), c.want) {
			t.Errorf("openssl %v: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}

// Each revocation is added to the list once, and the list's number grows.
func TestListGrows(t *testing.T) {
	p := newPKI(t)
	for i, step := range []struct {
		files []string
		want  int
	}{{[]string{p.client.Certificate}, 1}, {[]string{p.client.Certificate, p.server.Certificate}, 2}, {nil, 2}} {
		file := p.revoke(t, step.files...)
		lists, _, err := Read(file)
		must.Succeed(t, err)
		if n := len(lists[0].RevokedCertificateEntries); n != step.want || lists[0].Number.Int64() != int64(i+1) {
			t.Errorf("step %d: %d entries, number %v; want %d entries", i, n, lists[0].Number, step.want)
		}
	}
	if _, _, err := p.Revoke([]*x509.Certificate{p.Certificate()}, 5); err == nil || !strings.Contains(err.Error(), "is not from the authority") {
		t.Errorf("Revoke of the authority itself: %v, want an error", err)
	}
	other := newPKI(t)
	_, foreign, err := Read(other.client.Certificate)
	must.Succeed(t, err)
	if _, _, err := p.Revoke(foreign, 5); err == nil || !strings.Contains(err.Error(), "is not from the authority") {
		t.Errorf("Revoke of another authority's certificate: %v, want an error", err)
	}
}

// Nothing that exists is destroyed, and no key can be read by others.
func TestFilesAreKept(t *testing.T) {
	p := newPKI(t)
	for _, file := range []string{p.server.Key, p.client.Key, filepath.Join(p.dir, authorityKey)} {
		info, err := os.Stat(file)
		must.Succeed(t, err)
		must.Equal(t, "mode of "+file, info.Mode(), 0o600)
	}
	before := read(t, p.dir)
	if _, err := CreateCA(p.dir, "x", 1, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("CreateCA over another: %v, want an error", err)
	}
	if _, _, err := p.Issue(ForServer, "client", []string{"a"}, 1, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("Issue over another: %v, want an error", err)
	}
	// A certificate without its key stops Issue too, before the key is made.
	must.Succeed(t, os.Remove(p.client.Key))
	if _, _, err := p.Issue(ForServer, "client", []string{"a"}, 1, false); err == nil {
		t.Error("Issue over a certificate succeeds")
	}
	delete(before, p.client.Key)
	after := read(t, p.dir)
	if len(after) != len(before) {
		t.Errorf("files %d, want %d", len(after), len(before))
	}
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	_, err := CreateCA(p.dir, "x", 1, true)
	must.Succeed(t, err)
}

// read returns all files of a directory.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must.Succeed(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must.Succeed(t, err)
		all[name] = string(b)
	}
	return all
}

// A certificate ends no later than its authority's certificate, and names are checked.
func TestIssueRules(t *testing.T) {
	conformance.Proves(t, "R9289-053")
	p := newPKI(t)
	file, _, err := p.Issue(ForServer, "long", []string{"files.example.org"}, 1000, false)
	must.Succeed(t, err)
	_, made, err := Read(file)
	must.Succeed(t, err)
	must.Equal(t, "end", made[0].NotAfter, p.Certificate().NotAfter)
	for _, name := range []string{"", "a b", "-a", "a.", "a..b", "a/b", "@x", "x@", "a\nb", strings.Repeat("a", 64), "ä.org", "*", "a.*", "*.example.org"} {
		if _, _, err := p.Issue(ForServer, "bad", []string{"ok", name}, 5, false); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
	if _, err := OpenCA(t.TempDir()); err == nil || !strings.Contains(err.Error(), "make one") {
		t.Errorf("OpenCA without one: %v, want the cure", err)
	}
}
