// Handshakes with certificates of the small authority: accepted, refused and explained.

package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A pki is an authority with a server's and a client's certificate.
type pki struct {
	*CA
	server, client Options // with the authority
}

func newPKI(t testing.TB) *pki {
	t.Helper()
	ca, err := CreateCA(t.TempDir(), "test authority", 10, false)
	must.Succeed(t, err)
	p := &pki{CA: ca}
	p.server = p.issue(t, ForServer, "server", "files.example.org", "127.0.0.1")
	p.client = p.issue(t, ForClient, "client", "pc7.example.org", "10.0.0.7", "alice@example.org", "https://example.org/pc7")
	return p
}

func (p *pki) issue(t testing.TB, u Usage, base string, names ...string) Options {
	t.Helper()
	cert, key, err := p.Issue(u, base, names, 5, false)
	must.Succeed(t, err)
	return Options{Certificate: cert, Key: key, Authorities: []string{filepath.Join(p.dir, AuthorityFile)}, Log: slog.New(slog.DiscardHandler)}
}

func (p *pki) revoke(t testing.TB, files ...string) string {
	t.Helper()
	var all []*x509.Certificate
	for _, file := range files {
		_, list, err := Read(file)
		must.Succeed(t, err)
		all = append(all, list...)
	}
	file, _, err := p.Revoke(all, 5)
	must.Succeed(t, err)
	return file
}

// patience limits a test's wait for its peer.
const patience = time.Minute

// handshake connects two configurations, and exchanges a byte each way: a client learns only then
// that its certificate is refused.
func handshake(t testing.TB, server, client *tls.Config) (state tls.ConnectionState, atServer, atClient error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	b, err := l.Accept()
	must.Succeed(t, err, a.SetDeadline(time.Now().Add(patience)), b.SetDeadline(time.Now().Add(patience)))
	s, c := tls.Server(b, server), tls.Client(a, client)
	done := make(chan error, 1)
	go func() {
		defer s.Close()
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		done <- err
	}()
	defer c.Close()
	if atClient = c.Handshake(); atClient == nil {
		_, atClient = io.ReadFull(c, make([]byte, 1))
	} else {
		a.Close()
	}
	atServer = <-done
	return s.ConnectionState(), atServer, atClient
}

func opened(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	must.Succeed(t, err)
	return s
}

func TestHandshakes(t *testing.T) {
	conformance.Proves(t, "R9289-020", "R9289-027", "R9289-049", "R9289-050", "R9289-055", "R9289-056", "R9289-057", "R9289-058")
	p, other := newPKI(t), newPKI(t)
	list := p.revoke(t, p.issue(t, ForClient, "revoked", "gone.example.org").Certificate)
	edit := func(o Options, f func(o *Options)) Options { f(&o); return o }
	required := edit(p.server, func(o *Options) { o.ClientAuth = RequiredClientCert })
	optional := edit(p.server, func(o *Options) { o.ClientAuth = OptionalClientCert })
	listed := edit(required, func(o *Options) { o.Revocations = []string{list} })
	anonymous := edit(p.client, func(o *Options) { o.Certificate, o.Key = "", "" })
	for _, c := range []struct {
		name           string
		server, client Options
		as             string // the server's name
		reason         Reason // "" for success
		atServer       string // in the server's error
		atClient       string
	}{
		{"tls", p.server, anonymous, "files.example.org", "", "", ""},
		{"tls by address", p.server, anonymous, "127.0.0.1", "", "", ""},
		{"mtls", required, p.client, "files.example.org", "", "", ""},
		{"mtls with a list", listed, p.client, "files.example.org", "", "", ""},
		{"optional, with", optional, p.client, "files.example.org", "", "", ""},
		{"optional, without", optional, anonymous, "files.example.org", "", "", ""},
		{"wrong name", p.server, anonymous, "other.example.org", ReasonName, "our certificate is bad", "not for other.example.org, but for files.example.org, 127.0.0.1"},
		{"wrong address", p.server, anonymous, "127.0.0.2", ReasonName, "our certificate is bad", "not for 127.0.0.2"},
		{"unknown server", other.server, anonymous, "files.example.org", ReasonUnknownCA, "", "is from CN=test authority, not from a trusted authority"},
		{"unknown client", required, edit(other.client, func(o *Options) { o.Authorities = p.client.Authorities }), "files.example.org", ReasonUnknownCA, "CN=pc7.example.org is from CN=test authority", ""},
		{"unknown optional client", optional, edit(other.client, func(o *Options) { o.Authorities = p.client.Authorities }), "files.example.org", ReasonUnknownCA, "add the certificate", ""},
		{"no client certificate", required, anonymous, "files.example.org", ReasonNone, "the client has no certificate", "it requires a certificate"},
		{"a client's certificate for a server", p.client, anonymous, "pc7.example.org", ReasonUsage, "", "extended key usage"},
		{"a server's certificate for a client", required, p.server, "files.example.org", ReasonUsage, "extended key usage", "our certificate is bad"},
		{"revoked", listed, edit(p.client, func(o *Options) {
			o.Certificate, o.Key = filepath.Join(p.dir, "revoked.crt"), filepath.Join(p.dir, "revoked.key")
		}), "files.example.org", ReasonRevoked, "CN=gone.example.org was revoked on", "our certificate is bad"},
		{"no list of the issuer", edit(required, func(o *Options) { o.Revocations = []string{other.revoke(t)} }), p.client, "files.example.org", ReasonCRL, "no revocation list is from CN=test authority", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, atServer, atClient := handshake(t, opened(t, c.server).Server(), opened(t, c.client).Client(c.as))
			if c.reason == "" {
				must.Succeed(t, atServer, atClient)
				return
			}
			s, e := Explain(atServer), Explain(atClient)
			if s == nil || e == nil {
				t.Fatalf("at the server %v, at the client %v; want errors", s, e)
			}
			if s.Reason != c.reason && e.Reason != c.reason {
				t.Errorf("reasons %s and %s, want %s", s.Reason, e.Reason, c.reason)
			}
			if !strings.Contains(s.Error(), c.atServer) || !strings.Contains(e.Error(), c.atClient) {
				t.Errorf("at the server %q, at the client %q; want %q and %q", s, e, c.atServer, c.atClient)
			}
			if strings.ContainsAny(s.Error()+e.Error(), "\n\r") {
				t.Errorf("more than a line: %q, %q", s, e)
			}
		})
	}
}

// Dates are checked by the reader's clock.
func TestDates(t *testing.T) {
	p := newPKI(t)
	required := p.server
	required.ClientAuth, required.Revocations = RequiredClientCert, []string{p.revoke(t)}
	for _, c := range []struct {
		name   string
		at     time.Duration
		reason Reason
		want   string
	}{
		{"now", 0, "", ""},
		{"before", -48 * time.Hour, ReasonExpired, "is valid only from"},
		{"after", 6 * 24 * time.Hour, ReasonExpired, "expired on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := open(required, func() time.Time { return time.Now().Add(c.at) })
			must.Succeed(t, err)
			_, atServer, _ := handshake(t, s.Server(), opened(t, p.client).Client("files.example.org"))
			if c.reason == "" {
				must.Succeed(t, atServer)
				return
			}
			if e := Explain(atServer); e == nil || e.Reason != c.reason || !strings.Contains(e.Error(), c.want) {
				t.Errorf("%v, want %s: %q", e, c.reason, c.want)
			}
		})
	}
}

// A list has dates too: an expired one refuses all.
func TestListDates(t *testing.T) {
	p := newPKI(t)
	file, _, err := p.Revoke(nil, 1)
	must.Succeed(t, err)
	for at, want := range map[time.Duration]string{25 * time.Hour: "expired on", -90 * time.Minute: "begins on", time.Hour: ""} {
		b, err := readFile(file, "list")
		must.Succeed(t, err)
		lists, err := parseLists(file, b)
		must.Succeed(t, err)
		_, leaf, err := Read(p.client.Certificate)
		must.Succeed(t, err)
		err = lists.check([][]*x509.Certificate{{leaf[0], p.Certificate()}}, time.Now().Add(at))
		if want == "" {
			must.Succeed(t, err)
			continue
		}
		if e := Explain(err); e == nil || e.Reason != ReasonCRL || !strings.Contains(e.Error(), want) {
			t.Errorf("after %v: %v, want %q", at, err, want)
		}
	}
}

// The latest list of an issuer counts, wherever it stands.
func TestLatestListCounts(t *testing.T) {
	p := newPKI(t)
	first, err := os.ReadFile(p.revoke(t))
	must.Succeed(t, err)
	old := filepath.Join(p.dir, "old.crl")
	must.Succeed(t, os.WriteFile(old, first, 0o644))
	oldList, err := parseLists(old, first)
	must.Succeed(t, err)
	oldList[0].list.ThisUpdate = oldList[0].list.ThisUpdate.Add(-time.Minute)
	second, err := os.ReadFile(p.revoke(t, p.client.Certificate))
	must.Succeed(t, err)
	newList, err := parseLists("new", second)
	must.Succeed(t, err)
	_, leaf, err := Read(p.client.Certificate)
	must.Succeed(t, err)
	chains := [][]*x509.Certificate{{leaf[0], p.Certificate()}}
	for _, all := range []revocations{append(oldList, newList...), append(newList, oldList...)} {
		if e := Explain(all.check(chains, time.Now())); e == nil || e.Reason != ReasonRevoked {
			t.Errorf("check: %v, want it revoked", e)
		}
	}
}

// TLS 1.2 is refused on both sides.
func TestOldVersion(t *testing.T) {
	conformance.Proves(t, "R9289-024")
	p := newPKI(t)
	server, client := opened(t, p.server).Server(), opened(t, p.client).Client("files.example.org")
	for name, c := range map[string]struct{ server, client *tls.Config }{
		"client": {server, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}},
		"server": {&tls.Config{Certificates: server.Certificates, MaxVersion: tls.VersionTLS12}, client},
	} {
		_, atServer, atClient := handshake(t, c.server, c.client)
		s, e := Explain(atServer), Explain(atClient)
		if s == nil || e == nil || s.Reason != ReasonVersion && e.Reason != ReasonVersion {
			t.Errorf("an old %s: %v, %v; want a reason about the version", name, s, e)
		}
	}
}

func TestFacts(t *testing.T) {
	p := newPKI(t)
	o := p.server
	o.ClientAuth = RequiredClientCert
	state, atServer, atClient := handshake(t, opened(t, o).Server(), opened(t, p.client).Client("files.example.org"))
	must.Succeed(t, atServer, atClient)
	f, ok := PeerOf(&state)
	if !ok {
		t.Fatal("PeerOf: no facts of a verified certificate")
	}
	if state.NegotiatedProtocol != Protocol || f.Subject != "CN=pc7.example.org" {
		t.Errorf("protocol %q, subject %q", state.NegotiatedProtocol, f.Subject)
	}
	got := strings.Join(append(append(append([]string{f.IPs[0].String()}, f.DNS...), f.Emails...), f.URIs...), " ")
	must.Equal(t, "names", got, "10.0.0.7 pc7.example.org alice@example.org https://example.org/pc7")
	if len(f.Authorities) != 1 || f.Authorities[0].Subject != "CN=test authority" || f.Authorities[0].Fingerprint == f.Fingerprint {
		t.Errorf("authorities %v", f.Authorities)
	}
	for _, cs := range []*tls.ConnectionState{nil, {PeerCertificates: state.PeerCertificates}} {
		if _, ok := PeerOf(cs); ok {
			t.Error("PeerOf has facts of a certificate that was not verified")
		}
	}
}

// A Store reads changed files again, and keeps the earlier ones if they have a mistake.
func TestReload(t *testing.T) {
	p := newPKI(t)
	var log bytes.Buffer
	o := p.server
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	now := time.Now()
	s, err := open(o, func() time.Time { return now })
	must.Succeed(t, err)
	used := func() string {
		now = now.Add(2 * lookInterval)
		c := s.Server().Certificates[0]
		return c.Leaf.SerialNumber.String()
	}
	first := used()
	_, _, err = p.Issue(ForServer, "server", []string{"files.example.org"}, 5, true)
	must.Succeed(t, err)
	if used() == first {
		t.Error("a new certificate is not used")
	}
	second := used()
	must.Equal(t, "reloads", s.Stats().Reloads, 1)
	must.Succeed(t, os.WriteFile(o.Certificate, []byte("damaged"), 0o644))
	for range 3 {
		must.Equal(t, "certificate after a mistake", used(), second)
	}
	if n := strings.Count(log.String(), "cannot use changed TLS files"); n != 1 {
		t.Errorf("the mistake is logged %d times, want once", n)
	}
	stats := s.Stats()
	if stats.Failures != 1 || stats.Err == nil || stats.NotAfter.IsZero() {
		t.Errorf("%+v, want one failure and its error", stats)
	}
	_, _, err = p.Issue(ForServer, "server", []string{"files.example.org"}, 5, true)
	must.Succeed(t, err)
	if used() == second || s.Stats().Err != nil {
		t.Errorf("a corrected file is not used: %+v", s.Stats())
	}
}

// The files are looked at once a second at most, even after the clock was set back.
func TestLookInterval(t *testing.T) {
	p := newPKI(t)
	now := time.Now()
	s, err := open(p.server, func() time.Time { return now })
	must.Succeed(t, err)
	_, _, err = p.Issue(ForServer, "server", []string{"a"}, 5, true)
	must.Succeed(t, err)
	now = now.Add(lookInterval - 1)
	must.Equal(t, "reloads within the interval", s.Stats().Reloads, 0)
	now = now.Add(-time.Hour)
	must.Equal(t, "reloads after a clock set back", s.Stats().Reloads, 1)
}

func TestMistakes(t *testing.T) {
	p, other := newPKI(t), newPKI(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode))
		return file
	}
	read := func(file string) string {
		b, err := os.ReadFile(file)
		must.Succeed(t, err)
		return string(b)
	}
	key := read(p.server.Key)
	cert := read(p.server.Certificate)
	with := func(f func(o *Options)) Options { o := p.server; f(&o); return o }
	for want, o := range map[string]Options{
		"does not exist":                      with(func(o *Options) { o.Certificate = filepath.Join(dir, "none") }),
		"is not a regular file":               with(func(o *Options) { o.Certificate = dir }),
		"certificate 1 is missing or damaged": with(func(o *Options) { o.Certificate = write("empty", "", 0o644) }),
		"block 1 is a X509 CRL":               with(func(o *Options) { o.Authorities = []string{p.revoke(t)} }),
		"certificate 2 is missing or damaged": with(func(o *Options) { o.Authorities = []string{write("half", cert+cert[:200], 0o644)} }),
		"does not belong to certificate":      with(func(o *Options) { o.Key = other.server.Key }),
		"(mode 0640): chmod 600":              with(func(o *Options) { o.Key = write("open.key", key, 0o640) }),
		"(mode 0604): chmod 600":              with(func(o *Options) { o.Key = write("open4.key", key, 0o604) }),
		"has a passphrase": with(func(o *Options) {
			o.Key = write("sealed.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n", 0o600)
		}),
		"name a key in PEM form":       with(func(o *Options) { o.Key = write("bad.key", "x", 0o600) }),
		"need an authority":            with(func(o *Options) { o.Authorities, o.ClientAuth = nil, OptionalClientCert }),
		"need their authority":         with(func(o *Options) { o.Authorities, o.Revocations = nil, []string{"x"} }),
		"has no certificate":           with(func(o *Options) { o.Certificate = "" }),
		"is not a revocation list":     with(func(o *Options) { o.Revocations = []string{write("bad.crl", "x", 0o644)} }),
		"not an X509 CRL":              with(func(o *Options) { o.Revocations = []string{o.Certificate} }),
		"list 1 is missing or damaged": with(func(o *Options) { o.Revocations = []string{write("half.crl", read(p.revoke(t))[:100], 0o644)} }),
	} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open: %v, want %q in one line", err, want)
		}
	}
	// One file can have certificate and key.
	_, err := Open(with(func(o *Options) { o.Certificate, o.Key = write("both", cert+key, 0o600), "" }))
	must.Succeed(t, err)
}

// Partial lists are refused, because they would let revoked certificates pass.
func TestPartialLists(t *testing.T) {
	p := newPKI(t)
	critical := x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	critical.ExtraExtensions = append(critical.ExtraExtensions, extension(true))
	entry := critical
	entry.ExtraExtensions = nil
	entry.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: big.NewInt(5), RevocationTime: time.Now()}}
	entry.RevokedCertificateEntries[0].ExtraExtensions = append(entry.RevokedCertificateEntries[0].ExtraExtensions, extension(true))
	for want, l := range map[string]x509.RevocationList{"a partial revocation list": critical, "an indirect revocation list": entry} {
		der, err := x509.CreateRevocationList(rand.Reader, &l, p.certificate, p.key)
		must.Succeed(t, err)
		if _, err := parseLists("x", der); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseLists: %v, want %q", err, want)
		}
	}
}

// A list that another authority of the same name has signed does not count.
func TestForeignList(t *testing.T) {
	p, other := newPKI(t), newPKI(t)
	b, err := os.ReadFile(other.revoke(t, other.client.Certificate))
	must.Succeed(t, err)
	lists, err := parseLists("other", b)
	must.Succeed(t, err)
	if lists.of(p.Certificate()) != nil {
		t.Error("a list of another authority counts, want it ignored")
	}
}

func TestExplainKeepsErrors(t *testing.T) {
	if Explain(nil) != nil {
		t.Error("Explain(nil) is an error")
	}
	for err, want := range map[error]Reason{
		io.EOF: ReasonInterrupted, os.ErrDeadlineExceeded: ReasonInterrupted, errors.New("x\ny"): ReasonOther,
		tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}: ReasonProtocol,
	} {
		e := Explain(err)
		if e.Reason != want || !errors.Is(e, err) || strings.Contains(e.Error(), "\n") {
			t.Errorf("Explain(%v): %s, %q; want %s", err, e.Reason, e, want)
		}
	}
}

func FuzzCertificates(f *testing.F) {
	p := newPKI(f)
	b, err := os.ReadFile(p.server.Certificate)
	must.Succeed(f, err)
	key, err := os.ReadFile(p.server.Key)
	must.Succeed(f, err)
	f.Add(b)
	f.Add(append(bytes.Clone(b), key...))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseCertificates("x", b)
		if err == nil && len(all) == 0 {
			t.Error("no certificate and no error")
		}
		_, _ = parsePair("x", "y", b, b)
		_, _ = parseCertificates("x", withoutKeys(b))
		for _, c := range all {
			if strings.ContainsAny(names(c)+subject(c), "\n\r\x1b") {
				t.Errorf("names %q, subject %q", names(c), subject(c))
			}
		}
	})
}

func FuzzLists(f *testing.F) {
	p := newPKI(f)
	b, err := os.ReadFile(p.revoke(f, p.client.Certificate))
	must.Succeed(f, err)
	block, _ := pem.Decode(b)
	f.Add(b)
	f.Add(block.Bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		lists, err := parseLists("x", b)
		if err == nil && len(lists) == 0 {
			t.Error("no list and no error")
		}
		_ = lists.check([][]*x509.Certificate{{p.Certificate(), p.Certificate()}}, time.Now())
	})
}
