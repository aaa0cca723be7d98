// Reports of a mount about its connection and its options.

package mounter

import (
	"net"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// serveIWARP exports memory as /mem over iWARP, with the server's CRC mode crc.
func serveIWARP(t *testing.T, crc rnic.CRCMode) net.Addr {
	t.Helper()
	dev := iwarp.Open(rnic.DeviceConfig{CRC: crc})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	serveMemory(t, 0o777, func(rpc *transport.Server) { rpc.ServeRDMA(dev, l) })
	return l.Addr()
}

// TestOptionsWithoutEffectAreSaid: each connection option without effect causes one line; other
// options cause none. The list of mounts shows the effective values.
func TestOptionsWithoutEffectAreSaid(t *testing.T) {
	insists, lets := serveIWARP(t, rnic.CRCOn), serveIWARP(t, rnic.CRCAuto)
	tcp := serveOn(t, "127.0.0.1:0")
	for _, c := range []struct {
		options string
		at      nfsclient.Target
		said    string // "": nothing
		list    string
	}{
		{"crc=off", target(nfsclient.RDMA, insists), "crc=off has no effect: the server requires CRCs", "proto=rdma,rdma=iwarp,crc=on"},
		{"crc=off", target(nfsclient.RDMA, lets), "", "proto=rdma,rdma=iwarp,crc=off"},
		{"crc=auto", target(nfsclient.RDMA, insists), "", "proto=rdma,rdma=iwarp,crc=on"},
		{"crc=on", target(nfsclient.RDMA, lets), "", "proto=rdma,rdma=iwarp,crc=on"},
		{"rdma=auto,soft", target(nfsclient.RDMA, lets), "", "proto=rdma,rdma=iwarp,crc=on,soft"},
		{"tcp,crc=off", target(nfsclient.TCP, tcp), "crc=off has no effect over TCP", "proto=tcp"},
		{"tcp,crc=strict", target(nfsclient.TCP, tcp), "crc=strict has no effect over TCP", "proto=tcp"},
		{"tcp,rdma=roce", target(nfsclient.TCP, tcp), "rdma=roce has no effect over TCP", "proto=tcp"},
		{"proto=tcp,ro,soft,timeo=50", target(nfsclient.TCP, tcp), "", "proto=tcp,soft,timeo=50"},
	} {
		r := requestOf(t, c.options, c.at)
		r.Given = c.options
		var lines told
		fsys, err := r.connect(t.Context(), newSession(t), nil, lines.add, tried(t))
		must.Succeed(t, err)
		r.warnUngranted(fsys, lines.add)
		if got := strings.Join(lines, "|"); c.said == "" && got != "" || !strings.Contains(got, c.said) || len(lines) > 1 {
			t.Errorf("%s: said %q, want %q", c.options, got, c.said)
		}
		report := Report{Options: r.Given, Stats: fusefs.Stats{Connections: fsys.Client().Links()}}
		if got := report.ListOptions(); got != c.list {
			t.Errorf("%s: listed as %s, want %s", c.options, got, c.list)
		}
		fsys.Client().Close()
	}
}

// TestSquashedRootIsSaid: the log of a mount reports that its user is mapped, if the root directory
// shows it.
func TestSquashedRootIsSaid(t *testing.T) {
	machine.NeedRoot(t, "root, to be squashed")
	const cause = "root acts as another user there (root_squash; to change it: no_root_squash in exports(5); nfsrdmad: --no-root-squash)"
	for _, c := range []struct {
		tree     memfs.Options
		readOnly bool
		want     string
	}{
		{memfs.Options{Mode: 0o777}, false, ""},
		{memfs.Options{Mode: 0o755}, false, "server:/export: root is not allowed to write in the root directory of the export (mode 0755, owner 0): " + cause},
		{memfs.Options{Mode: 0o700}, false, "server:/export: " + cause},
		{memfs.Options{Mode: 0o755, UID: 1000}, false, ""},
		{memfs.Options{Mode: 0o755}, true, "server:/export: the export is read-only for this host; to change it: rw in exports(5); nfsrdmad: no --read-only; mount it with ro, and this line ends"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		serveTree(t, nfsserver.Export{Name: "/mem", FS: memfs.New(c.tree), ReadOnly: c.readOnly}, func(rpc *transport.Server) { rpc.ServeTCP(l) })
		r := requestOf(t, "tcp", target(nfsclient.TCP, l.Addr()))
		s := newSession(t)
		var lines told
		fsys, err := r.connect(t.Context(), s, nil, lines.add, tried(t))
		must.Succeed(t, err)
		r.warnMapped(t.Context(), s, fsys, lines.add)
		fsys.Client().Close()
		if got := strings.Join(lines, "|"); got != c.want {
			t.Errorf("%+v, read-only %v: said %q, want %q", c.tree, c.readOnly, got, c.want)
		}
	}
}

// TestSizesThatTheServerDoesNotTakeAreSaid: rsize and wsize above the server's limits cause a line
// each.
func TestSizesThatTheServerDoesNotTakeAreSaid(t *testing.T) {
	r := requestOf(t, "tcp,rsize=65536,wsize=65536", target(nfsclient.TCP, serveOn(t, "127.0.0.1:0")))
	var lines told
	fsys, err := r.connect(t.Context(), newSession(t), nil, lines.add, tried(t))
	must.Succeed(t, err)
	defer fsys.Client().Close()
	r.warnUngranted(fsys, lines.add)
	if len(lines) > 0 {
		t.Errorf("said %q of sizes that the server takes", lines)
	}
	r.Options.ReadSize, r.Options.WriteSize = 64<<20, 64<<20
	r.warnUngranted(fsys, lines.add)
	if len(lines) != 2 || !strings.Contains(lines[0], "rsize=67108864: the server takes ") || !strings.Contains(lines[1], "wsize=67108864: the server takes ") {
		t.Errorf("said %q", lines)
	}
}

// TestListedSecurity: the list of mounts shows the flavor and the protection in use, not those in
// the options.
func TestListedSecurity(t *testing.T) {
	for _, c := range []struct{ given, sec, xprtsec, want string }{
		{"", "sys", "none", "proto=tcp"},
		{"sec=sys,soft", "sys", "none", "proto=tcp,sec=sys,soft"},
		{"sec=krb5:krb5p,xprtsec=tls,soft", "krb5p", "tls", "proto=tcp,sec=krb5p,xprtsec=tls,soft"},
		{"", "krb5", "none", "proto=tcp,sec=krb5"},
		{"xprtsec=tls", "sys", "none", "proto=tcp,xprtsec=tls"}, // without a connection now
	} {
		r := Report{Options: c.given, Stats: fusefs.Stats{Sec: c.sec, Connections: []transport.LinkFigures{{Transport: "tcp", Xprtsec: c.xprtsec}}}}
		if got := r.ListOptions(); got != c.want {
			t.Errorf("%+v: listed as %s, want %s", c, got, c.want)
		}
	}
}

// TestReportOfAnOlderProcess: a mount that was made before an upgrade reports no transport.
func TestReportOfAnOlderProcess(t *testing.T) {
	for _, r := range []Report{{}, {Stats: fusefs.Stats{Connections: []transport.LinkFigures{{Up: true}}}}} {
		if got := r.ListOptions(); got != "" {
			t.Errorf("listed as %q", got)
		}
	}
}
