// The commands that serve prints: they have the security that exports demand, and they work.

package program

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestMountDemands: a command has exactly the options that the rules of an export demand.
func TestMountDemands(t *testing.T) {
	p := newPKI(t)
	s := &security{cert: p.server, key: p.serverKey, clientCA: []string{p.ca}}
	must.Succeed(t, s.openStore())
	s.kerberos.live = &kerberosServer{principals: []string{"host/a.example.org@R", "nfs/files.example.org@R", "nfs/localhost@R"}}
	inside, outside := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2049}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2049}
	const own = "cert=/etc/nfsrdma/tls/CLIENT.crt,key=/etc/nfsrdma/tls/CLIENT.key"
	for _, of := range []struct {
		rules, ours, linux string
		at                 net.Addr
	}{
		{"*", "proto=tcp 10.0.0.1:/x", "10.0.0.1:/x", outside},
		{"*(sec=krb5p:sys)", "proto=tcp 10.0.0.1:/x", "10.0.0.1:/x", outside},
		{"*(sec=krb5p:krb5)", "proto=tcp,sec=krb5p files.example.org:/x", ",sec=krb5p files.example.org:/x", outside},
		{"*(sec=krb5)", "proto=tcp,sec=krb5 localhost:/x", ",sec=krb5 localhost:/x", inside},
		{"a(sec=krb5p:krb5i) b(sec=sys:krb5i)", "proto=tcp,sec=krb5i files.example.org:/x", ",sec=krb5i files.example.org:/x", outside},
		{"a(sec=krb5p) b(sec=krb5i)", "proto=tcp 10.0.0.1:/x", "10.0.0.1:/x", outside},
		{"a(sec=krb5p) b", "proto=tcp 10.0.0.1:/x", "10.0.0.1:/x", outside},
		{"*(xprtsec=tls)", "proto=tcp,xprtsec=tls,cacert=" + p.ca + " 127.0.0.1:/x", ",xprtsec=tls 127.0.0.1:/x", inside},
		{"*(xprtsec=tls)", "proto=tcp,xprtsec=tls,cacert=" + p.ca + ",tlsname=127.0.0.1 10.0.0.1:/x", ",xprtsec=tls 127.0.0.1:/x", outside},
		{"a b(xprtsec=mtls)", "proto=tcp,xprtsec=mtls,cacert=" + p.ca + "," + own + " 127.0.0.1:/x", ",xprtsec=mtls 127.0.0.1:/x", inside},
		{"*(sec=krb5i,xprtsec=tls)", "proto=tcp,sec=krb5i,xprtsec=tls,cacert=" + p.ca + ",tlsname=127.0.0.1 localhost:/x", ",sec=krb5i,xprtsec=tls 127.0.0.1:/x", inside},
	} {
		f, mistakes := exports.ParseAll("exports", []byte("/x "+of.rules+"\n"))
		must.Succeed(t, mistakes...)
		set := &exportSet{o: &options{security: *s}, list: []nfsserver.Export{{Name: "/x", Rules: f.Exports[0]}}}
		d := set.demand("/x")
		l := &nfsserver.Service{TCPAddr: of.at}
		got := clientLine("/x", l, d) + "\n" + strings.Join(mountLines("/x", l, &portMapping{known: true, locks: true}, d), "\n")
		want := "nfsrdma mount -o " + of.ours + " /mnt\nmount -o vers=3,proto=tcp" + map[bool]string{true: " "}[of.linux[0] != ','] + of.linux + " /mnt"
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", of.rules, got, want)
		}
	}
}

// TestMountDemandsOverRDMA: commands use TLS over iWARP, but not over RoCE. Linux's command uses
// TLS only over TCP.
func TestMountDemandsOverRDMA(t *testing.T) {
	p := newPKI(t)
	s := &security{cert: p.server, key: p.serverKey, xprtsec: "tls"}
	must.Succeed(t, s.openStore())
	s.kerberos.live = &kerberosServer{}
	d := (&exportSet{o: &options{security: *s}}).demand("/x")
	rdma, tcp := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 20049}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2049}
	const linux = "\nmount -o vers=3,proto=tcp,xprtsec=tls 127.0.0.1:/x /mnt"
	options := "xprtsec=tls,cacert=" + p.ca + " 127.0.0.1:/x /mnt"
	for _, of := range []struct {
		l    *nfsserver.Service
		want string
	}{
		{&nfsserver.Service{RDMAAddr: rdma, RoCEAddr: rdma, TCPAddr: tcp}, "nfsrdma mount -o " + options + linux},
		{&nfsserver.Service{RoCEAddr: rdma, TCPAddr: tcp}, "nfsrdma mount -o proto=tcp," + options + linux},
		{&nfsserver.Service{RoCEAddr: rdma}, "(xprtsec=tls is for TCP and iWARP: serve with --tcp-port as well)\n(mount.nfs asks MOUNT over TCP: serve with --tcp-port as well)"},
	} {
		if got := clientLine("/x", of.l, d) + "\n" + strings.Join(mountLines("/x", of.l, &portMapping{known: true, locks: true}, d), "\n"); got != of.want {
			t.Errorf("%+v:\n got %s\nwant %s", of.l, got, of.want)
		}
	}
}

// TestAuthorityOfCertificate: the command names no authority file if no file of the server has the
// certificate's issuer.
func TestAuthorityOfCertificate(t *testing.T) {
	p, alone := newPKI(t), filepath.Join(t.TempDir(), "server.crt")
	text, err := os.ReadFile(p.server)
	must.Succeed(t, err)
	put(t, alone, string(text))
	for cert, want := range map[string]string{p.server: p.ca, alone: ""} {
		s := &security{cert: cert, key: p.serverKey}
		must.Succeed(t, s.openStore())
		chain := s.store.Server().Certificates[0]
		if got := s.authorityOf(chain.Leaf, chain.Certificate[1:]); got != want {
			t.Errorf("%s: authority %q, want %q", cert, got, want)
		}
	}
}

// TestPastedMountLine: an export demands mutual TLS. The printed command mounts it over RDMA, as
// soon as the client has a certificate.
func TestPastedMountLine(t *testing.T) {
	p, dir := newPKI(t), t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "exports")
	must.Succeed(t, os.Mkdir(data, 0o777))
	put(t, file, data+" *(insecure,xprtsec=mtls,sec=sys)\n")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, done := new(sharedBuffer), make(chan error, 1)
	root := newRoot()
	root.SetOut(out)
	root.SetArgs([]string{"serve", "--ephemeral-key", "--tcp-port", freePort(t), "--rdma", "iwarp", "--rdma-port", freePort(t), "--rpcbind", "off", "--log-level", "panic",
		"--control", filepath.Join(dir, "control"), "--exports", file, "--tls-cert", p.server, "--tls-key", p.serverKey, "--tls-client-ca", p.ca})
	go func() { done <- root.ExecuteContext(ctx) }()
	awaitText(t, out, "a client needs "+p.ca+", and a certificate and a key of its own")
	_, line, _ := strings.Cut(out.String(), "nfsrdma mount -o ")
	words := strings.Fields(line)
	own := strings.NewReplacer(clientCert, p.client, clientKey, p.clientKey)
	o, err := mountopt.Parse([]string{own.Replace(words[0])}, false)
	must.Succeed(t, err)
	source, err := o.Source(words[1])
	must.Succeed(t, err)
	client := o.Client(source.Targets[0])
	x, err := o.Security.Open(secure.Option, func(string) {})
	must.Succeed(t, err)
	must.Succeed(t, x.Apply(&client))
	c, err := nfsclient.Dial(ctx, source.Targets[0].Addr(), client)
	must.Succeed(t, err)
	if fsys, err := c.Mount(ctx, source.Targets[0].Path); err != nil {
		t.Errorf("nfsrdma mount -o %s %s: %v", words[0], words[1], err)
	} else if _, err := fsys.Stat(ctx, "."); err != nil {
		t.Errorf("Stat: %v", err)
	}
	if l := c.Links()[0]; l.Xprtsec != "mtls" || l.Transport != "iwarp" {
		t.Errorf("%s over %s, want mtls over iwarp", l.Xprtsec, l.Transport)
	}
	c.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestClearWarning: a server with TLS warns of exports whose rules accept connections without TLS.
func TestClearWarning(t *testing.T) {
	p := newPKI(t)
	for _, of := range []struct {
		tls                bool
		rules, flags, want string
	}{
		{false, "/x *\n", "", ""},
		{true, "/x *\n", "", "/x: clients may mount in clear"},
		{true, "/x *(xprtsec=tls)\n/y *(xprtsec=mtls)\n", "", ""},
		{true, "/x *(xprtsec=tls)\n/y a(xprtsec=tls) b\n/z *\n", "", "/y and 1 more export: clients may mount in clear"},
		{true, "", "", "/flags: clients may mount in clear"},
		{true, "", "tls", ""},
	} {
		set := &exportSet{o: &options{}}
		set.o.security.xprtsec = of.flags
		if of.tls {
			set.o.security.cert, set.o.security.key = p.server, p.serverKey
			must.Succeed(t, set.o.security.openStore())
		}
		f, mistakes := exports.ParseAll("exports", []byte(of.rules))
		must.Succeed(t, mistakes...)
		for _, x := range f.Exports {
			set.list = append(set.list, nfsserver.Export{Name: x.Path, Rules: x})
		}
		if of.rules == "" {
			set.list = []nfsserver.Export{{Name: "/flags"}}
		}
		if got := set.clearWarning(); !strings.HasPrefix(got, of.want) || (got == "") != (of.want == "") {
			t.Errorf("TLS %v, rules %q, --xprtsec %q: %q, want %q", of.tls, of.rules, of.flags, got, of.want)
		}
	}
}
