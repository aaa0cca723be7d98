// Command lines, summaries, the order of checks, and the JSON form.

package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// The command lines use the transports that answer, with the options that the server needs.
func TestMountCommands(t *testing.T) {
	up := new(transport.Client) // only its presence matters
	rpc := portprobe.Result{Kind: portprobe.RPC}
	nlm := []rpcbind.Mapping{{Prog: progNLM, Vers: 4, Prot: rpcbind.TCP, Port: 4045}}
	const mountd = ",mountproto=tcp,mountport=635"
	overTLS := secure.Security{Settings: secure.Settings{XprtSec: transport.XprtTLS, CACert: "/ca.crt", TLSName: "n"}}
	for name, c := range map[string]struct {
		x    *checkup
		want wanted
		line []string
	}{
		"both": {&checkup{rdma: up, tcp: up, tcpPort: rpc, mountPort: 635, export: "/e", mounted: true}, wanted{OK, "see below"}, []string{
			"nfsrdma mount h:/e /mnt", "nfsrdma mount -o proto=tcp h:/e /mnt",
			"mount -t nfs -o vers=3,proto=rdma,port=20049,nolock" + mountd + " h:/e /mnt", "mount -t nfs -o vers=3,proto=tcp,port=2049,nolock" + mountd + " h:/e /mnt"}},
		"RDMA, with locks": {&checkup{rdma: up, mountPort: 635, export: "/e", mounted: true, bound: nlm}, wanted{OK, ""}, []string{
			"nfsrdma mount h:/e /mnt", "mount -t nfs -o vers=3,proto=rdma,port=20049" + mountd + " h:/e /mnt"}},
		"TCP, locks that rpcbind does not know": {&checkup{tcp: up, tcpPort: rpc, mountPort: 635, export: "/e", mounted: true, locks: true}, wanted{OK, ""}, []string{
			"nfsrdma mount -o proto=tcp h:/e /mnt", "mount -t nfs -o vers=3,proto=tcp,port=2049,nolock" + mountd + " h:/e /mnt"}},
		"refused":            {&checkup{rdma: up, mountPort: 635, export: "/e"}, wanted{Warn, "does not let this host mount /e yet"}, []string{"nfsrdma mount h:/e /mnt", "mount -t nfs -o vers=3,proto=rdma,port=20049,nolock" + mountd + " h:/e /mnt"}},
		"no export":          {&checkup{rdma: up, mountPort: 635}, wanted{OK, ""}, []string{"nfsrdma mount h:/export /mnt", "mount -t nfs -o vers=3,proto=rdma,port=20049,nolock" + mountd + " h:/export /mnt"}},
		"an address of IPv6": {&checkup{Options: Options{Host: "fe80::1"}, rdma: up, mountPort: 635, export: "/e", mounted: true}, wanted{OK, ""}, []string{"nfsrdma mount [fe80::1]:/e /mnt", "mount -t nfs -o vers=3,proto=rdma,port=20049,nolock" + mountd + " [fe80::1]:/e /mnt"}},
		"for a shell":        {&checkup{rdma: up, mountPort: 635, export: "/a b'$x", mounted: true}, wanted{OK, ""}, []string{`nfsrdma mount h:'/a b'\''$x' /mnt`, "mount -t nfs -o vers=3,proto=rdma,port=20049,nolock" + mountd + ` h:'/a b'\''$x' /mnt`}},
		"no MOUNT over TCP":  {&checkup{rdma: up, export: "/e", mounted: true}, wanted{Warn, "use nfsrdma mount"}, []string{"nfsrdma mount h:/e /mnt"}},
		"other ports": {&checkup{Options: Options{RDMAPort: 7, TCPPort: 8, MountPort: 9}, rdma: up, tcp: up, export: "/e", mounted: true}, wanted{Warn, ""}, []string{
			"nfsrdma mount -o port=7,mountport=9 h:/e /mnt", "nfsrdma mount -o proto=tcp,port=8,mountport=9 h:/e /mnt"}},
		"TLS": {&checkup{Options: Options{Security: &overTLS}, rdma: up, tcp: up, tcpPort: rpc, mountPort: 635, export: "/e", mounted: true}, wanted{OK, ""}, []string{
			"nfsrdma mount -o xprtsec=tls,cacert=/ca.crt,tlsname=n h:/e /mnt", "nfsrdma mount -o proto=tcp,xprtsec=tls,cacert=/ca.crt,tlsname=n h:/e /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=2049,xprtsec=tls,nolock" + mountd + " h:/e /mnt"}},
		"nothing": {&checkup{export: "/e"}, wanted{Skip, "nothing that could be mounted"}, nil},
	} {
		setDefault(&c.x.Host, "h")
		c.x.Options = newCheckup(c.x.Options).Options
		f := checkAdvice(context.Background(), c.x)
		if f.Status != c.want.status || !strings.Contains(f.Text+f.Advice, c.want.part) || !slices.Equal(c.x.mounts, c.line) {
			t.Errorf("%s: %+v\n got %q\nwant %q", name, f, c.x.mounts, c.line)
		}
	}
}

// The parser of servers accepts the last argument in an advised nfsrdma command, and finds the host
// and the export in it.
func TestAdvisedCommandsName(t *testing.T) {
	for _, host := range []string{"server", "10.0.0.1", "::1"} {
		cu := newCheckup(Options{Host: host})
		f := checkMNT(context.Background(), cu)
		arg := f.Advice[strings.LastIndexByte(f.Advice, ' ')+1:]
		if target, err := nfsclient.ParseServer(arg); f.Status != Skip || err != nil || target.Host != host || target.Path != "/export" {
			t.Errorf("%q: %q is %+v, %v", f.Advice, arg, target, err)
		}
		cu.export, cu.exports = "/none", []mount3.Export{{Dir: "/a"}}
		_, arg, _ = strings.Cut(cu.refusalAdvice(mount3.ErrAcces), "showmount ")
		arg, _, _ = strings.Cut(arg, " ")
		if target, err := nfsclient.ParseServer(arg); err != nil || target.Host != host {
			t.Errorf("showmount %s is of %+v, %v", arg, target, err)
		}
	}
}

// A check comes after all its dependencies, and each name is unique; otherwise a check would wait
// forever.
func TestTableIsInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range table() {
		for _, name := range append(slices.Clone(c.needs), c.after...) {
			if !seen[name] {
				t.Errorf("%s needs %s, which is not before it", c.name, name)
			}
		}
		if seen[c.name] || c.run == nil || len(c.name) > 15 {
			t.Errorf("%s is there twice, does nothing, or is wider than its column", c.name)
		}
		seen[c.name] = true
	}
}

// A check runs if its dependencies passed or only warn; a failure skips everything built on it,
// transitively.
func TestWhatIsSkipped(t *testing.T) {
	ran := map[string]bool{}
	made := func(name string, f Finding, needs, after []string) check {
		return check{name, needs, after, func(ctx context.Context, _ *checkup) Finding {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Errorf("%s has no bound", name)
			}
			ran[name] = true // needs no lock: each of these checks waits for the one before
			return f
		}}
	}
	cu := newCheckup(Options{})
	cu.down = map[string]bool{"down": true}
	var told []string
	runChecks(t.Context(), cu, []check{
		made("well", ok("x"), nil, nil),
		made("warns", warn("a", "x"), []string{"well"}, nil),
		made("on warns", ok("x"), []string{"warns"}, nil),
		made("down", warn("a", "x"), nil, []string{"on warns"}),
		made("on down", ok("x"), []string{"down"}, nil),
		made("fails", fail("a", "x"), nil, []string{"on down"}),
		made("on fails", ok("x"), []string{"well", "fails"}, nil),
		made("on skipped", ok("x"), []string{"on fails"}, nil),
		made("after", ok("x"), []string{"well"}, []string{"fails", "on skipped"}),
	}, func(f Finding) { told = append(told, f.Check+" "+f.Status.String()) })
	want := []string{"well OK", "warns WARN", "on warns OK", "down WARN", "on down SKIP", "fails FAIL", "on fails SKIP", "on skipped SKIP", "after OK"}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	if ran["on down"] || ran["on fails"] || ran["on skipped"] || !ran["after"] {
		t.Errorf("ran %v", ran)
	}
}

// The JSON form of a report has words for statuses, and lacks unknown values.
func TestJSONOfAReport(t *testing.T) {
	b, err := json.Marshal(Report{Server: "h", Findings: []Finding{{Check: "name", Text: "x"}, {Check: "route", Status: Fail, Text: "y", Advice: "do"}, {Check: "z", Status: Skip}, {Check: "w", Status: Warn}}})
	const want = `{"server":"h","ok":false,"checks":[{"check":"name","status":"OK","finding":"x"},{"check":"route","status":"FAIL","finding":"y","advice":"do"},` +
		`{"check":"z","status":"SKIP","finding":""},{"check":"w","status":"WARN","finding":""}]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	b, _ = json.Marshal(Report{OK: true, Export: "/e", Mount: []string{"mount x"}})
	if want := `{"server":"","export":"/e","ok":true,"checks":null,"mount":["mount x"]}`; string(b) != want {
		t.Errorf("%s", b)
	}
}

func TestPrintEnd(t *testing.T) {
	var b strings.Builder
	PrintEnd(&b, Report{Findings: []Finding{{}, {Status: Warn}, {Status: Fail}, {Status: Fail}, {Status: Skip}, {}, {}}, Mount: []string{"mount a", "mount b\x1b"}})
	if want := "\nTo mount it:\n  mount a\n  mount b\\x1b\n\n3 OK, 1 to look at, 2 failed, 1 not tried\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	PrintEnd(&b, Report{})
	if want := "\n0 OK, 0 to look at, 0 failed, 0 not tried\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
