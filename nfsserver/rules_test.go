// Rules: each client's rights in each export, in every call, over TCP and RDMA.

package nfsserver_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// ruled returns the exports in a text, each with a tree in memory writable by all.
func ruled(t *testing.T, text string) (list []nfsserver.Export) {
	t.Helper()
	f, err := exports.Parse("exports", []byte(text))
	if err != nil {
		t.Fatalf("exports.Parse: %v", err)
	}
	for _, x := range f.Exports {
		list = append(list, nfsserver.Export{Name: x.Path, FS: memfs.New(memfs.Options{Mode: 0o777}), Rules: x})
	}
	return list
}

// remote trusts local callers as if they were on other machines.
var remote = nfsserver.Squash{TrustLocal: true}

// dialFrom connects from a local address with the credential cred, over both transports.
func (h *host) dialFrom(from string, cred transport.Cred) map[string]*client {
	h.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	cfg := transport.ClientConfig{Cred: cred, Dial: d.DialContext}
	tcp, err := transport.DialTCP(context.Background(), h.svc.TCPAddr.String(), cfg)
	if err != nil {
		h.Fatalf("transport.DialTCP: %v", err)
	}
	rdma, err := transport.DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{Dial: d.DialContext}), h.svc.RDMAAddr.String(), cfg)
	if err != nil {
		h.Fatalf("transport.DialRDMA: %v", err)
	}
	h.Cleanup(func() { tcp.Close(); rdma.Close() })
	return map[string]*client{"tcp": {T: h.T, rpc: tcp}, "rdma": {T: h.T, rpc: rdma}}
}

// mnt calls MNT and returns the result.
func (c *client) mnt(path string) (res mount3.MntRes) {
	c.Helper()
	c.mountCall(mount3.ProcMnt, &mount3.PathArgs{Path: path}, &res)
	return res
}

// TestRulesByClient: of three clients one may write, and one may read. The third is refused by MNT
// and, with another client's handle, by every procedure.
func TestRulesByClient(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x 127.0.0.1(rw,insecure) 127.0.0.2(insecure)\n/y *(insecure)\n")})
	one, two, three := h.dialFrom("127.0.0.1", user), h.dialFrom("127.0.0.2", user), h.dialFrom("127.0.0.3", user)
	for name, c := range one {
		c.mount("/x")
		f := c.file(c.root, "f-"+name, 0o666)
		c.want("WRITE of rw", c.write(f, 0, "data", nfs3.FileSync).Status, nfs3.OK)
		r := two[name].mount("/x")
		res, data := r.read(f, 0, 10)
		r.want("READ of ro", res.Status, nfs3.OK)
		if data != "data" {
			t.Errorf("read %q", data)
		}
		r.want("WRITE of ro", r.write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrROFS)
		r.want("CREATE of ro", r.create(r.root, "g", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.ErrROFS)
		r.want("SETATTR of ro", r.setattr(f, nfs3.Sattr{SetMode: true}).Status, nfs3.ErrROFS)
		r.want("REMOVE of ro", r.remove(r.root, "f-"+name).Status, nfs3.ErrROFS)
		if bits := r.access(f, nfs3.AccessAll); bits&nfs3.AccessModify != 0 || bits&nfs3.AccessRead == 0 {
			t.Errorf("ACCESS of ro: %#x", bits)
		}
		no := three[name]
		if st := no.mnt("/x").Status; st != mount3.ErrAcces {
			t.Errorf("MNT of a stranger over %s: %v", name, st)
		}
		no.mount("/y")
		no.want("GETATTR of a stranger", no.getattr(f).Status, nfs3.ErrAcces)
		no.want("LOOKUP of a stranger", no.lookup(c.root, "f-"+name).Status, nfs3.ErrAcces)
		no.want("WRITE of a stranger", no.write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrAcces)
		no.want("LINK out of it", no.link(f, no.root, "l").Status, nfs3.ErrAcces)
	}
}

func TestRulesSquashByExport(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, `
/root *(rw,insecure,no_root_squash)
/squash *(rw,insecure,anonuid=42,anongid=43)
/all *(rw,insecure,all_squash,anonuid=44,anongid=45)
`)})
	for _, c := range []struct {
		path     string
		as       transport.Cred
		uid, gid uint32
	}{
		{"/root", root, 0, 0}, {"/root", user, 1000, 1000}, {"/squash", root, 42, 43}, {"/squash", user, 1000, 1000},
		{"/all", root, 44, 45}, {"/all", user, 44, 45}, {"/all", transport.Cred{}, 44, 45}, {"/squash", transport.Cred{}, 42, 43},
		{"/squash", transport.Cred{Flavor: 1, UID: 7}, 7, 43},
	} {
		for name, cl := range h.dialFrom("127.0.0.1", c.as) {
			cl.mount(c.path)
			at := cl.attr(cl.file(cl.root, "f", 0o600))
			if at.UID != c.uid || at.GID != c.gid {
				t.Errorf("%s of %s over %s belongs to %d:%d, want %d:%d", c.path, c.as.Machine, name, at.UID, at.GID, c.uid, c.gid)
			}
			cl.want("REMOVE", cl.remove(cl.root, "f").Status, nfs3.OK)
		}
	}
}

// TestRulesSecure: over TCP, MNT and NFS refuse a port that is not reserved. Over RDMA they accept
// it.
func TestRulesSecure(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x *(rw)\n")})
	c := h.dialFrom("127.0.0.1", user)
	c["rdma"].mount("/x")
	if st := c["tcp"].mnt("/x").Status; st != mount3.ErrAcces {
		t.Errorf("MNT from a high port: %v", st)
	}
	c["tcp"].want("GETATTR from a high port", c["tcp"].getattr(c["rdma"].root).Status, nfs3.ErrPerm)
}

// TestMountBelowAnExport: a subdirectory is mounted through the nearest export that the client may
// use.
func TestMountBelowAnExport(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	f, err := exports.Parse("exports", []byte("/srv 127.0.0.1(ro,insecure) 127.0.0.2(insecure)\n/srv/a 127.0.0.1(rw,insecure)"))
	if err != nil {
		t.Fatalf("exports.Parse: %v", err)
	}
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{
		{Name: "/srv", FS: diskAt(t, dir), Rules: f.Exports[0]}, {Name: "/srv/a", FS: diskAt(t, filepath.Join(dir, "a")), Rules: f.Exports[1]}}})
	one, two := h.dialFrom("127.0.0.1", root)["tcp"], h.dialFrom("127.0.0.2", root)["tcp"]
	b, viaParent := one.mount("/srv/a/b").root, two.mount("/srv/a/b").root
	if b == viaParent {
		t.Error("two exports, one handle")
	}
	if one.attr(b).Fileid != two.attr(viaParent).Fileid {
		t.Error("not the same directory")
	}
	one.want("the handle of another export", one.getattr(viaParent).Status, nfs3.OK)
	two.want("the handle of an export that is not for it", two.getattr(b).Status, nfs3.ErrAcces)
	if st := two.mnt("/srv/a/c").Status; st != mount3.ErrNoEnt {
		t.Error(st)
	}
}

func TestExportListShowsRules(t *testing.T) {
	list := append(ruled(t, "/x 127.0.0.1(rw) *.example.org 10.0.0.0/8\n"), nfsserver.Export{Name: "/all", FS: memfs.New(memfs.Options{})})
	h := serve(t, nfsserver.Options{Exports: list})
	var res mount3.ExportRes
	h.dial(root).mountCall(mount3.ProcExport, void{}, &res)
	if len(res.Exports) != 2 {
		t.Fatalf("exports %+v, want 2", res.Exports)
	}
	if got, want := res.Exports[0].Groups, []string{"127.0.0.1", "*.example.org", "10.0.0.0/8"}; !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
	if got := res.Exports[1].Groups; got != nil {
		t.Errorf("groups %v, want none", got)
	}
}

// A laterNames resolves no name until known is closed.
type laterNames struct{ known chan struct{} }

func (l laterNames) Addrs(string) (addrs []netip.Addr, known bool) {
	select {
	case <-l.known:
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, true
	default:
		return nil, false
	}
}

func (l laterNames) Names(netip.Addr) ([]string, bool) { return nil, true }

// TestCallsDoNotWaitForNames: while a client's name is looked up, NFS calls get JUKEBOX. MNT has no
// such status, so it waits until the name is known.
func TestCallsDoNotWaitForNames(t *testing.T) {
	names := laterNames{make(chan struct{})}
	h := serve(t, nfsserver.Options{Squash: remote, Names: names, Exports: ruled(t, "/x pc(rw,insecure) 127.0.0.2(rw,insecure)\n")})
	c := h.dialFrom("127.0.0.1", user)["tcp"]
	done := make(chan mount3.MntRes)
	go func() { done <- h.dialFrom("127.0.0.1", user)["tcp"].mnt("/x") }()
	fh := h.srv.RootHandle("/x")
	c.want("GETATTR of a client without a name yet", c.getattr(fh).Status, nfs3.ErrJukebox)
	close(names.known)
	if res := <-done; res.Status != mount3.OK {
		t.Error(res.Status)
	}
	c.want("GETATTR", c.getattr(fh).Status, nfs3.OK)
}
