// Security policy: all combinations of rules, flavors, channels and procedures compared with a
// model; the users as which calls act; and the reasons in the log.

package nfsserver_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// ourCA and otherCA stand for authorities; rules compare only their digests.
var ourCA, otherCA = &x509.Certificate{Raw: []byte("our authority")}, &x509.Certificate{Raw: []byte("another authority")}

// digestOf returns the value that ca= has for an authority.
func digestOf(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.Raw)
	return hex.EncodeToString(sum[:])
}

// certified returns a channel whose client certificate is verified.
func certified(ca *x509.Certificate, dns ...string) transport.Channel {
	leaf := &x509.Certificate{Raw: ourCA.Raw[:3], DNSNames: dns}
	return transport.Channel{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf, ca}}, PeerCertificates: []*x509.Certificate{leaf, ca}}}
}

// channels has the connections of the policy test, by name.
var channels = map[string]transport.Channel{
	"clear": {},
	"tls":   {TLS: &tls.ConnectionState{}},
	// a certificate that is not verified counts as none
	"unverified": {TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: []string{"pc7.example.org"}}}}},
	"ours":       certified(ourCA, "PC7.Example.org"),
	"othername":  certified(ourCA, "pc7.example.com"),
	"otherca":    certified(otherCA, "pc7.example.org"),
}

// A policyRule has a client's options, and how the model sees their demands.
type policyRule struct {
	options string
	flavors []oncrpc.Flavor
	level   transport.XprtSec
	name    bool // the certificate must have a name in example.org
	ca      bool // the certificate must be from our authority
}

const (
	anone, asys = oncrpc.FlavorNone, oncrpc.FlavorSys
	k, ki, kp   = oncrpc.FlavorKrb5, oncrpc.FlavorKrb5i, oncrpc.FlavorKrb5p
)

var policyRules = []policyRule{
	{options: "rw", flavors: []oncrpc.Flavor{asys, anone}},
	{options: "rw,sec=sys", flavors: []oncrpc.Flavor{asys}},
	{options: "rw,sec=none", flavors: []oncrpc.Flavor{anone}},
	{options: "rw,sec=krb5", flavors: []oncrpc.Flavor{k}},
	{options: "rw,sec=krb5p:krb5i:krb5", flavors: []oncrpc.Flavor{kp, ki, k}},
	{options: "rw,sec=krb5:sys", flavors: []oncrpc.Flavor{k, asys}},
	{options: "rw,xprtsec=none:tls:mtls", flavors: []oncrpc.Flavor{asys, anone}},
	{options: "rw,xprtsec=tls", flavors: []oncrpc.Flavor{asys, anone}, level: transport.XprtTLS},
	{options: "rw,xprtsec=tls:mtls,sec=krb5i", flavors: []oncrpc.Flavor{ki}, level: transport.XprtTLS},
	{options: "rw,xprtsec=mtls", flavors: []oncrpc.Flavor{asys, anone}, level: transport.XprtMTLS},
	{options: "rw,xprtsec=mtls,cert=*.example.org", flavors: []oncrpc.Flavor{asys, anone}, level: transport.XprtMTLS, name: true},
	{options: "rw,xprtsec=mtls,ca=" + digestOf(ourCA), flavors: []oncrpc.Flavor{asys, anone}, level: transport.XprtMTLS, ca: true},
	{options: "rw,xprtsec=mtls,cert=*.example.org,certid=7:8,sec=sys:krb5,ca=" + digestOf(ourCA), flavors: []oncrpc.Flavor{asys, k}, level: transport.XprtMTLS, name: true, ca: true},
}

// A policyOp is a procedure, with its arguments, in the policy test.
type policyOp struct {
	name    string
	program int // index in Programs: NFS, MOUNT, NFSACL
	proc    uint32
	args    func(root, file nfs3.FH) xdr.Marshaler
	free    bool // no demand applies
	atMount bool // a client that has not chosen its flavor may call it
}

var policyOps = []policyOp{
	{"GETATTR root", 0, nfs3.ProcGetattr, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.GetattrArgs{FH: r} }, false, true},
	{"FSINFO root", 0, nfs3.ProcFsinfo, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.FsinfoArgs{FH: r} }, false, true},
	{"GETATTR file", 0, nfs3.ProcGetattr, func(_, f nfs3.FH) xdr.Marshaler { return &nfs3.GetattrArgs{FH: f} }, false, false},
	{"FSINFO file", 0, nfs3.ProcFsinfo, func(_, f nfs3.FH) xdr.Marshaler { return &nfs3.FsinfoArgs{FH: f} }, false, false},
	{"PATHCONF root", 0, nfs3.ProcPathconf, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.PathconfArgs{FH: r} }, false, false},
	{"FSSTAT root", 0, nfs3.ProcFsstat, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.FsstatArgs{FH: r} }, false, false},
	{"ACCESS root", 0, nfs3.ProcAccess, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.AccessArgs{FH: r, Access: nfs3.AccessAll} }, false, false},
	{"LOOKUP", 0, nfs3.ProcLookup, func(r, _ nfs3.FH) xdr.Marshaler { return &nfs3.LookupArgs{Dir: r, Name: []byte("f")} }, false, false},
	{"SETATTR", 0, nfs3.ProcSetattr, func(_, f nfs3.FH) xdr.Marshaler { return &nfs3.SetattrArgs{FH: f} }, false, false},
	{"COMMIT", 0, nfs3.ProcCommit, func(_, f nfs3.FH) xdr.Marshaler { return &nfs3.CommitArgs{FH: f} }, false, false},
	{"GETACL root", 2, nfsacl3.ProcGetACL, func(r, _ nfs3.FH) xdr.Marshaler { return &nfsacl3.GetACLArgs{FH: r} }, false, false},
	{"MNT", 1, mount3.ProcMnt, func(_, _ nfs3.FH) xdr.Marshaler { return &mount3.PathArgs{Path: "/x"} }, true, false},
}

// wantStrong is the policy's model: it reports whether the rule permits a call.
func (p *policyRule) wantStrong(op *policyOp, flavor oncrpc.Flavor, channel string) bool {
	if op.free {
		return true
	}
	level := map[string]transport.XprtSec{"tls": transport.XprtTLS, "unverified": transport.XprtTLS,
		"ours": transport.XprtMTLS, "othername": transport.XprtMTLS, "otherca": transport.XprtMTLS}[channel]
	if level < p.level || p.name && channel == "othername" || p.ca && channel == "otherca" {
		return false
	}
	if slices.Contains(p.flavors, flavor) {
		return true
	}
	return op.atMount && flavor <= asys && slices.ContainsFunc(p.flavors, func(f oncrpc.Flavor) bool { return f > asys })
}

// callOf makes a call as the dispatcher does.
func callOf(flavor oncrpc.Flavor, channel transport.Channel, args xdr.Marshaler) *transport.Call {
	e := xdr.NewEncoder(nil)
	args.EncodeXDR(e)
	c := &transport.Call{Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, Owner: transport.Owner{Kind: transport.OwnerRemote},
		Channel: channel, Cred: transport.Cred{Flavor: flavor}, Memo: new(atomic.Value),
		Args: xdr.NewDecoder(e.Bytes()), Res: xdr.NewEncoder(make([]byte, 0, 1024))}
	if flavor > asys {
		c.Cred.Principal = "alice@EXAMPLE.ORG"
	}
	return c
}

// TestSecurityPolicy: each rule, operation, flavor and channel is tested. The check before the
// duplicate request cache, and the procedure itself, agree with the model.
func TestSecurityPolicy(t *testing.T) {
	conformance.Proves(t, "R9289-021", "R9289-059", "R9289-067")
	for _, p := range policyRules {
		tree := memfs.New(memfs.Options{Mode: 0o777})
		s := securityServer(t, tree, "/x *("+p.options+")\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler)})
		root := s.RootHandle("/x")
		file := fileIn(t, s, root, &p)
		programs := s.Programs()
		for _, op := range policyOps {
			for channelName, channel := range channels {
				for _, flavor := range []oncrpc.Flavor{anone, asys, k, ki, kp} {
					want := p.wantStrong(&op, flavor, channelName)
					what := fmt.Sprintf("(%s) %s, %s, %s", p.options, op.name, exports.FlavorName(flavor), channelName)
					c := callOf(flavor, channel, op.args(root, file))
					if !op.free && s.StrongEnough(c, op.program == 0 && (op.proc == nfs3.ProcGetattr || op.proc == nfs3.ProcFsinfo)) != want {
						t.Errorf("%s: strong enough %v, want %v", what, !want, want)
					}
					if err := programs[op.program].Procs[op.proc].Run(c); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					served := nfs3.OK
					if op.program == 2 {
						served = nfs3.ErrNotSupp // memfs has no ACLs
					}
					wantStatus(t, what, c, want, served)
				}
			}
		}
	}
}

// securityServer returns a Server with one export, without listeners.
func securityServer(t *testing.T, tree nfsserver.FS, text string, o nfsserver.Options) *nfsserver.Server {
	t.Helper()
	f, err := exports.Parse("exports", []byte(text))
	if err != nil {
		t.Fatalf("exports.Parse: %v", err)
	}
	o.Exports = []nfsserver.Export{{Name: "/x", FS: tree, Rules: f.Exports[0]}}
	s, err := nfsserver.New(o)
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fileIn creates the file f with a call that the rule accepts, and returns its handle.
func fileIn(t *testing.T, s *nfsserver.Server, root nfs3.FH, p *policyRule) nfs3.FH {
	t.Helper()
	c := callOf(p.flavors[0], channels["ours"], &nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: root, Name: []byte("f")}, Attr: nfs3.Sattr{SetMode: true, Mode: 0o666}})
	if err := s.Programs()[0].Procs[nfs3.ProcCreate].Run(c); err != nil {
		t.Fatalf("CREATE: %v", err)
	}
	var res nfs3.CreateRes
	res.DecodeXDR(xdr.NewDecoder(c.Res.Bytes()))
	if res.Status != nfs3.OK {
		t.Fatalf("CREATE under (%s): %v", p.options, res.Status)
	}
	return res.FH.FH
}

// wantStatus checks the status at the start of a call's results. It must be want if ok is set, and
// otherwise NFS3ERR_ACCES.
func wantStatus(t *testing.T, what string, c *transport.Call, ok bool, want nfs3.Status) {
	t.Helper()
	if !ok {
		want = nfs3.ErrAcces
	}
	if got := nfs3.Status(xdr.NewDecoder(c.Res.Bytes()).Uint32()); got != want {
		t.Errorf("%s: status %v, want %v", what, got, want)
	}
}

// TestWeakCallsOnTheWire: the policy gets the procedures' numbers. With AUTH_SYS and without TLS, a
// krb5 export serves the root's attributes and FSINFO, MNT, DUMP, EXPORT and NULL. Other calls get
// AUTH_TOOWEAK.
func TestWeakCallsOnTheWire(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x *(rw,insecure,sec=krb5p:krb5)\n/y *(rw,insecure,xprtsec=tls)\n")})
	tooWeak := "rpc: credentials refused (AUTH_TOOWEAK)"
	for name, c := range h.dialFrom("127.0.0.1", user) {
		for path, want := range map[string]string{"/x": "", "/y": tooWeak} {
			c.mount(path)
			args := &nfs3.GetattrArgs{FH: c.root}
			for proc, want := range map[uint32]string{nfs3.ProcNull: "", nfs3.ProcGetattr: want, nfs3.ProcFsinfo: want,
				nfs3.ProcFsstat: tooWeak, nfs3.ProcPathconf: tooWeak, nfs3.ProcReadlink: tooWeak} {
				if got := c.bareCall(nfs3.Program, nfs3.Version, proc, args); !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("%s over %s, procedure %d: %q, want %q", path, name, proc, got, want)
				}
			}
			if got := c.bareCall(nfsacl3.Program, nfsacl3.Version, nfsacl3.ProcGetACL, &nfsacl3.GetACLArgs{FH: c.root}); !strings.Contains(got, tooWeak) {
				t.Errorf("%s over %s, GETACL: %q, want %q", path, name, got, tooWeak)
			}
			for _, proc := range []uint32{mount3.ProcNull, mount3.ProcDump, mount3.ProcExport} {
				if got := c.bareCall(mount3.Program, mount3.Version, proc, void{}); got != "" {
					t.Errorf("%s over %s, MOUNT procedure %d: %q, want a reply", path, name, proc, got)
				}
			}
		}
		if got, want := fmt.Sprint(c.mnt("/x").Flavors, c.mnt("/y").Flavors), "[390005 390003] [1 0]"; got != want {
			t.Errorf("MNT over %s lists flavors %s, want %s", name, got, want)
		}
	}
	f := h.srv.Figures()
	if f.RefusedFlavor == 0 || f.RefusedChannel == 0 || f.RefusedCertificate != 0 {
		t.Errorf("refused for flavor %d, channel %d, certificate %d, want some, some, none", f.RefusedFlavor, f.RefusedChannel, f.RefusedCertificate)
	}
}

// An ignored decodes results of any form, and drops them.
type ignored struct{}

func (ignored) DecodeXDR(d *xdr.Decoder) { d.Rest() }

// bareCall makes a call, and returns the text of its error, or "".
func (c *client) bareCall(prog, vers, proc uint32, args xdr.Marshaler) string {
	c.Helper()
	p := transport.Proc{Prog: prog, Vers: vers, Proc: proc, Name: "bare", MaxReply: 4096}
	err := c.rpc.Call(context.Background(), &p, args, ignored{}, nil, 0)
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestWeakCallsSayWhy: the log has one line for each cause. The line has the call's level or
// flavor, those that would be accepted, and the remedy.
func TestWeakCallsSayWhy(t *testing.T) {
	for _, of := range []struct {
		options, channel string
		flavor           oncrpc.Flavor
		want             []string
	}{
		{"sec=krb5i:krb5p", "clear", asys, []string{"call refused: its security flavor", "peer=192.0.2.1:700", "export=/x", "has=sys", "needs=krb5i:krb5p", `cure="mount with sec=krb5i"`}},
		{"rw", "clear", k, []string{"security flavor", "has=krb5 ", "needs=sys:none", `cure="mount with sec=sys"`}},
		{"xprtsec=tls", "clear", asys, []string{"call refused: its connection is less protected", "has=none", "needs=tls:mtls", `cure="mount with xprtsec=tls"`}},
		{"xprtsec=mtls", "tls", asys, []string{"its connection is less protected", "has=tls", "needs=mtls", "xprtsec=mtls"}},
		{"xprtsec=mtls,cert=*.example.org", "othername", asys, []string{"call refused: the client's certificate", "has=pc7.example.com", "needs=\"cert=*.example.org\"", "cure="}},
		{"xprtsec=mtls,ca=" + digestOf(ourCA), "otherca", asys, []string{"the client's certificate", "has=pc7.example.org", "needs=\"ca=" + digestOf(ourCA) + "\""}},
	} {
		var log bytes.Buffer
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *("+of.options+")\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		args := &nfs3.AccessArgs{FH: s.RootHandle("/x")}
		for range 3 {
			if s.StrongEnough(callOf(of.flavor, channels[of.channel], args), false) {
				t.Errorf("%s: the call passed", of.options)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines, want 1: %s", of.options, n, &log)
		}
		for _, want := range of.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log has no %s: %s", of.options, want, &log)
			}
		}
	}
}

// TestCertificateNames: names of all kinds are compared, ignoring case. The client's own
// certificate does not count as an authority.
func TestCertificateNames(t *testing.T) {
	uri, err := url.Parse("spiffe://example.org/backup")
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	leaf := &x509.Certificate{Raw: []byte("leaf"), DNSNames: []string{"a.example.org", "B.Example.org"}, EmailAddresses: []string{"carol@example.org"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 7)}, URIs: []*url.URL{uri}}
	middle := &x509.Certificate{Raw: []byte("intermediate")}
	state := transport.Channel{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf, otherCA}, {leaf, middle, ourCA}}}}
	for options, want := range map[string]bool{
		"cert=a.example.org": true, "cert=b.example.org": true, "cert=B.EXAMPLE.*": true, "cert=?.example.org": true, "cert=*@example.org": true,
		"cert=10.0.0.7": true, "cert=spiffe://example.org/*": true, "cert=*": true,
		"cert=carol?example.org": false, "cert=spiffe?//example.org/backup": false, "cert=*//example.org/backup": false,
		"cert=example.org": false, "cert=c.example.org": false, "cert=a.example": false, "cert=10.0.0.*8": false,
		"ca=" + digestOf(ourCA): true, "ca=" + digestOf(otherCA): true, "ca=" + digestOf(middle): true, "ca=" + digestOf(leaf): false,
		"cert=a.*,ca=" + digestOf(leaf): false, "cert=z.*,ca=" + digestOf(ourCA): false,
	} {
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *(xprtsec=mtls,"+options+")\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler)})
		if got := s.StrongEnough(callOf(asys, state, &nfs3.AccessArgs{FH: s.RootHandle("/x")}), false); got != want {
			t.Errorf("%s: %v, want %v", options, got, want)
		}
	}
}

// TestSecurityOfLaterTLS: the decision for a connection before its TLS handshake is not used after
// the handshake. The decision for one certificate is not used for another.
func TestSecurityOfLaterTLS(t *testing.T) {
	s := securityServer(t, memfs.New(memfs.Options{}), "/x *(xprtsec=mtls,cert=*.example.org)\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler)})
	memo := new(atomic.Value)
	for _, of := range []struct {
		channel string
		want    bool
	}{{"clear", false}, {"ours", true}, {"clear", false}, {"othername", false}, {"otherca", true}, {"tls", false}} {
		c := callOf(asys, channels[of.channel], &nfs3.AccessArgs{FH: s.RootHandle("/x")})
		c.Memo = memo
		if got := s.StrongEnough(c, false); got != of.want {
			t.Errorf("%s: %v, want %v", of.channel, got, of.want)
		}
	}
}

// TestSecurityActs: each kind of caller acts as the expected effective user.
func TestSecurityActs(t *testing.T) {
	alice := transport.Cred{UID: 1000, GID: 1000, GIDs: []uint32{27}}
	nobody := transport.Cred{UID: idmap.Anonymous, GID: idmap.Anonymous}
	for _, of := range []struct {
		options string
		flavor  oncrpc.Flavor
		cred    transport.Cred
		want    string
	}{
		{"sec=krb5", k, alice, "1000:1000 [27]"},
		{"sec=krb5p", kp, alice, "1000:1000 [27]"},
		{"sec=krb5", k, transport.Cred{}, "65534:65534 []"},
		{"sec=krb5,anonuid=7,anongid=8", k, transport.Cred{}, "7:8 []"},
		{"sec=krb5,no_root_squash", k, transport.Cred{}, "0:0 []"},
		{"sec=krb5,anonuid=7,anongid=8", k, nobody, "7:8 []"},
		{"sec=krb5,no_root_squash", k, nobody, "65534:65534 []"},
		{"sec=krb5,all_squash", k, alice, "65534:65534 []"},
		{"sec=none,anonuid=7", anone, alice, "7:65534 []"},
		{"sec=sys,all_squash,sec=krb5", asys, alice, "65534:65534 []"},
		{"sec=sys,all_squash,sec=krb5", k, alice, "1000:1000 [27]"},
		{"sec=sys,sec=krb5,no_root_squash", asys, transport.Cred{}, "65534:65534 []"},
		{"sec=sys,sec=krb5,no_root_squash", k, transport.Cred{}, "0:0 []"},
		{"sec=sys:krb5,xprtsec=mtls,certid=7:8", asys, alice, "7:8 []"},
		{"sec=sys:krb5,xprtsec=mtls,certid=7:8", k, alice, "7:8 []"},
		{"xprtsec=mtls,certid=0:0", asys, alice, "0:0 []"},
		{"xprtsec=mtls,certid=7:8,anonuid=9,all_squash", anone, alice, "7:8 []"},
		{"sec=krb5", asys, alice, "nfs3: NFS3ERR_ACCES"},
		{"xprtsec=mtls,cert=*.example.com,certid=7:8", asys, alice, "nfs3: NFS3ERR_ACCES"},
	} {
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *("+of.options+")\n", nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler)})
		c := callOf(of.flavor, channels["ours"], void{})
		of.cred.Flavor = of.flavor
		c.Cred = of.cred
		w, err := s.Acts(c, "/x")
		got := fmt.Sprintf("%d:%d %v", w.UID, w.GID, w.GIDs)
		if err != nil {
			got = err.Error()
		}
		if got != of.want {
			t.Errorf("(%s), %s, uid %d: %s, want %s", of.options, exports.FlavorName(of.flavor), int32(of.cred.UID), got, of.want)
		}
	}
}

// TestSecurityActsWithoutPrivileges: a server without privileges acts as one user, whatever the
// flavor and certificate.
func TestSecurityActsWithoutPrivileges(t *testing.T) {
	own := nfsserver.Squash{All: true, UID: 5, GID: 6, TrustLocal: true}
	for _, options := range []string{"sec=krb5,no_root_squash", "sec=sys:krb5,xprtsec=mtls,certid=7:8"} {
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *("+options+")\n", nfsserver.Options{Squash: own})
		c := callOf(k, channels["ours"], void{})
		if w, err := s.Acts(c, "/x"); err != nil || w.UID != 5 || w.GID != 6 {
			t.Errorf("%s: %d:%d, %v, want 5:6", options, w.UID, w.GID, err)
		}
	}
}

// TestSecurePorts: with a flavor that proves its user, neither calls nor the MNT before them need a
// reserved port. Other flavors need one, each according to its own option.
func TestSecurePorts(t *testing.T) {
	for _, of := range []struct {
		options string
		flavor  oncrpc.Flavor
		want    error
		mnt     mount3.Status
	}{
		{"secure", asys, nfs3.ErrPerm, mount3.ErrAcces},
		{"sec=sys", asys, nfs3.ErrPerm, mount3.ErrAcces},
		{"sec=krb5", k, nil, mount3.OK},
		{"sec=sys:krb5", k, nil, mount3.OK},
		{"sec=sys:krb5", asys, nfs3.ErrPerm, mount3.OK},
		{"sec=sys,insecure,sec=krb5", asys, nil, mount3.OK},
		{"insecure,sec=none,sec=sys,secure", asys, nfs3.ErrPerm, mount3.OK},
	} {
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *("+of.options+")\n", nfsserver.Options{Squash: nfsserver.Squash{TrustLocal: true}, Logger: slog.New(slog.DiscardHandler)})
		c := callOf(of.flavor, transport.Channel{}, &mount3.PathArgs{Path: "/x"})
		c.Remote.(*net.TCPAddr).Port = 2000
		if _, err := s.Acts(c, "/x"); err != of.want {
			t.Errorf("(%s), %s: %v, want %v", of.options, exports.FlavorName(of.flavor), err, of.want)
		}
		if err := s.Programs()[1].Procs[mount3.ProcMnt].Run(c); err != nil {
			t.Fatalf("MNT: %v", err)
		}
		if got := mount3.Status(xdr.NewDecoder(c.Res.Bytes()).Uint32()); got != of.mnt {
			t.Errorf("(%s), %s, MNT: %v, want %v", of.options, exports.FlavorName(of.flavor), got, of.mnt)
		}
	}
}

// TestLocksNeedNoFlavor: calls of another program, such as NLM, use an export's files whatever the
// export demands. They have the rights of their own flavor if the export lists it.
func TestLocksNeedNoFlavor(t *testing.T) {
	for options, readOnly := range map[string]bool{
		"rw,sec=krb5": false, "rw,xprtsec=mtls": false, "sec=sys,ro,sec=krb5,rw": true, "sec=krb5,rw,sec=sys,ro": true,
	} {
		s := securityServer(t, memfs.New(memfs.Options{}), "/x *("+options+")\n", nfsserver.Options{Squash: remote})
		fh := s.RootHandle("/x")
		got, called := false, false
		err := s.OnTarget(callOf(asys, transport.Channel{}, void{}), fh.Bytes(), func(target nfsserver.Target) { got, called = target.ReadOnly, true })
		if err != nil || !called {
			t.Errorf("(%s): called %v, error %v, want the file", options, called, err)
		}
		if got != readOnly {
			t.Errorf("(%s): read-only %v, want %v", options, got, readOnly)
		}
	}
}

// TestSecurityWithoutRules: exports without rules have the demands in Options.Security.
func TestSecurityWithoutRules(t *testing.T) {
	sec, err := exports.ParseSecurity("krb5:sys", "tls")
	if err != nil {
		t.Fatalf("exports.ParseSecurity: %v", err)
	}
	s, err := nfsserver.New(nfsserver.Options{Squash: remote, Security: sec, Logger: slog.New(slog.DiscardHandler),
		Exports: []nfsserver.Export{{Name: "/x", FS: memfs.New(memfs.Options{})}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	defer s.Close()
	for what, want := range map[string]bool{"krb5 tls": true, "sys tls": true, "none tls": false, "krb5p tls": false, "krb5 clear": false, "sys ours": true} {
		name, channel, _ := strings.Cut(what, " ")
		flavor := map[string]oncrpc.Flavor{"krb5": k, "sys": asys, "none": anone, "krb5p": kp}[name]
		if got := s.StrongEnough(callOf(flavor, channels[channel], &nfs3.AccessArgs{FH: s.RootHandle("/x")}), false); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// TestSecurityOfExportsInside: a call too weak for an inner export is refused there. It does not
// get the outer export's view of the same directory.
func TestSecurityOfExportsInside(t *testing.T) {
	for _, options := range []string{"sec=krb5", "xprtsec=tls"} {
		for _, enter := range []string{"/srv *(insecure,rw,crossmnt)\n/srv/a/in *(insecure,", "/srv *(insecure,rw)\n/srv/a/in *(insecure,nohide,"} {
			h := serve(t, nfsserver.Options{Squash: remote, Logger: slog.New(slog.DiscardHandler), Exports: ruled(t, enter+options+")\n")})
			c := h.dialFrom("127.0.0.1", user)["tcp"].mount("/srv")
			a := c.dir(c.root, "a", 0o777)
			c.dir(a, "in", 0o777)
			var res nfs3.LookupRes
			c.call(nfs3.ProcLookup, &nfs3.LookupArgs{Dir: a, Name: []byte("in")}, &res)
			if res.Status != nfs3.ErrAcces {
				t.Errorf("%s%s): LOOKUP of the inner export: %v, want %v", enter, options, res.Status, nfs3.ErrAcces)
			}
			if f := h.srv.Figures(); f.RefusedFlavor+f.RefusedChannel == 0 {
				t.Errorf("%s%s): the refusal is not counted", enter, options)
			}
		}
	}
}
