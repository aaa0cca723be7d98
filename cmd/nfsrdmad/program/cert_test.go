// nfsrdmad cert: one command for each step; no step overwrites files.

package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// runCert runs cert with arguments, and returns its output.
func runCert(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append([]string{"cert"}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestCertSteps(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, step := range []struct {
		args  []string
		want  string // part of the output
		files []string
	}{
		{[]string{"ca", "--name", "Example"}, "CN=Example, until ", []string{"ca.crt", "ca.key"}},
		{[]string{"server", "files.example.org", "192.0.2.1"}, "for files.example.org, 192.0.2.1, until ", []string{"files.example.org.crt", "files.example.org.key"}},
		{[]string{"client", "https://example.org/pc7"}, "xprtsec=mtls", []string{"example.org_pc7.crt", "example.org_pc7.key"}},
		{[]string{"client", "pc8", "--name", "eight", "--days", "9"}, file("eight.key"), []string{"eight.crt"}},
		{[]string{"revoke"}, "ca.crl: 0 revoked certificates.", []string{"ca.crl"}},
		{[]string{"revoke", file("eight.crt")}, "ca.crl: 1 revoked certificate.", []string{"ca.crl"}},
	} {
		out, err := runCert(append(step.args, "--dir", dir)...)
		if err != nil || !strings.Contains(out, step.want) {
			t.Errorf("cert %v: %v, output %q; want %q", step.args, err, out, step.want)
		}
		for _, name := range step.files {
			info, err := os.Stat(file(name))
			if err != nil || strings.HasSuffix(name, ".key") && info.Mode() != 0o600 {
				t.Errorf("cert %v: %s: %v, %v; want a file, and a key with mode 0600", step.args, name, info, err)
			}
		}
	}
	for name, want := range map[string][]string{
		"ca.crt":                {"certificate of CN=Example", "for          authority", "3652 days left"},
		"files.example.org.crt": {"names        files.example.org, 192.0.2.1", "for          servers", "issuer       CN=Example", "364 days left"},
		"eight.crt":             {"for          clients", "8 days left"},
		"ca.crl":                {"revocation list of CN=Example", "364 days left", "  revoked      "},
	} {
		out, err := runCert("show", file(name))
		for _, w := range want {
			if err != nil || !strings.Contains(out, w) {
				t.Errorf("cert show %s: %v\n%s\nwant %q", name, err, out, w)
			}
		}
	}
}

func TestCertMistakes(t *testing.T) {
	dir := t.TempDir()
	if _, err := runCert("server", "a", "--dir", dir); err == nil || !strings.Contains(err.Error(), "make one") {
		t.Errorf("a server before the authority: %v, want the cure", err)
	}
	_, err := runCert("ca", "--dir", dir)
	must.Succeed(t, err)
	_, err = runCert("server", "a", "--dir", dir)
	must.Succeed(t, err)
	before, err := os.ReadFile(filepath.Join(dir, "a.key"))
	must.Succeed(t, err)
	empty := filepath.Join(dir, "empty.crt")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	for want, args := range map[string][]string{
		"a.key exists":              {"server", "a"},
		"ca.key exists":             {"ca"},
		"must be from 1 to":         {"server", "b", "--days", "0"},
		"days 99999":                {"ca", "--force", "--days", "99999"},
		"must be a file name":       {"client", "b", "--name", "../b"},
		"is the authority's":        {"client", "ca"},
		"is no host name":           {"server", "b c"},
		"an argument is missing":    {"client"},
		"does not exist":            {"revoke", "none.crt"},
		"certificate 1 is missing":  {"revoke", empty},
		"--dir is empty":            {"ca", "--dir", ""},
		"is not from the authority": {"revoke", filepath.Join(dir, "ca.crt")},
	} {
		all := args
		if args[len(args)-1] != "" {
			all = append(append([]string{}, args...), "--dir", dir)
		}
		if out, err := runCert(all...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("cert %v: %v\n%s\nwant %q", args, err, out, want)
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "a.key"))
	must.Succeed(t, err)
	if !bytes.Equal(before, after) {
		t.Error("a key was replaced without --force")
	}
	_, err = runCert("server", "a", "--force", "--dir", dir)
	must.Succeed(t, err)
	after, err = os.ReadFile(filepath.Join(dir, "a.key"))
	must.Succeed(t, err)
	if bytes.Equal(before, after) {
		t.Error("--force replaces nothing")
	}
}
