// Commands with TLS and with Kerberos, against a server that demands them.

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
)

// secureServer serves memory as /mem at localhost, with the values of sec= and xprtsec= in
// exports(5). It returns how its URLs begin.
func secureServer(t *testing.T, sec, xprtsec string, cfg transport.ServerConfig) (rdma, tcp string) {
	t.Helper()
	demands, err := exports.ParseSecurity(sec, xprtsec)
	must.Succeed(t, err)
	mem := memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: "/mem", FS: mem}}, Security: demands, AsyncNames: true, Squash: nfsserver.Squash{NoRootSquash: true},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { srv.Close() })
	rpc := transport.NewServer(cfg, srv.Programs()...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	done := make(chan struct{}, 2)
	go func() { rpc.ServeRDMA(dev, rl); done <- struct{}{} }()
	go func() { rpc.ServeTCP(tl); done <- struct{}{} }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		rpc.Shutdown(ctx)
		<-done
		<-done
	})
	at := func(l interface{ Addr() net.Addr }) string {
		return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
	}
	return "nfsrdma://" + at(rl), "nfs://" + at(tl)
}

// An authority issues certificates, as files in a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.pem and NAME.key. Missing fields of the template get usual values.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(a.t, err)
	a.last++
	c.SerialNumber, c.Subject, c.NotBefore = big.NewInt(a.last), pkix.Name{CommonName: name}, time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(100*24*time.Hour + time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must.Succeed(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(a.t, err)
	must.Succeed(a.t,
		os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	out, err := x509.ParseCertificate(der)
	must.Succeed(a.t, err)
	return out, key
}

// server returns the TLS configuration of a server with a certificate for localhost.
func (a *authority) server(c *x509.Certificate) func() *tls.Config {
	a.t.Helper()
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	a.issue("server", c)
	pair, err := tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key"))
	must.Succeed(a.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool} }
}

// refused runs the program, and fails the test unless the program fails with one line that contains
// all parts.
func refused(t *testing.T, args []string, parts ...string) {
	t.Helper()
	_, errOut, code := try(t, args...)
	if code == 0 {
		t.Errorf("%q succeeds, want a refusal with %q", args, parts)
	}
	for _, part := range parts {
		if !strings.Contains(errOut, part) {
			t.Errorf("%q: got %q, want %q in it", args, errOut, part)
		}
	}
	if n := strings.Count(errOut, "\n"); n != 1 {
		t.Errorf("%q: got %d lines, want one:\n%s", args, n, errOut)
	}
}

// Commands reach a server that requires TLS, but not without TLS or with a wrong certificate.
func TestCommandsWithTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	rdma, tcp := secureServer(t, "sys", "tls", transport.ServerConfig{TLS: ca.server(&x509.Certificate{DNSNames: []string{"localhost"}})})
	with := []string{"--xprtsec", "tls", "--cacert", ca.file("ca.pem")}
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, []byte("secret"), 0o600))
	nfs(t, append([]string{"cp", file, tcp + "/mem/"}, with...)...)
	if got := nfs(t, append([]string{"cat", tcp + "/mem/file"}, with...)...); got != "secret" {
		t.Errorf("cat: got %q, want the copied text", got)
	}
	if got := nfs(t, append([]string{"ls", "--nconnect", "3", tcp + "/mem"}, with...)...); got != "file\n" {
		t.Errorf("ls: got %q, want file", got)
	}
	if got := nfs(t, append([]string{"ping", "-c", "1", tcp}, with...)...); !strings.Contains(got, "over tcp, tls (TLS_") {
		t.Errorf("ping: got %q, want the cipher in it", got)
	}
	refused(t, []string{"ls", tcp + "/mem"}, "AUTH_TOOWEAK", "--xprtsec mtls or --sec krb5, or a certificate")
	refused(t, []string{"ls", "--xprtsec", "tls", tcp + "/mem"}, "its certificate is from an unknown authority", "--cacert")
	refused(t, []string{"ls", "--xprtsec", "tls", "--cacert", other.file("ca.pem"), tcp + "/mem"}, "unknown authority")
	if got := nfs(t, append([]string{"cat", rdma + "/mem/file"}, with...)...); got != "secret" {
		t.Errorf("cat over RDMA: got %q, want the copied text", got)
	}
	if got := nfs(t, append([]string{"ping", "-c", "1", rdma}, with...)...); !strings.Contains(got, "over rdma, tls (TLS_") {
		t.Errorf("ping over RDMA: got %q, want the cipher in it", got)
	}
	refused(t, append([]string{"ls", "--rdma", "roce", rdma + "/mem"}, with...), "--xprtsec tls is not possible over RoCE: use iWARP (--rdma iwarp)")
	refused(t, []string{"ls", "--xprtsec", "tls", "--cacert", ca.file("none.pem"), tcp + "/mem"}, "none.pem")

	address := strings.Replace(tcp, "localhost", "127.0.0.1", 1)
	refused(t, append([]string{"ls", address + "/mem"}, with...), "its certificate is for another name", "--tls-name")
	if got := nfs(t, append([]string{"ls", "--tls-name", "localhost", address + "/mem"}, with...)...); got != "file\n" {
		t.Errorf("ls by address: got %q, want file", got)
	}
	_, plain := serve(t)
	refused(t, append([]string{"ls", plain + "/mem", "--tls-name", "localhost"}, with...), "it offers no TLS", "nfsrdmad cert")
}

// With mtls the client needs a certificate from the server's authority.
func TestCommandsWithClientCertificate(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	_, tcp := secureServer(t, "sys", "mtls", transport.ServerConfig{TLS: ca.server(&x509.Certificate{DNSNames: []string{"localhost"}})})
	for _, a := range []*authority{ca, other} {
		a.issue("client", &x509.Certificate{DNSNames: []string{"client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	list := func(a *authority) []string {
		return []string{"ls", "--xprtsec", "mtls", "--cacert", ca.file("ca.pem"), "--cert", a.file("client.pem"), "--key", a.file("client.key"), tcp + "/mem"}
	}
	if got := nfs(t, list(ca)...); got != "" {
		t.Errorf("ls: got %q, want an empty directory", got)
	}
	refused(t, list(other), "it refused the TLS handshake", "have the server trust the authority of "+other.file("client.pem"))
	refused(t, []string{"ls", "--xprtsec", "tls", "--cacert", ca.file("ca.pem"), tcp + "/mem"}, "AUTH_TOOWEAK")
}

// doctor prints the certificate's name, its expiry, and a remedy for each problem.
func TestDoctorWithTLS(t *testing.T) {
	ca := newAuthority(t)
	_, tcp := secureServer(t, "sys", "tls", transport.ServerConfig{TLS: ca.server(&x509.Certificate{DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(5*24*time.Hour + time.Hour)})})
	out, _, _ := try(t, "doctor", "--xprtsec", "tls", "--cacert", ca.file("ca.pem"), tcp+"/mem")
	for _, part := range []string{"WARN  TLS", "TLS 1.3", "certificate for localhost", "valid for 5 days", "the server's certificate ends on", "renew it in time", "proto=tcp,", "xprtsec=tls", "OK    FSINFO"} {
		if !strings.Contains(out, part) {
			t.Errorf("soon expired: no %q in\n%s", part, out)
		}
	}
	if out, _, _ = try(t, "doctor", tcp+"/mem"); !strings.Contains(out, "offered, and not asked for (--xprtsec tls)") {
		t.Errorf("without TLS:\n%s", out)
	}
}

// revoke writes a list of revoked certificates.
func (a *authority) revoke(name string, list ...*x509.Certificate) string {
	a.t.Helper()
	l := x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range list {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: l.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, &l, a.cert, a.key)
	must.Succeed(a.t, err, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600))
	return a.file(name)
}

// doctorsCure runs doctor, and returns the advice of the only failure, which must be that of check.
// All checks in skipped must be skipped.
func doctorsCure(t *testing.T, check string, skipped []string, args ...string) (advice string) {
	t.Helper()
	out, _, code := try(t, append([]string{"doctor"}, args...)...)
	fails := 0
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "FAIL  ") {
			fails++
			advice = strings.TrimSpace(lines[i+1])
		}
	}
	if code == 0 || fails != 1 || !strings.Contains(out, "FAIL  "+check+" ") {
		t.Errorf("%q: status %d, %d failures, want one of %s:\n%s", args, code, fails, check, out)
	}
	for _, name := range skipped {
		if !strings.Contains(out, "SKIP  "+name+" ") {
			t.Errorf("%q: %s is not skipped:\n%s", args, name, out)
		}
	}
	return advice
}

// TestDoctorCuresTLS: each fault of TLS causes exactly one failure, with the remedy for that fault.
func TestDoctorCuresTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	client := &x509.Certificate{DNSNames: []string{"client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, a := range []*authority{ca, other} {
		a.issue("client", client)
	}
	old := *client
	old.NotAfter = time.Now().Add(-time.Minute)
	ca.issue("old", &old)
	named := func(name string, end time.Time) func() *tls.Config {
		return ca.server(&x509.Certificate{DNSNames: []string{name}, NotAfter: end})
	}
	_, expired := secureServer(t, "sys", "tls", transport.ServerConfig{TLS: named("localhost", time.Now().Add(-time.Minute))})
	_, misnamed := secureServer(t, "sys", "tls", transport.ServerConfig{TLS: named("elsewhere", time.Time{})})
	_, good := secureServer(t, "sys", "mtls", transport.ServerConfig{TLS: named("localhost", time.Time{})})
	_, revoked, err := certs.Read(ca.file("server.pem"))
	must.Succeed(t, err)
	crl, none := ca.revoke("crl.pem", revoked...), other.revoke("none.pem")
	trust := []string{"--cacert", ca.file("ca.pem")}
	own := func(a *authority, name string) []string {
		return append([]string{"--xprtsec", "mtls", "--cert", a.file(name + ".pem"), "--key", a.file(name + ".key")}, trust...)
	}
	tlsOnly := append([]string{"--xprtsec", "tls"}, trust...)
	skipped := []string{"programs/TCP", "MOUNT", "MNT", "FSINFO", "mount command"}
	for _, tt := range []struct {
		server string
		args   []string
		want   string
	}{
		{good, []string{"--xprtsec", "tls"}, "give the certificate of the server's authority by --cacert FILE"},
		{good, []string{"--xprtsec", "tls", "--cacert", other.file("ca.pem")}, "by --cacert FILE: " + other.file("ca.pem") + " is of another one"},
		{misnamed, tlsOnly, "give that name by --tls-name NAME"},
		{expired, tlsOnly, "renew the server's certificate"},
		{good, append(tlsOnly, "--crl", crl), "have the server use another certificate"},
		{good, append(tlsOnly, "--crl", none), "give the present list of the server's authority by --crl FILE"},
		{good, own(other, "client"), "have the server trust the authority of " + other.file("client.pem")},
		{good, own(ca, "old"), "renew the certificate " + ca.file("old.pem")},
		{good, own(ca, "server"), "give a certificate for clients by --cert FILE"},
	} {
		if got := doctorsCure(t, "TLS", skipped, append(tt.args, tt.server+"/mem")...); !strings.Contains(got, tt.want) {
			t.Errorf("%q: got the cure %q, want %q", tt.args, got, tt.want)
		}
	}
}

// TestDoctorFindsDemandOfTLS: if the export requires more TLS than requested, the printed commands
// have the missing options and files.
func TestDoctorFindsDemandOfTLS(t *testing.T) {
	ca := newAuthority(t)
	cfg := ca.server(&x509.Certificate{DNSNames: []string{"localhost"}})
	_, simple := secureServer(t, "sys", "tls:mtls", transport.ServerConfig{TLS: cfg})
	rdma, mutual := secureServer(t, "sys", "mtls", transport.ServerConfig{TLS: cfg})
	authority := []string{"--xprtsec", "tls", "--cacert", ca.file("ca.pem")}
	for _, tt := range []struct {
		args []string
		cure string
		line string
	}{
		{[]string{simple + "/mem"}, "ask for TLS: --xprtsec tls --cacert FILE", ",xprtsec=tls,cacert=FILE localhost:/mem"},
		{[]string{mutual + "/mem"}, "--xprtsec mtls --cert FILE --key FILE --cacert FILE", ",xprtsec=mtls,cacert=FILE,cert=FILE,key=FILE localhost:/mem"},
		{[]string{rdma + "/mem"}, "--xprtsec mtls --cert FILE --key FILE --cacert FILE", ",xprtsec=mtls,cacert=FILE,cert=FILE,key=FILE localhost:/mem"},
		{append(authority, mutual+"/mem"), "--xprtsec mtls --cert FILE --key FILE (", ",xprtsec=mtls,cert=FILE,key=FILE,cacert=" + ca.file("ca.pem")},
	} {
		if got := doctorsCure(t, "FSINFO", []string{"who am I there"}, tt.args...); !strings.Contains(got, tt.cure) {
			t.Errorf("%q: got the cure %q, want %q", tt.args, got, tt.cure)
		}
		out, _, _ := try(t, append([]string{"doctor"}, tt.args...)...)
		_, commands, _ := strings.Cut(out, "To mount it:\n")
		for line := range strings.SplitSeq(commands, "\n") {
			if strings.HasPrefix(line, "  nfsrdma mount") && !strings.Contains(line, tt.line) {
				t.Errorf("%q: got the command %q, want %q in it", tt.args, line, tt.line)
			}
			if strings.HasPrefix(line, "  mount ") && !strings.Contains(line, "xprtsec=") {
				t.Errorf("%q: got the command %q, want xprtsec= in it", tt.args, line)
			}
		}
		if !strings.Contains(commands, tt.line) {
			t.Errorf("%q: no command with %q in\n%s", tt.args, tt.line, out)
		}
	}
}

// TestTLSErrorsNameMountOptions: a remedy has the form in which the user writes options.
func TestTLSErrorsNameMountOptions(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	_, tcp := secureServer(t, "sys", "tls", transport.ServerConfig{TLS: ca.server(&x509.Certificate{DNSNames: []string{"localhost"}})})
	other.issue("client", &x509.Certificate{DNSNames: []string{"client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	address := strings.Replace(tcp, "localhost", "127.0.0.1", 1)
	authority := ",cacert=" + ca.file("ca.pem")
	for _, tt := range []struct{ server, options, want string }{
		{tcp, "xprtsec=tls", "by cacert=FILE"},
		{address, "xprtsec=tls" + authority, "by tlsname=NAME"},
		{tcp, "xprtsec=mtls,cert=" + other.file("client.pem") + ",key=" + other.file("client.key") + authority, "have the server trust the authority of"},
		{tcp, "xprtsec=tls,crl=" + ca.revoke("crl.pem"), "add cacert=FILE"},
	} {
		_, errs, code := try(t, "mount", "-f", "-o", tt.options, tt.server+"/mem", t.TempDir())
		if code == 0 || !strings.Contains(errs, tt.want) || strings.Contains(strings.ReplaceAll(errs, "nfsrdmad: --", ""), "--") {
			t.Errorf("-o %s: status %d, got %q, want %q in it, and no flag", tt.options, code, errs, tt.want)
		}
	}
}

// kerberosServer returns a realm with a user, and a server with one flavor. The process has no
// ticket.
func kerberosServer(t *testing.T, sec string) (r *realm.Realm, rdma, tcp string) {
	t.Helper()
	r = realm.New(t, realm.Options{Enctypes: []string{realm.AES256SHA1}})
	r.AddPrincipal("alice", "secret")
	r.AddPrincipal("nfs/localhost", "")
	acceptor, err := krb5.NewAcceptor(krb5.AcceptorOptions{Keytab: r.Keytab("nfs/localhost")})
	must.Succeed(t, err)
	known := gss.NewServer(gss.ServerConfig{Acceptor: acceptor, Map: func(principal string) (transport.Cred, bool) {
		return transport.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, principal == "alice@EXAMPLE.TEST"
	}})
	rdma, tcp = secureServer(t, sec, "", transport.ServerConfig{Security: []transport.SecurityFlavor{known}})
	t.Setenv("KRB5_CONFIG", r.Conf())
	t.Setenv("KRB5_KTNAME", filepath.Join(t.TempDir(), "no keytab"))
	t.Setenv("KRB5CCNAME", filepath.Join(t.TempDir(), "no cache"))
	return r, rdma, tcp
}

// Commands reach an export of each flavor, over both transports, with the user's ticket.
func TestCommandsWithKerberos(t *testing.T) {
	for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
		t.Run(sec, func(t *testing.T) {
			r, rdma, tcp := kerberosServer(t, sec)
			refused(t, []string{"ls", tcp + "/mem"}, "the server wants sec="+sec, "no usable Kerberos ticket: run kinit")
			t.Setenv("KRB5CCNAME", r.Kinit("alice", "secret"))
			file := filepath.Join(t.TempDir(), "file")
			data := strings.Repeat("data of alice\n", 200_000)
			must.Succeed(t, os.WriteFile(file, []byte(data), 0o600))
			for _, url := range []string{rdma, tcp} {
				nfs(t, "cp", "--sec", sec, file, url+"/mem/")
				// without --sec the export's list decides
				if got := nfs(t, "cat", url+"/mem/file"); got != data {
					t.Errorf("%s: cat: got %d bytes, want the %d of the file", url, len(got), len(data))
				}
				nfs(t, "mv", url+"/mem/file", url+"/mem/moved")
				nfs(t, "rm", url+"/mem/moved")
				var report pingReport
				must.Succeed(t, json.Unmarshal([]byte(nfs(t, "ping", "-c", "1", "--json", "--sec", sec, url)), &report))
				if report.Sec != sec || report.XprtSec != "none" || report.Cipher != "" {
					t.Errorf("%s: ping: got %+v", url, report)
				}
				refused(t, []string{"ls", "--sec", "sys", url + "/mem"}, "the server wants sec="+sec, "and not sec=sys")
			}
		})
	}
}

// doctor checks each step of Kerberos.
func TestDoctorWithKerberos(t *testing.T) {
	r, _, tcp := kerberosServer(t, "krb5i:krb5p")
	out, _, code := try(t, "doctor", tcp+"/mem")
	for _, part := range []string{"OK    Kerberos realm", "realm EXAMPLE.TEST, KDC " + r.Addr() + ", clocks differ by 0s", "FAIL  ticket", "run kinit as this user", "SKIP  Kerberos "} {
		if !strings.Contains(out, part) {
			t.Errorf("without a ticket: no %q in\n%s", part, out)
		}
	}
	if code == 0 {
		t.Error("without a ticket: doctor succeeds")
	}
	t.Setenv("KRB5CCNAME", r.Kinit("alice", "secret"))
	out, _, _ = try(t, "doctor", tcp+"/mem")
	for _, part := range []string{"OK    ticket          alice@EXAMPLE.TEST, from FILE:", "OK    Kerberos        krb5i: the server knows itself and this user", "OK    FSINFO", "sec=krb5i"} {
		if !strings.Contains(out, part) {
			t.Errorf("with a ticket: no %q in\n%s", part, out)
		}
	}
	r.Close()
	out, _, _ = try(t, "doctor", "--sec", "krb5p", tcp+"/mem")
	if !strings.Contains(out, "FAIL  Kerberos realm") || !strings.Contains(out, "no KDC answers: "+r.Addr()) {
		t.Errorf("without a KDC:\n%s", out)
	}
}
