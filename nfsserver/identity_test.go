// Trust in callers, and effective users: squashing, and local processes that belong to other users.

package nfsserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// groupOfSecret is the only group that may read the file "secret" in an export of serveSecret.
const groupOfSecret = 4242

// serveSecret serves /x, where all users may create files. owner replaces the socket owner that the
// kernel reports; nil: not replaced.
func serveSecret(t *testing.T, q nfsserver.Squash, owner *transport.Owner) (tcp, rdma net.Addr) {
	t.Helper()
	tree := memfs.New(memfs.Options{Mode: 0o777})
	srv, err := nfsserver.New(nfsserver.Options{Squash: q, Exports: []nfsserver.Export{{Name: "/x", FS: tree}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	srv.SetGroups(func(uid uint32) (uint32, []uint32, error) {
		if uid != 1000 {
			return 0, nil, errors.New("no such user")
		}
		return 1001, []uint32{1001, 1002, groupOfSecret}, nil
	})
	secret := func(gid uint32, name string) {
		s := nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID, Mode: 0o040, UID: 7, GID: gid}
		if _, _, err := tree.Create(nfsserver.Cred{}, tree.Root(), name, &s); err != nil {
			t.Fatalf("Create: %v", err)
		}
	}
	secret(groupOfSecret, "secret")
	secret(0, "wheel")
	l := nfsserver.Listen{TCP: "[::]:0", RDMA: "[::]:0"}
	if owner != nil {
		l.RPC.Owner = func(local, remote netip.AddrPort) transport.Owner { return *owner }
	}
	svc, err := srv.Start(l)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(svc.Shutdown(ctx), srv.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return svc.TCPAddr, svc.RDMAAddr
}

// at returns the local address ip with the port in a.
func at(ip string, a net.Addr) string {
	return (&net.TCPAddr{IP: net.ParseIP(ip), Port: a.(*net.TCPAddr).Port}).String()
}

// actAs creates a file as cred. It returns the file's owner, and whether cred may read "secret" and
// "wheel", or the error.
func actAs(rdma bool, addr string, cred transport.Cred) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cfg := transport.ClientConfig{Cred: cred, MaxRetries: -1}
	var c *transport.Client
	var err error
	if rdma {
		c, err = transport.DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{}), addr, cfg)
	} else {
		c, err = transport.DialTCP(ctx, addr, cfg)
	}
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	null := transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}
	if err := c.Call(ctx, &null, nil, nil, nil, 0); err != nil {
		return "NULL: " + err.Error()
	}
	text, err := makeFile(ctx, c)
	if err != nil {
		return err.Error()
	}
	return text
}

// makeFile does on a connection what actAs does.
func makeFile(ctx context.Context, c *transport.Client) (string, error) {
	p := transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: mount3.ProcMnt, Name: "MNT", MaxReply: 1000}
	var m mount3.MntRes
	if err := c.Call(ctx, &p, &mount3.PathArgs{Path: "/x"}, &m, nil, 0); err != nil {
		return "", err
	}
	root, err := nfs3.MakeFH(m.Handle)
	if err != nil {
		return "", err
	}
	p = transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcCreate, Name: "CREATE", MaxReply: 1000}
	var made nfs3.CreateRes
	args := nfs3.CreateArgs{Where: where(root, fmt.Sprintf("f%d", time.Now().UnixNano())), Mode: nfs3.Guarded}
	if err := c.Call(ctx, &p, &args, &made, nil, 0); err != nil || made.Status != nfs3.OK {
		return "", fmt.Errorf("CREATE: %v %w", made.Status, err)
	}
	text := fmt.Sprintf("%d:%d", made.Attr.Attr.UID, made.Attr.Attr.GID)
	for _, name := range []string{"secret", "wheel"} {
		p.Proc = nfs3.ProcLookup
		var found nfs3.LookupRes
		dir := where(root, name)
		if err := c.Call(ctx, &p, &dir, &found, nil, 0); err != nil {
			return "", err
		}
		p.Proc = nfs3.ProcAccess
		var may nfs3.AccessRes
		if err := c.Call(ctx, &p, &nfs3.AccessArgs{FH: found.FH, Access: nfs3.AccessRead}, &may, nil, 0); err != nil {
			return "", err
		}
		if may.Access != 0 {
			text += " " + name
		}
	}
	return text, nil
}

// sys returns an AUTH_SYS credential.
func sys(uid, gid uint32, gids ...uint32) transport.Cred {
	return transport.Cred{Flavor: 1, Machine: "m", UID: uid, GID: gid, GIDs: gids}
}

// TestSquash: the zero value maps user and group 0 to others.
func TestSquash(t *testing.T) {
	keep := nfsserver.Squash{NoRootSquash: true}
	for _, c := range []struct {
		squash nfsserver.Squash
		cred   transport.Cred
		want   string
	}{
		{nfsserver.Squash{}, sys(0, 0), "65534:65534"},
		{nfsserver.Squash{}, sys(0, 5, 0, groupOfSecret), "65534:65534"},
		{nfsserver.Squash{}, sys(1000, 0), "1000:65534"},
		{nfsserver.Squash{}, sys(1000, 5, 0), "1000:5"},
		{nfsserver.Squash{}, sys(1000, 5, 3, 0, groupOfSecret, 0), "1000:5 secret"},
		{nfsserver.Squash{}, sys(1000, groupOfSecret), "1000:4242 secret"},
		{nfsserver.Squash{}, transport.Cred{}, "65534:65534"},
		{keep, sys(0, 0), "0:0 secret wheel"},
		{keep, sys(1000, 0), "1000:0 wheel"},
		{keep, sys(1000, 5, 0), "1000:5 wheel"},
		{keep, transport.Cred{}, "65534:65534"},
		{nfsserver.Squash{All: true, UID: 77, GID: 78, GIDs: []uint32{0}}, sys(0, groupOfSecret), "77:78 wheel"},
		{nfsserver.Squash{All: true, UID: 77, GID: 78}, transport.Cred{}, "77:78"},
	} {
		tcp, rdma := serveSecret(t, c.squash, &transport.Owner{Kind: transport.OwnerRemote})
		if got := actAs(false, at("127.0.0.1", tcp), c.cred); got != c.want {
			t.Errorf("%+v over TCP: %+v acts as %s, want %s", c.squash, c.cred, got, c.want)
		}
		if got := actAs(true, at("127.0.0.1", rdma), c.cred); got != c.want {
			t.Errorf("%+v over RDMA: %+v acts as %s, want %s", c.squash, c.cred, got, c.want)
		}
	}
}

const tooWeak = "rpc: credentials refused (AUTH_TOOWEAK)"

// TestOwnersOfCallers: on this machine root may claim any user. Other users act as themselves, with
// their own groups, and unknown callers are refused.
func TestOwnersOfCallers(t *testing.T) {
	local := func(uid uint32) *transport.Owner { return &transport.Owner{Kind: transport.OwnerLocal, UID: uid} }
	unknown := &transport.Owner{}
	all := nfsserver.Squash{All: true, UID: 77, GID: 78}
	trust := nfsserver.Squash{TrustLocal: true}
	for _, c := range []struct {
		squash nfsserver.Squash
		owner  *transport.Owner
		cred   transport.Cred
		want   string
	}{
		{nfsserver.Squash{}, local(0), sys(1000, 5, groupOfSecret), "1000:5 secret"},
		{nfsserver.Squash{}, local(0), sys(0, 0), "65534:65534"},
		{nfsserver.Squash{NoRootSquash: true}, local(0), sys(0, 0), "0:0 secret wheel"},
		{nfsserver.Squash{}, local(1000), sys(0, 0), tooWeak},
		{nfsserver.Squash{NoRootSquash: true}, local(1000), sys(0, 0), tooWeak},
		{nfsserver.Squash{}, local(1000), sys(1001, 1001), tooWeak},
		{nfsserver.Squash{}, local(1001), sys(1000, 1001), tooWeak},
		{nfsserver.Squash{}, local(1000), sys(1000, 1001), "1000:1001"},
		{nfsserver.Squash{}, local(1000), sys(1000, 1002), "1000:1002"},
		{nfsserver.Squash{}, local(1000), sys(1000, 1002, groupOfSecret), "1000:1002 secret"},
		{nfsserver.Squash{}, local(1000), sys(1000, groupOfSecret), "1000:4242 secret"},
		{nfsserver.Squash{}, local(1000), sys(1000, 5), "1000:1001"},
		{nfsserver.Squash{NoRootSquash: true}, local(1000), sys(1000, 0, 0), "1000:1001"},
		{nfsserver.Squash{NoRootSquash: true}, local(1000), sys(1000, 1001, 0, groupOfSecret), "1000:1001 secret"},
		{nfsserver.Squash{}, local(2000), sys(2000, groupOfSecret, groupOfSecret), "2000:65534"},
		{nfsserver.Squash{}, local(1000), transport.Cred{}, "65534:65534"},
		{nfsserver.Squash{}, unknown, sys(1000, 5), tooWeak},
		{nfsserver.Squash{}, unknown, transport.Cred{}, tooWeak},
		{trust, local(1000), sys(1001, groupOfSecret), "1001:4242 secret"},
		{trust, local(1000), sys(0, 0), "65534:65534"},
		{trust, unknown, sys(1001, 5), "1001:5"},
		{all, local(0), sys(5, 5), "77:78"},
		{all, local(77), sys(5, 5), "77:78"},
		{all, local(78), sys(77, 78), tooWeak},
		{all, unknown, sys(77, 78), tooWeak},
		{nfsserver.Squash{All: true, UID: 77, GID: 78, TrustLocal: true}, local(78), sys(5, 5), "77:78"},
		{nfsserver.Squash{All: true, UID: nfsserver.Nobody, GID: nfsserver.Nobody}, local(78), sys(5, 5), "65534:65534"},
	} {
		tcp, rdma := serveSecret(t, c.squash, c.owner)
		for way, got := range map[string]string{"TCP": actAs(false, at("127.0.0.1", tcp), c.cred), "RDMA": actAs(true, at("::1", rdma), c.cred)} {
			if got != c.want {
				t.Errorf("%+v over %s: %+v of %v: %s, want %s", c.squash, way, c.cred, *c.owner, got, c.want)
			}
		}
	}
}

// TestReservedPortAskedFor: with ReservedPort, a caller whose socket the kernel does not know needs
// a reserved port over TCP.
func TestReservedPortAskedFor(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	rnictest.OwnNetwork(t)
	q := nfsserver.Squash{ReservedPort: true}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		owner          transport.Owner
		rdma, reserved bool
		want           string
	}{
		{transport.Owner{Kind: transport.OwnerRemote}, false, false, tooWeak},
		{transport.Owner{Kind: transport.OwnerRemote}, false, true, "1000:5"},
		{transport.Owner{Kind: transport.OwnerRemote}, true, false, "1000:5"},
		{transport.Owner{Kind: transport.OwnerLocal, UID: 1000}, false, false, "1000:1001"},
		{transport.Owner{}, false, true, tooWeak},
	} {
		tcp, rdma := serveSecret(t, q, &c.owner)
		if c.rdma {
			if got := actAs(true, at("127.0.0.1", rdma), sys(1000, 5)); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
			continue
		}
		conn, err := transport.DialTCP(ctx, at("127.0.0.1", tcp), transport.ClientConfig{Cred: sys(1000, 5), ReservedPort: c.reserved})
		if err != nil {
			t.Fatalf("transport.DialTCP: %v", err)
		}
		got, err := makeFile(ctx, conn)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		conn.Close()
	}
}

// actorEnv makes TestActor run as a client in a separate process. Its value is "NETWORK ADDRESS UID
// GID...".
const actorEnv = "NFSRDMA_TEST_ACTOR"

// TestActor runs in another user's process; without actorEnv it tests nothing.
func TestActor(t *testing.T) {
	words := strings.Fields(os.Getenv(actorEnv))
	if len(words) < 4 {
		return
	}
	ids := make([]uint32, len(words)-2)
	for i := range ids {
		fmt.Sscan(words[2+i], &ids[i])
	}
	fmt.Print(actAs(words[0] == "rdma", words[1], sys(ids[0], ids[1], ids[2:]...)))
	os.Exit(0)
}

// actor runs a process as user uid, which claims cred.
func actor(t *testing.T, uid uint32, network, addr string, cred ...uint32) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestActor$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), actorEnv+"="+network+" "+addr+" "+strings.Trim(fmt.Sprint(cred), "[]"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("as %d: %v", uid, err)
	}
	return string(out)
}

// TestUsersOfThisMachine: processes of several users act as their own users, over every transport
// and address family.
func TestUsersOfThisMachine(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	tcp, rdma := serveSecret(t, nfsserver.Squash{NoRootSquash: true}, nil)
	trustTCP, trustRDMA := serveSecret(t, nfsserver.Squash{TrustLocal: true}, nil)
	for _, ip := range []string{"127.0.0.1", "::1"} {
		for network, addr := range map[string]string{"tcp": at(ip, tcp), "rdma": at(ip, rdma)} {
			for _, c := range []struct {
				uid  uint32
				cred []uint32
				want string
			}{
				{1000, []uint32{0, 0}, tooWeak}, {1000, []uint32{1, 1}, tooWeak}, {1000, []uint32{65534, 65534}, tooWeak},
				{1000, []uint32{1000, 1001, 0, groupOfSecret}, "1000:1001 secret"}, {1000, []uint32{1000, 0}, "1000:1001"},
				{2000, []uint32{2000, 2000, groupOfSecret}, "2000:65534"},
				{0, []uint32{1000, 5, groupOfSecret}, "1000:5 secret"}, {0, []uint32{0, 0}, "0:0 secret wheel"},
			} {
				if got := actor(t, c.uid, network, addr, c.cred...); got != c.want {
					t.Errorf("%s to %s: user %d claims %d: %s, want %s", network, addr, c.uid, c.cred, got, c.want)
				}
			}
		}
		for network, addr := range map[string]string{"tcp": at(ip, trustTCP), "rdma": at(ip, trustRDMA)} {
			if got := actor(t, 1000, network, addr, 1, 5, groupOfSecret); got != "1:5 secret" {
				t.Errorf("%s to %s, trusted: %s", network, addr, got)
			}
		}
	}
}
