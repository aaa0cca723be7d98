// The guest of the tests of TLS and Kerberos: a client and a server with certificates, and with
// keys of a realm whose KDC is here.

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// The names of the two machines, in certificates, principals and the guest's /etc/hosts.
const (
	hostName  = "host.nfs.test"
	guestName = "guest.nfs.test"
)

// secureSeries is the kernel: 6.1 has no handshakes for TLS.
const secureSeries = "6.12"

// secureGuest is a guest with tlshd.
type secureGuest struct {
	*guest.Guest
	t *testing.T
}

// bootSecure boots a guest with the machines' names for one test. Its own server exports /export,
// over RDMA too. The host and the guest have addresses for each other.
func bootSecure(t *testing.T) *secureGuest {
	t.Helper()
	enter(t, secureSeries)
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	img, err := kernel(t, secureSeries).WithTLSHD(t.Context(), t.Logf)
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	must.Succeed(t, err)
	g, err := guest.Boot(t.Context(), guest.Config{Image: img, MemoryMB: 1024, Direct: true})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := g.Run(context.Background(), "cd /run; for f in tlshd.log gssd.log svcgssd.log; do [ ! -e $f ] || tail -n 40 $f | cut -c 1-300; done; dmesg | tail -n 30")
			t.Logf("the guest's console:\n%s\nits programs said:\n%s", g.Console(), said)
		}
		g.Close()
	})
	run(t, g, fmt.Sprintf("hostname %[2]s; echo '%[3]s %[1]s\n%[4]s %[2]s' >> /etc/hosts", hostName, guestName, g.Host, g.Guest)+`
siw_up fixed && client_up && mount -t tmpfs -o size=200m tmpfs /export && chmod 777 /export && knfsd_up /export 4 &&
echo 'hello from knfsd' > /export/hello.txt && dmesg -c > /dev/null`)
	return &secureGuest{g, t}
}

// copyFiles copies files of this machine into a directory of the guest.
func (g *secureGuest) copyFiles(dir string, files ...string) {
	g.t.Helper()
	script := "mkdir -p " + dir
	for _, from := range files {
		b, err := os.ReadFile(from)
		must.Succeed(g.t, err)
		name := filepath.Base(from)
		must.Succeed(g.t, os.WriteFile(filepath.Join(g.Share, name), b, 0o644))
		script += fmt.Sprintf(" && mv /share/%s %s/", name, dir)
		if filepath.Ext(name) != ".pem" {
			script += fmt.Sprintf(" && chmod 600 %s/%s", dir, name)
		}
	}
	run(g.t, g.Guest, script)
}

// A securePeer is a server that the guest mounts: its own, or ours.
type securePeer struct {
	name, hello      string // the host's, and the text of hello.txt
	tcp, rdma, mount int    // ports
}

// itself is the guest's own server.
var itself = securePeer{guestName, "hello from knfsd", 2049, 20049, 20048}

// serve starts our server with its export /export. Its TCP port is 2049, where rpc.gssd also makes
// the contexts of mounts over RDMA.
func (g *secureGuest) serve(t *testing.T, args ...string) (*server, securePeer) {
	t.Helper()
	s := &server{t: t, g: g.Guest, dir: exportDir(t), behind: machine.Port(t), tcp: itself.tcp, args: append(args, "--crc", "auto"), want: wire.Want{ServerOurs: true}}
	s.start()
	s.rdma = watched(t, g.Listen, s.address(s.behind), &s.want)
	t.Cleanup(s.stop)
	return s, securePeer{hostName, "hello from nfsrdmad", s.tcp, s.rdma, s.tcp}
}

// reached makes the guest's own server reachable for our client, and checks its RDMA traffic. The
// server has a principal for localhost, too.
func (g *secureGuest) reached(t *testing.T) *far {
	t.Helper()
	s := &guest.Server{Guest: g.Guest, RDMA: g.Address(itself.rdma), TCP: g.Address(itself.tcp), Mount: g.Address(itself.mount)}
	return reach(t, s, nil, &wire.Want{ClientOurs: true})
}

// at returns the command by which the guest mounts the peer's /export at /mnt.
func (p securePeer) at(proto, options string) string {
	port := p.tcp
	if proto == "rdma" {
		port = p.rdma
	}
	return fmt.Sprintf("mount_%s %s:/export /mnt %d %d %s || exit 1\n", proto, p.name, port, p.mount, options)
}

// readsSmall makes the guest mount a server with an option and read hello.txt. The mount must have
// the option.
func readsSmall(t *testing.T, g *guest.Guest, p securePeer, proto, option string) {
	t.Helper()
	out := run(t, g, p.at(proto, option)+"cat /mnt/hello.txt && grep ' /mnt ' /proc/mounts; umount /mnt")
	if !strings.Contains(out, p.hello) || !strings.Contains(out, ","+option+",") {
		t.Errorf("%s over %s: got %q, want %q of a mount with the option", option, proto, out, p.hello)
	}
}

// withTLS starts tlshd with certificates of an authority, which it returns with its directory.
func (g *secureGuest) withTLS() *authority {
	g.t.Helper()
	a := newAuthority(g.t, g.t.TempDir(), "ca")
	a.issue("client", guestName, time.Now().Add(time.Hour))
	a.issue("server", guestName, time.Now().Add(time.Hour))
	g.copyFiles("/etc/tlshd", a.files("ca.pem", "client.pem", "client.key", "server.pem", "server.key")...)
	run(g.t, g.Guest, "tls_up")
	return a
}

func (a *authority) files(names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(a.dir, name))
	}
	return paths
}

// users of the guest have a principal each, with this password.
const (
	alice, bob = "u1000", "u2000"
	password   = "secret"
)

var kdcLine = regexp.MustCompile(`(?m)kdc = .*$`)

// withKerberos starts a realm here, which the guest reaches through a relay, and Kerberos of both
// sides in the guest.
func (g *secureGuest) withKerberos(opts realm.Options) *realm.Realm {
	g.t.Helper()
	opts.Domains = map[string]string{".nfs.test": "EXAMPLE.TEST"}
	r := realm.New(g.t, opts)
	for _, user := range []string{alice, bob} {
		r.AddPrincipal(user, password)
	}
	here := []string{"nfs/" + guestName, "nfs/localhost"}
	for _, service := range append(here, "nfs/"+hostName) {
		r.AddPrincipal(service, "")
	}
	text, err := os.ReadFile(r.Conf())
	must.Succeed(g.t, err)
	conf := kdcLine.ReplaceAllString(string(text), fmt.Sprintf("kdc = %s:%d", g.Host, relay(g.t, g.Listen, r.Addr())))
	// The relay has TCP alone, and the caches are where rpc.gssd looks.
	conf = strings.Replace(conf, "[libdefaults]", "[libdefaults]\n\tudp_preference_limit = 1", 1)
	conf = regexp.MustCompile(`default_ccache_name = .*`).ReplaceAllString(conf, "default_ccache_name = FILE:/tmp/krb5cc_%{uid}")
	dir := g.t.TempDir()
	write(g.t, filepath.Join(dir, "krb5.conf"), []byte(conf))
	r.KeytabTo(filepath.Join(dir, "krb5.keytab"), here...)
	g.copyFiles("/etc", filepath.Join(dir, "krb5.conf"), filepath.Join(dir, "krb5.keytab"))
	run(g.t, g.Guest, "chmod 644 /etc/krb5.conf; krb5_up")
	return r
}

// login returns the command by which a user gets a ticket.
func login(user, options string) string {
	return fmt.Sprintf("echo %s | su %s -c 'kinit %s %s' > /dev/null || exit 1\n", password, user, options, user)
}
