// Kerberos in serve, with the test's own realm: users for principals, flavors, and how commands
// show them.

package program

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/top"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// kerberosUsers returns a client for new users of a realm, with tickets.
func kerberosUsers(t *testing.T, r *realm.Realm, users ...string) *gss.Client {
	t.Helper()
	conf, err := krb5.LoadConfig(r.Conf())
	must.Succeed(t, err)
	credentials := map[string]*krb5.Credentials{}
	for _, u := range users {
		r.AddPrincipal(u, "secret")
		credentials[u] = conf.Cache(r.Kinit(u, "secret"), -1)
	}
	return gss.NewClient(gss.ClientConfig{Initiator: func(_ context.Context, user string) (gss.Initiator, error) {
		return credentials[user].Initiator("nfs", "localhost"), nil
	}})
}

// TestServeKerberos: over TCP and RDMA, the realm's users act as the users in the table, or as the
// anonymous user. Flavors that an export does not name are too weak, and a reload can map a
// principal to another user.
func TestServeKerberos(t *testing.T) {
	r := realm.New(t, realm.Options{})
	r.AddPrincipal("nfs/localhost", "")
	users := kerberosUsers(t, r, "alice", "bob")
	dir, tcp, rdma := t.TempDir(), freePort(t), freePort(t)
	data, file, table, socket := filepath.Join(dir, "data"), filepath.Join(dir, "exports"), filepath.Join(dir, "idmap"), filepath.Join(dir, "control")
	must.Succeed(t, os.Mkdir(data, 0o777), os.Chmod(data, 0o777), os.Chmod(dir, 0o755))
	put(t, file, data+" *(rw,insecure,sec=krb5p:krb5,anonuid=777)\n")
	put(t, table, "alice@"+r.Name+" = 1234:1235\n")
	end := serveArgs(t, "serve", "--ephemeral-key", "--tcp-port", tcp, "--rdma", "iwarp", "--rdma-port", rdma, "--rpcbind", "off", "--log-level", "panic", "--control", socket,
		"--exports", file, "--keytab", r.Keytab("nfs/localhost"), "--idmap", table)
	defer end()
	dialServe(t, net.JoinHostPort("127.0.0.1", tcp)).Close()
	awaitControl(t, socket)
	over, err := transport.DialTCP(context.Background(), net.JoinHostPort("127.0.0.1", tcp), transport.ClientConfig{Cred: transport.SysCred()})
	must.Succeed(t, err)
	defer over.Close()
	direct, err := transport.DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{}), net.JoinHostPort("127.0.0.1", rdma), transport.ClientConfig{Cred: transport.SysCred()})
	must.Succeed(t, err)
	defer direct.Close()
	for name, c := range map[string]*transport.Client{"tcp": over, "rdma": direct} {
		const weak = "AUTH_TOOWEAK"
		for _, of := range []struct {
			user    string
			service transport.Service
			want    string
		}{{"alice", transport.ServiceNone, "1234:1235"}, {"alice", transport.ServicePrivacy, "1234:1235"}, {"bob", transport.ServicePrivacy, "777:65534"},
			{"alice", transport.ServiceIntegrity, weak}, {"", 0, weak}} {
			var auth *transport.Auth
			if of.user != "" {
				auth = users.Auth(of.user, of.service)
			}
			if got := createdBy(t, c, data, auth); os.Getuid() == 0 && !strings.Contains(got, of.want) {
				t.Errorf("%s, user %q, service %d: %s, want %s", name, of.user, of.service, got, of.want)
			}
		}
	}
	showsKerberos(t, socket, r.Name)
	put(t, table, "alice@"+r.Name+" = 4321:4321\n")
	if out, err := run(context.Background(), "reload", "--control", socket); err != nil || !strings.Contains(out, table+": read again") {
		t.Errorf("reload: %v\n%s", err, out)
	}
	fresh := kerberosUsers(t, r, "carol").Auth("carol", transport.ServicePrivacy)
	if got := createdBy(t, over, data, fresh); os.Getuid() == 0 && got != "777:65534" {
		t.Errorf("a context after the reload: %s, want 777:65534", got)
	}
	put(t, table, "alice\n")
	if _, err := run(context.Background(), "reload", "--control", socket); err == nil || !strings.Contains(err.Error(), "idmap:1:1: ") {
		t.Errorf("reload with a mistake: %v, want its place", err)
	}
}

// TestPrincipalWithoutUser: the log names a principal that acts as the anonymous user, because the
// table has no user for it.
func TestPrincipalWithoutUser(t *testing.T) {
	var out strings.Builder
	find := userOf(idmap.New(idmap.Config{Realms: []string{"R"}, Lookup: func(name string) (idmap.Identity, error) {
		if name == "alice" {
			return idmap.Identity{UID: 1000}, nil
		}
		return idmap.Identity{}, idmap.ErrNoUser
	}}), slog.New(slog.NewTextHandler(&out, nil)))
	for principal, want := range map[string]uint32{"alice@R": 1000, "carol@R": idmap.Anonymous} {
		if got, ok := find(principal); got.UID != want || !ok {
			t.Errorf("%s is uid %d, %v, want %d", principal, got.UID, ok, want)
		}
	}
	if got, want := out.String(), "acts as the anonymous user: add the user, or see --idmap, and mount again\" principal=carol@R\n"; strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, want) {
		t.Errorf("logged %q, want one line that ends in %q", got, want)
	}
}

// createdBy creates a file and returns its owner on disk, or the error.
func createdBy(t *testing.T, c *transport.Client, dir string, auth *transport.Auth) string {
	t.Helper()
	var mnt mount3.MntRes
	p := transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: mount3.ProcMnt, Name: "MNT", MaxReply: 4096}
	must.Succeed(t, c.Call(context.Background(), &p, &mount3.PathArgs{Path: dir}, &mnt, nil, 0))
	fh, err := nfs3.MakeFH(mnt.Handle)
	must.Succeed(t, err)
	_ = os.Remove(filepath.Join(dir, "f"))
	var res nfs3.CreateRes
	p = transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcCreate, Name: "CREATE", MaxReply: 4096}
	if err := c.CallAs(context.Background(), auth, &p, &nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: fh, Name: []byte("f")}}, &res, nil, 0); err != nil {
		return err.Error()
	}
	if res.Status != nfs3.OK {
		return res.Status.String()
	}
	info, err := os.Stat(filepath.Join(dir, "f"))
	must.Succeed(t, err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// showsKerberos checks the output of status and clients, and the metrics, for a server with
// contexts of two users.
func showsKerberos(t *testing.T, socket, realm string) {
	t.Helper()
	status := view(t, socket, "status")["kerberos"].(map[string]any)
	if got := status["principals"].([]any); len(got) != 1 || got[0] != "nfs/localhost@"+realm {
		t.Errorf("status: principals %v, want nfs/localhost@%s", got, realm)
	}
	if created := status["created"].(float64); created < 2 || status["contexts"].(float64) < 2 {
		t.Errorf("status: %v, want at least two contexts", status)
	}
	users := map[string]any{}
	for _, row := range view(t, socket, "clients")["clients"].([]any) {
		for _, u := range row.(map[string]any)["users"].([]any) {
			of := u.(map[string]any)
			if name, ok := of["principal"].(string); ok {
				users[name+" "+of["sec"].(string)] = of["uid"]
			}
		}
	}
	if len(users) != 3 || users["alice@"+realm+" krb5"] != 1234.0 || users["alice@"+realm+" krb5p"] != 1234.0 || users["bob@"+realm+" krb5p"] != nil {
		t.Errorf("clients: users %v, want alice as 1234 with two flavors, and bob without a number", users)
	}
	flavors := map[string]bool{}
	for _, c := range report(t, top.Local(socket)).Clients {
		for _, sec := range c.Sec {
			flavors[sec] = true
		}
	}
	if !flavors["krb5"] || !flavors["krb5p"] {
		t.Errorf("top: flavors %v, want krb5 and krb5p among them", flavors)
	}
	now, err := top.Local(socket).Read(context.Background())
	must.Succeed(t, err)
	const failures = "nfsrdma_gss_failures_total"
	if got, want := len(now.Figures[failures]), len(Reasons()[failures]); got != want || want == 0 {
		t.Errorf("metrics: %d reasons of %s, want %d", got, failures, want)
	}
	for _, of := range [][2]string{{"status", "nfs/localhost@" + realm}, {"clients", "krb5p"}, {"clients", "bob@" + realm}} {
		if out, err := run(context.Background(), of[0], "--control", socket); err != nil || !strings.Contains(out, of[1]) {
			t.Errorf("%s: %v, want %q in\n%s", of[0], err, of[1], out)
		}
	}
}
