// RPCSEC_GSS with Kerberos 5 (RFC 2203, RFC 4121) with Linux's client and server.

package linux

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
)

// services are the values of sec= for Kerberos.
var services = []string{"krb5", "krb5i", "krb5p"}

// TestKerberos: first Linux's client mounts Linux's server, which shows that the guest and its
// realm work. Then each works with our other end.
func TestKerberos(t *testing.T) {
	g := bootSecure(t)
	r := g.withKerberos(realm.Options{})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the KDC:\n%s", r.Log())
		}
	})
	run(t, g.Guest, login(alice, "")+login(bob, "")+"sec_export /export krb5:krb5i:krb5p")
	t.Run("linux-linux", func(t *testing.T) {
		for _, sec := range services {
			readsSmall(t, g.Guest, itself, "tcp", "sec="+sec)
			readsSmall(t, g.Guest, itself, "rdma", "sec="+sec)
		}
		if linuxServes() {
			mountsKerberos(t, g.Guest, itself)
			outlivesTicket(t, g.Guest, itself, "krb5p")
		}
		quiet(t, g.Guest)
	})
	t.Run("serve", func(t *testing.T) { g.mountsOurKerberos(t, r) })
	t.Run("commands", func(t *testing.T) { g.servesOurKerberos(t, r) })
}

// servesOurKerberos: our commands use the guest's server as a user with a ticket, and fail without
// a ticket.
func (g *secureGuest) servesOurKerberos(t *testing.T, r *realm.Realm) {
	s := g.reached(t)
	env := []string{"KRB5_CONFIG=" + r.Conf(), "KRB5CCNAME=FILE:" + r.Kinit(alice, password)}
	for _, sec := range services {
		for _, c := range []tool{tcpTool(t, s), rdmaTool(t, s)} {
			t.Run(c.scheme+"-"+sec, func(t *testing.T) {
				c.t, c.env = t, env
				c.args = append(c.args, "--sec", sec)
				listCatCopy(t, c, 8)
				if sec == "krb5p" {
					commands(t, c)
				}
				c.do("mkdir", c.path("of-alice"))
				if owner := run(t, g.Guest, "stat -c %u /export/of-alice && rmdir /export/of-alice"); owner != "1000\n" {
					t.Errorf("a directory of u1000 belongs to %q", owner)
				}
			})
		}
	}
	c := tcpTool(t, s)
	c.args, c.env = append(c.args, "--sec", "krb5"), []string{env[0], "KRB5CCNAME=FILE:" + filepath.Join(t.TempDir(), "none")}
	c.fails("ticket", "cat", c.path("hello.txt"))
	quiet(t, g.Guest)
}

// mountsOurKerberos: the guest mounts our server, and its users work there. The guest's root uses
// the guest's own principal, and has root's rights there.
func (g *secureGuest) mountsOurKerberos(t *testing.T, r *realm.Realm) {
	dir := t.TempDir()
	keytab, users := filepath.Join(dir, "keytab"), filepath.Join(dir, "users")
	r.KeytabTo(keytab, "nfs/"+hostName)
	write(t, users, fmt.Appendf(nil, "%[1]s@%[3]s = 1000:1000\n%[2]s@%[3]s = 2000:2000\n", alice, bob, r.Name))
	s, p := g.serve(t, "--sec", "krb5:krb5i:krb5p", "--keytab", keytab, "--idmap", users)
	mountsKerberos(t, g.Guest, p)
	for _, c := range []struct {
		proto, sec string
		hidden     bool
	}{{"tcp", "krb5i", false}, {"rdma", "krb5i", false}, {"tcp", "krb5p", true}, {"rdma", "krb5p", true}} {
		hides(t, g.Guest, s, p, c.proto, "sec="+c.sec, c.hidden)
	}
	for proto, sec := range map[string]string{"rdma": "krb5p", "tcp": "krb5i"} {
		t.Run(proto+"-"+sec, func(t *testing.T) {
			run(t, g.Guest, p.at(proto, "sec="+sec))
			checks(t, g.Guest, "-dir /mnt -large 8 -run 'sizes|mmap|symlinks|rename|unlink-open|attributes|readdir|parallel'")
			run(t, g.Guest, unmount)
		})
	}
	outlivesTicket(t, g.Guest, p, "krb5p")
	if out := run(t, g.Guest, p.at("tcp", "")+"grep ' /mnt ' /proc/mounts; umount /mnt"); !strings.Contains(out, ",sec=krb5,") {
		t.Errorf("a mount without sec=: got %q, want the first flavor of the server's list", out)
	}
	if out := run(t, g.Guest, "("+p.at("tcp", "sec=sys")+") && ls /mnt; true"); !strings.Contains(out, "access denied") {
		t.Errorf("sec=sys: got %q, want access denied", out)
	}
	quiet(t, g.Guest)
}

// asPrincipals makes two users with tickets, and one without, work in a mount. It prints only
// faults.
const asPrincipals = `
no="Permission denied"
refused() { user=$1; shift; su $user -c "$*" > /tmp/said 2>&1 && echo "$user may $*"; grep -q "$no" /tmp/said || head -c 200 /tmp/said; }
head -c 3000001 /dev/urandom > /tmp/data; chmod 644 /tmp/data
su u1000 -c "mkdir /mnt/DIR && cd /mnt/DIR && umask 077 && cat /tmp/data > large && echo secret > small && umask 022 && echo open > open && ln -s open link" || exit 1
drop_caches
su u1000 -c "cmp /tmp/data /mnt/DIR/large" || echo "large differs"
[ "$(su u2000 -c 'cat /mnt/DIR/open')" = open ] || echo "u2000 cannot read what is open"
refused u2000 'cat /mnt/DIR/small'
refused u2000 'md5sum /mnt/DIR/large'
refused u2000 'echo more >> /mnt/DIR/open'
refused u2000 'rm -f /mnt/DIR/small'
refused u3000 'cat /mnt/DIR/open'
[ $(stat -c %u:%g /mnt/DIR/small) = 1000:1000 ] || stat /mnt/DIR/small
su u1000 -c 'cd /mnt/DIR && for i in $(seq 40); do echo $i > a-file-with-a-long-name-$i; done; ls | wc -l; rm *' > /tmp/said
[ $(cat /tmp/said) = 44 ] || cat /tmp/said
su u1000 -c "rmdir /mnt/DIR" || ls -la /mnt/DIR
umount /mnt
`

// mountsKerberos: the guest mounts a server with each service of Kerberos, over both transports,
// and users have their own rights.
func mountsKerberos(t *testing.T, g *guest.Guest, p securePeer) {
	t.Helper()
	for _, proto := range []string{"tcp", "rdma"} {
		for _, sec := range services {
			readsSmall(t, g, p, proto, "sec="+sec)
			if out := run(t, g, p.at(proto, "sec="+sec)+strings.ReplaceAll(asPrincipals, "DIR", proto+"-"+sec)); out != "" {
				t.Errorf("sec=%s over %s:\n%s", sec, proto, out)
			}
		}
	}
}

// copySlowly copies blocks for 15 s, and stops at the first that fails.
const copySlowly = `
mkdir -p /tmp/own && cd /tmp/own && head -c 3000000 /dev/urandom > data
began=$(date +%s)
for i in $(seq 0 59); do
	dd if=data of=/mnt/copy bs=50k skip=$i seek=$i count=1 conv=notrunc,fsync 2> said || { grep : said; break; }
	sleep 0.25
done
echo $(($(date +%s) - began))
`

// outlivesTicket: a copy goes on past the end of its user's first ticket, because the user has a
// second one. It fails at the end of the second. Under a third ticket, its file has all blocks
// copied before.
func outlivesTicket(t *testing.T, g *guest.Guest, p securePeer, sec string) {
	t.Helper()
	write(t, filepath.Join(g.Share, "copy"), []byte(copySlowly))
	out := run(t, g, login(alice, "-l 5s")+p.at("tcp", "sec="+sec)+`
chmod 644 /share/copy; su u1000 -c 'sh /share/copy' > /tmp/copied 2>&1 &
sleep 3
`+login(alice, "-l 7s")+"wait $!; cat /tmp/copied\n"+login(alice, "")+"su u1000 -c 'cmp -n $(stat -c %s /mnt/copy) /tmp/own/data /mnt/copy && rm /mnt/copy' && echo same; umount /mnt")
	why, rest, _ := strings.Cut(out, "\n")
	var seconds int
	n, err := fmt.Sscanf(rest, "%d\nsame", &seconds)
	if n != 1 || seconds < 7 || !strings.Contains(why, "Key has expired") {
		t.Errorf("got %q (%v), want %q after 7 s or more, and the same data", out, err, "Key has expired")
	}
}
