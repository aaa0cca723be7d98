// Security in serve: missing files, exports over TLS and with Kerberos, and how status, clients and
// metrics show both.

package program

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/top"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A pki has the files of an authority, with a server's and a client's certificate.
type pki struct{ ca, server, serverKey, client, clientKey string }

func newPKI(t *testing.T) (p pki) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	ca, err := certs.CreateCA(dir, "test", 30, false)
	must.Succeed(t, err)
	p.ca = filepath.Join(dir, certs.AuthorityFile)
	p.server, p.serverKey, err = ca.Issue(certs.ForServer, "server", []string{"127.0.0.1"}, 20, false)
	must.Succeed(t, err)
	p.client, p.clientKey, err = ca.Issue(certs.ForClient, "client", []string{"pc7.example.org"}, 20, false)
	must.Succeed(t, err)
	return p
}

// TestDemandsThatCannotBeMet: a server without a file that its exports need does not start, and
// reports the cure.
func TestDemandsThatCannotBeMet(t *testing.T) {
	conformance.Proves(t, "R9289-018")
	p := newPKI(t)
	dir := t.TempDir()
	file, none := filepath.Join(dir, "exports"), filepath.Join(dir, "none")
	put(t, filepath.Join(dir, "idmap"), "alice = alice\n")
	for _, of := range []struct{ rule, args, want string }{
		{"xprtsec=tls", "", file + ":1:" + "@: xprtsec=tls needs a certificate of the server: name it with --tls-cert"},
		{"xprtsec=mtls", "--tls-cert " + p.server + " --tls-key " + p.serverKey, ": xprtsec=mtls needs the authority of the clients' certificates: name its file with --tls-client-ca"},
		{"sec=krb5", "--keytab " + none, ": sec=krb5: there is no keytab " + none + ": write one with kadmin (ktadd nfs/HOST), or name another with --keytab"},
		{"sec=sys:krb5p", "--keytab " + none, ": sec=krb5p: there is no keytab"},
		{"", "--sec krb5i --keytab " + none, "--sec=krb5i: there is no keytab"},
		{"", "--xprtsec tls", "--xprtsec=tls needs a certificate"},
		{"", "--xprtsec x", `--xprtsec=x: "x" is none of none, tls, mtls`},
		{"", "--sec krb6", `--sec=krb6: "krb6" is none of`},
		{"", "--tls-key " + p.serverKey, "--tls-key, --tls-client-ca and --tls-crl need a certificate: name it with --tls-cert"},
		{"", "--tls-client-ca " + p.ca, "need a certificate: name it with --tls-cert"},
		{"", "--tls-cert " + none, none},
		{"", "--tls-cert " + p.server + " --tls-key " + p.clientKey, "key"},
		{"", "--idmap " + none, "--idmap: open " + none},
		{"", "--idmap " + filepath.Join(dir, "idmap"), `idmap:1:1: "alice" is not a principal`},
		{"", "--idmap-unknown no", `--idmap-unknown "no": must be nobody or refuse`},
	} {
		args := append([]string{"serve", "--ephemeral-key", "--tcp-port", freePort(t), "--rdma-port", "off", "--rpcbind", "off", "--log-level", "panic",
			"--control", filepath.Join(dir, "control")}, strings.Fields(of.args)...)
		if of.rule == "" {
			args = append(args, dir)
		} else {
			put(t, file, dir+" *("+of.rule+")\n")
			args = append(args, "--exports", file)
		}
		_, err := run(context.Background(), args...)
		for _, want := range strings.Split(of.want, "@") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("(%s) %s\n got %v\nwant %s", of.rule, of.args, err, want)
			}
		}
	}
}

// secured makes a GETATTR and an FSSTAT on an export, and returns the text of their errors.
func secured(t *testing.T, addr, path string, cfg transport.ClientConfig, auth *transport.Auth) string {
	t.Helper()
	c, err := transport.DialTCP(context.Background(), addr, cfg)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	var mnt mount3.MntRes
	p := transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: mount3.ProcMnt, Name: "MNT", MaxReply: 4096}
	must.Succeed(t, c.Call(context.Background(), &p, &mount3.PathArgs{Path: path}, &mnt, nil, 0))
	if mnt.Status != mount3.OK {
		return mnt.Status.String()
	}
	fh, err := nfs3.MakeFH(mnt.Handle)
	must.Succeed(t, err)
	var res nfs3.FsstatRes
	p = transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcFsstat, Name: "FSSTAT", MaxReply: 4096}
	if err := c.CallAs(context.Background(), auth, &p, &nfs3.FsstatArgs{FH: fh}, &res, nil, 0); err != nil {
		return err.Error()
	}
	return res.Status.String()
}

// clientTLS returns a client's configuration, with a certificate or without.
func clientTLS(t *testing.T, p pki, cert bool) transport.ClientConfig {
	t.Helper()
	o := certs.Options{Authorities: []string{p.ca}}
	if cert {
		o.Certificate, o.Key = p.client, p.clientKey
	}
	store, err := certs.Open(o)
	must.Succeed(t, err)
	return transport.ClientConfig{Cred: transport.SysCred(), TLS: store.Client("127.0.0.1")}
}

// TestServeTLS: three exports with different demands, and clients in clear, with TLS and with a
// certificate. A reload can change the demands.
func TestServeTLS(t *testing.T) {
	p, dir, tcp := newPKI(t), t.TempDir(), freePort(t)
	file, socket := filepath.Join(dir, "exports"), filepath.Join(dir, "control")
	for _, name := range []string{"any", "tls", "mtls", "other"} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, file, at("any")+" *(insecure)\n"+at("tls")+" *(insecure,xprtsec=tls)\n"+at("mtls")+" *(insecure,xprtsec=mtls,cert=*.example.org)\n"+
		at("other")+" *(insecure,xprtsec=mtls,cert=*.example.com)\n")
	end := serveArgs(t, "serve", "--ephemeral-key", "--tcp-port", tcp, "--rdma-port", "off", "--rpcbind", "off", "--log-level", "panic", "--control", socket,
		"--exports", file, "--tls-cert", p.server, "--tls-key", p.serverKey, "--tls-client-ca", p.ca)
	defer end()
	addr := net.JoinHostPort("127.0.0.1", tcp)
	dialServe(t, addr).Close()
	awaitControl(t, socket)
	const ok, weak = "NFS3_OK", "AUTH_TOOWEAK"
	clear, tls, mtls := transport.ClientConfig{Cred: transport.SysCred()}, clientTLS(t, p, false), clientTLS(t, p, true)
	for _, of := range []struct {
		export, clear, tls, mtls string
	}{{"any", ok, ok, ok}, {"tls", weak, ok, ok}, {"mtls", weak, weak, ok}, {"other", weak, weak, weak}} {
		for what, got := range map[string][2]string{
			"clear": {secured(t, addr, at(of.export), clear, nil), of.clear},
			"tls":   {secured(t, addr, at(of.export), tls, nil), of.tls},
			"mtls":  {secured(t, addr, at(of.export), mtls, nil), of.mtls},
		} {
			if !strings.Contains(got[0], got[1]) {
				t.Errorf("%s, %s: %s, want %s", of.export, what, got[0], got[1])
			}
		}
	}
	showsTLS(t, socket, addr, mtls)
	put(t, file, at("any")+" *(insecure,xprtsec=mtls)\n")
	if _, err := run(context.Background(), "reload", "--control", socket); err != nil {
		t.Fatalf("reload: %v", err)
	}
	if got := secured(t, addr, at("any"), tls, nil); !strings.Contains(got, weak) {
		t.Errorf("after the reload: %s, want %s", got, weak)
	}
	put(t, file, at("any")+" *(insecure,sec=krb5)\n")
	if _, err := run(context.Background(), "reload", "--control", socket); err == nil || !strings.Contains(err.Error(), "sec=krb5: ") {
		if _, absent := os.Stat(defaultKeytab); absent != nil {
			t.Errorf("reload with sec=krb5 and no keytab: %v, want a refusal", err)
		}
	}
}

// showsTLS checks the output of status and clients, and the metrics, for a server with one
// connection over mutual TLS.
func showsTLS(t *testing.T, socket, addr string, mtls transport.ClientConfig) {
	t.Helper()
	c, err := transport.DialTCP(context.Background(), addr, mtls)
	must.Succeed(t, err)
	defer c.Close()
	status := view(t, socket, "status")["tls"].(map[string]any)
	if days := status["expires_days"].(float64); days < 19 || days > 20 {
		t.Errorf("status: the certificate expires in %v days, want 20", days)
	}
	found := false
	for _, row := range view(t, socket, "clients")["clients"].([]any) {
		of := row.(map[string]any)
		tls, ok := of["tls"].(map[string]any)
		if !ok {
			continue
		}
		found = true
		if of["xprtsec"] != "mtls" || tls["version"] != "TLS 1.3" || !strings.HasPrefix(tls["cipher"].(string), "TLS_") {
			t.Errorf("clients: %v, want mtls and TLS 1.3", of)
		}
	}
	if !found {
		t.Error("clients: no connection with TLS")
	}
	if !slices.ContainsFunc(report(t, top.Local(socket)).Clients, func(c top.ClientRate) bool {
		return c.XprtSec == "mtls" && strings.HasPrefix(c.Cipher, "TLS_")
	}) {
		t.Error("top: no connection with mtls and a cipher")
	}
	for _, of := range [][2]string{{"status", "expires in 20 days"}, {"clients", "mtls"}} {
		if out, err := run(context.Background(), of[0], "--control", socket); err != nil || !strings.Contains(out, of[1]) {
			t.Errorf("%s: %v, want %q in\n%s", of[0], err, of[1], out)
		}
	}
}

// TestSecurityInWords: check says what a rule demands of calls and connections.
func TestSecurityInWords(t *testing.T) {
	for _, of := range []struct{ sec, xprtsec, want string }{
		{"", "", ""},
		{"sys", "none:tls", ", with sec=sys"},
		{"krb5p:sys", "", ", with sec=krb5p:sys"},
		{"krb5p:krb5i", "tls:mtls", ", with Kerberos alone (sec=krb5p:krb5i), over TLS alone"},
		{"", "mtls", ", over TLS alone with a certificate of the client"},
	} {
		d, err := exports.ParseSecurity(of.sec, of.xprtsec)
		must.Succeed(t, err)
		if got := rightsWords(&exports.Options{Security: d}); got != "reads and writes, root acts as 0:0"+of.want {
			t.Errorf("sec=%q, xprtsec=%q: %q, want the end %q", of.sec, of.xprtsec, got, of.want)
		}
	}
}

// TestMixedRules: a rule that accepts claimed users as well as proven users causes a warning,
// unless the claimed users act as the anonymous user.
func TestMixedRules(t *testing.T) {
	for options, want := range map[string]bool{
		"rw": false, "sec=sys": false, "sec=krb5": false, "sec=krb5:sys": true, "sec=sys,sec=krb5p": true,
		"sec=krb5:none": false, "sec=sys,all_squash,sec=krb5": false, "all_squash,sec=sys:krb5": false,
	} {
		f, err := exports.Parse("f", []byte("/a *("+options+")\n"))
		must.Succeed(t, err)
		if got := mixed(&f.Exports[0].Clients[0].Options.Security); got != want {
			t.Errorf("%s: %v, want %v", options, got, want)
		}
	}
}

// TestProven: only some values of the flags ensure that no caller can merely claim a user.
func TestProven(t *testing.T) {
	for flavors, want := range map[string]bool{"": false, "sys": false, "krb5": true, "krb5p:krb5i": true, "krb5:sys": false, "krb5:none": false} {
		s := security{sec: flavors}
		if got := s.proven(); got != want {
			t.Errorf("--sec %q: %v, want %v", flavors, got, want)
		}
	}
}

// TestAcceptablePrincipals: --krb5-principal selects principals of a keytab; without the flag, all
// principals are acceptable.
func TestAcceptablePrincipals(t *testing.T) {
	entries := []krb5.KeytabEntry{{Principal: "nfs/a.b@R"}, {Principal: "nfs/a.b@R"}, {Principal: "host/a.b@R"}, {Principal: "nfs/a.b@S"}}
	for only, want := range map[string]string{"": "nfs/a.b@R host/a.b@R nfs/a.b@S", "nfs/a.b": "nfs/a.b@R nfs/a.b@S", "nfs/a.b@S": "nfs/a.b@S", "x": ""} {
		if got := strings.Join(acceptable(entries, only), " "); got != want {
			t.Errorf("%q: %s, want %s", only, got, want)
		}
	}
}

// TestLookupUser: a user is found by name; a number is not taken as a name.
func TestLookupUser(t *testing.T) {
	id, err := lookupUser("root")
	if err != nil || id.UID != 0 || id.GID != 0 {
		t.Errorf("root: %v, %v", id, err)
	}
	for _, name := range []string{"0", "no-such-user-here", "-x"} {
		if id, err := lookupUser(name); err != idmap.ErrNoUser {
			t.Errorf("%q: %v, %v, want ErrNoUser", name, id, err)
		}
	}
	for line, want := range map[string]bool{"a:x:7:8:::\n": true, "b:x:7:8:::": false, "A:x:7:8:::": false, "a:x:7": false, "a:x:y:8:::": false, "a:x:7:y:::": false} {
		uid, gid, err := parseUser(line, "a")
		if got := err == nil; got != want {
			t.Errorf("%q: %d, %d, %v", line, uid, gid, err)
		}
	}
}
