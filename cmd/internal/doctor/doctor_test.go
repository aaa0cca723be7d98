// Whole runs, on healthy servers and on every kind of broken one.

package doctor

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// TestMain extends the checks' time limits for a busy machine.
func TestMain(m *testing.M) {
	Slow = 60
	os.Exit(m.Run())
}

// A wanted is the expected status of a check, and a part of its text or advice.
type wanted struct {
	status Status
	part   string
}

// shown returns the names of the checks in a report, with or without those of Kerberos.
func shown(kerberos bool) (names []string) {
	for _, c := range table() {
		if kerberos || !slices.Contains([]string{realmCheck, keytabCheck, ticketCheck, contextCheck}, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// examine runs all checks on 127.0.0.1 and compares the results of those in want.
func examine(t *testing.T, o Options, healthy bool, want map[string]wanted) Report {
	t.Helper()
	setDefault(&o.Host, "127.0.0.1")
	setDefault(&o.BindPort, machine.Port(t))
	told, before := 0, t.Failed()
	r := Examine(t.Context(), o, func(Finding) { told++ })
	names := shown(o.Security != nil && strings.Contains(o.Security.Sec, "krb5"))
	if r.OK != healthy || told != len(names) || len(r.Findings) != told {
		t.Fatalf("OK %v with %d findings, %d told; want %v, %d", r.OK, len(r.Findings), told, healthy, len(names))
	}
	for i, f := range r.Findings {
		if f.Check != names[i] || f.Text == "" {
			t.Errorf("finding %d: %+v, want a text for %s", i, f, names[i])
		}
		if f.Status == Fail && f.Advice == "" || f.Status == OK && f.Advice != "" {
			t.Errorf("finding %d: %+v, want advice for a failure only", i, f)
		}
		w, asked := want[f.Check]
		if asked && (f.Status != w.status || !strings.Contains(f.Text+" → "+f.Advice, w.part)) {
			t.Errorf("%s: %v %s → %s; want %v with %q", f.Check, f.Status, f.Text, f.Advice, w.status, w.part)
		}
		delete(want, f.Check)
	}
	if len(want) > 0 {
		t.Errorf("no findings of %v", want)
	}
	if t.Failed() && !before {
		for _, f := range r.Findings {
			t.Log(f)
		}
	}
	return r
}

func port(a net.Addr) int { return int(netip.MustParseAddrPort(a.String()).Port()) }

// listen accepts connections on a port and calls act for each.
func listen(t *testing.T, act func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go act(c)
		}
	}()
	return port(l.Addr())
}

// tree returns an NFS server's programs over memory, with all callers mapped to one user.
func tree(t *testing.T, uid uint32, readOnly bool) ([]*transport.Program, *memfs.FS) {
	t.Helper()
	fs := memfs.New(memfs.Options{UID: uid, GID: uid})
	srv, err := nfsserver.New(nfsserver.Options{Squash: nfsserver.Squash{All: true, UID: uid, GID: uid},
		Exports: []nfsserver.Export{{Name: "/m", FS: fs, ReadOnly: readOnly}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv.Programs(), fs
}

// serve serves programs over RDMA and over TCP.
func serve(t *testing.T, programs ...*transport.Program) (rdma, tcp int) {
	t.Helper()
	s := transport.NewServer(transport.ServerConfig{}, programs...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	done := make(chan struct{}, 2)
	go func() { s.ServeRDMA(dev, rl); done <- struct{}{} }()
	go func() { s.ServeTCP(tl); done <- struct{}{} }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		<-done
		<-done
	})
	return port(rl.Addr()), port(tl.Addr())
}

// withProc returns programs with one procedure replaced.
func withProc(programs []*transport.Program, prog, proc uint32, run func(old func(*transport.Call) error, c *transport.Call) error) []*transport.Program {
	programs = slices.Clone(programs)
	for i, p := range programs {
		if p.Number != prog {
			continue
		}
		changed := *p
		changed.Procs = slices.Clone(p.Procs)
		old := changed.Procs[proc].Run
		changed.Procs[proc].Run = func(c *transport.Call) error { return run(old, c) }
		programs[i] = &changed
	}
	return programs
}

// left lists the names in the root of a tree.
func left(t *testing.T, tcp int) (names []string) {
	t.Helper()
	cu := newCheckup(Options{Host: "127.0.0.1", TCP: true, RDMAPort: machine.Port(t), TCPPort: tcp, BindPort: machine.Port(t), Export: "/m"})
	defer cu.close()
	runChecks(t.Context(), cu, table(), func(Finding) {})
	if _, err := cu.nfs.Readdir(t.Context(), cu.root, nfsPage, 4096, func(e *nfs3.Entry) {
		if n := string(e.Name); n != "." && n != ".." {
			names = append(names, n)
		}
	}); err != nil {
		t.Fatalf("Readdir: %v", err)
	}
	return names
}

// All checks pass on a server with both transports, and on servers with one transport.
func TestServersThatAreWell(t *testing.T) {
	programs, _ := tree(t, me(), false)
	rdma, tcp := serve(t, programs...)
	r := examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, true, map[string]wanted{
		nameCheck: {OK, "is an address"}, routeCheck: {OK, "on lo"}, portRDMA: {OK, "iWARP"}, portTCP: {OK, "ONC RPC"},
		portBind: {Warn, "refused"}, bindCheck: {Skip, portBind}, startUp: {OK, "inline 12288 out, 12288 in, remote invalidation yes"},
		rpcRDMA: {OK, "128 credits"}, programsRDMA: {OK, "NFS 3, MOUNT 3"}, programsTCP: {OK, "NFS 3, MOUNT 3"}, mountCheck: {OK, "RDMA port"},
		exportsCheck: {OK, "/m (everyone)"}, mntCheck: {OK, "flavors sys"}, fsinfoCheck: {OK, "over RDMA: READ 1 MiB"}, spaceCheck: {OK, "free"},
		whoCheck: {OK, "write yes"}, writeCheck: {OK, "the clocks agree"}, latencyCheck: {OK, "over RDMA"}, adviceCheck: {OK, ""},
	})
	if len(r.Mount) != 4 || !strings.HasPrefix(r.Mount[0], "nfsrdma mount -o port=") || !strings.Contains(r.Mount[2], "proto=rdma,port=") || !strings.HasSuffix(r.Mount[3], "127.0.0.1:/m /mnt") {
		t.Errorf("mount commands %q", r.Mount)
	}
	if names := left(t, tcp); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
	r = examine(t, Options{RDMAPort: rdma, TCPPort: machine.Port(t)}, true, map[string]wanted{
		portTCP: {Warn, "connection refused"}, mountCheck: {Warn, "nowhere over TCP"}, fsinfoCheck: {OK, "over RDMA"}, writeCheck: {Skip, "--write"}, adviceCheck: {Warn, "MOUNT over TCP"},
	})
	if len(r.Mount) != 1 || !strings.HasPrefix(r.Mount[0], "nfsrdma mount ") {
		t.Errorf("mount commands %q, though MOUNT is not in the kernel's reach", r.Mount)
	}
	examine(t, Options{RDMAPort: machine.Port(t), TCPPort: tcp, TCP: true, Export: "/m"}, true, map[string]wanted{
		portRDMA: {Warn, "refused"}, rpcRDMA: {Skip, ""}, mountCheck: {OK, "NFS port"}, fsinfoCheck: {OK, "over TCP"}, latencyCheck: {OK, "over TCP"},
	})
	examine(t, Options{RDMAPort: machine.Port(t), TCPPort: tcp}, false, map[string]wanted{portRDMA: {Fail, "serve RDMA"}, mntCheck: {OK, "/m"}})
}

// The server receives UMNT before the connections are closed.
func TestUnmounts(t *testing.T) {
	programs, _ := tree(t, me(), false)
	var unmounts atomic.Int32
	rdma, tcp := serve(t, withProc(programs, mount3.Program, mount3.ProcUmnt, func(old func(*transport.Call) error, c *transport.Call) error {
		unmounts.Add(1)
		return old(c)
	})...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp}, true, map[string]wanted{mntCheck: {OK, "/m"}})
	if n := unmounts.Load(); n != 1 {
		t.Errorf("%d UMNT, want 1", n)
	}
}

// Each service other than the expected one is recognized on its port.
func TestPortsThatAreWrong(t *testing.T) {
	programs, _ := tree(t, me(), false)
	rdma, tcp := serve(t, programs...)
	examine(t, Options{RDMAPort: tcp, TCPPort: rdma}, false, map[string]wanted{
		portRDMA: {Fail, "this is the TCP port"}, portTCP: {Warn, "this is the RDMA port"}, mountCheck: {Fail, "ports above"}, adviceCheck: {Skip, ""},
	})
	reject := mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Reject: true, Rev: mpa.Rev2, HasEnhanced: true})
	mute := listen(t, func(net.Conn) {})
	// the short wait is over before a connection exists
	late := func(_ context.Context, network, addr string) (net.Conn, error) { return net.Dial(network, addr) }
	examine(t, Options{RDMAPort: mute, TCPPort: machine.Port(t), Dial: late, slow: 1}, false, map[string]wanted{portRDMA: {Fail, "says nothing"}})
	for _, c := range []struct {
		act  func(net.Conn)
		want map[string]wanted
	}{
		{func(c net.Conn) { c.Close() }, map[string]wanted{portRDMA: {Fail, "closes the connection"}}},
		{says("SSH-2.0-OpenSSH\r\n"), map[string]wanted{portRDMA: {Fail, "SSH"}}},
		{says("HTTP/1.1 400 Bad Request\r\n"), map[string]wanted{portRDMA: {Fail, "HTTP"}}},
		{says(string(reject)), map[string]wanted{portRDMA: {OK, "iWARP"}, startUp: {Fail, "rejects"}, rpcRDMA: {Skip, startUp}}},
		{says("MPA ID Rep Frame\x00\x07\x00\x00"), map[string]wanted{startUp: {Fail, "not one of RFC 5044"}}},
		{says(string(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Rev: mpa.Rev1}))), map[string]wanted{startUp: {Fail, "RFC 6581"}}},
		{says(string(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Rev: mpa.Rev2, HasEnhanced: true}))),
			map[string]wanted{startUp: {Warn, "no RFC 8797 private data"}, rpcRDMA: {Fail, "no answer"}}},
	} {
		examine(t, Options{RDMAPort: listen(t, c.act), TCPPort: machine.Port(t)}, false, c.want)
	}
}

// says replies to the first bytes with text, and hangs up.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		c.Read(make([]byte, 1024))
		c.Write([]byte(text))
		c.(*net.TCPConn).CloseWrite()
		// waits until the peer has read the text, because a reset would overtake it
		io.Copy(io.Discard, c)
		c.Close()
	}
}

// Names that cannot be resolved, or have several addresses, give their own results.
func TestNames(t *testing.T) {
	lookup := func(addrs ...string) func(context.Context, string, string) ([]netip.Addr, error) {
		return func(context.Context, string, string) (list []netip.Addr, err error) {
			if len(addrs) == 0 {
				return nil, &net.DNSError{Err: "no such host", Name: "server", IsNotFound: true}
			}
			for _, a := range addrs {
				list = append(list, netip.MustParseAddr(a))
			}
			return list, nil
		}
	}
	examine(t, Options{Host: "server", Lookup: lookup()}, false, map[string]wanted{
		nameCheck: {Fail, "does not resolve: no such host"}, routeCheck: {Skip, nameCheck}, portRDMA: {Skip, ""}, mountCheck: {Skip, ""}, adviceCheck: {Skip, ""},
	})
	programs, _ := tree(t, me(), false)
	rdma, tcp := serve(t, programs...)
	examine(t, Options{Host: "server", Lookup: lookup("127.0.0.1"), RDMAPort: rdma, TCPPort: tcp}, true, map[string]wanted{nameCheck: {OK, "server is 127.0.0.1"}})
	examine(t, Options{Host: "server", Lookup: lookup("127.0.0.9", "127.0.0.1"), RDMAPort: rdma, TCPPort: tcp}, true, map[string]wanted{
		nameCheck: {Warn, "no NFS port answers at 127.0.0.9; 127.0.0.1 is examined"}, mntCheck: {OK, "/m"},
	})
}

// An unresponsive host costs seconds rather than minutes: no probe exceeds its limit.
func TestDeadHost(t *testing.T) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("an attempt to connect without a bound")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	examine(t, Options{Dial: dial, slow: 1}, false, map[string]wanted{
		portRDMA: {Fail, "firewalls"}, portTCP: {Warn, "firewalls"}, portBind: {Warn, "no answer"}, lockCheck: {Skip, ""}, latencyCheck: {Skip, ""},
	})
}

// MOUNT refuses, requires Kerberos, or listens on another port.
func TestMountRefusals(t *testing.T) {
	programs, _ := tree(t, me(), false)
	mnt := func(res mount3.MntRes) []*transport.Program {
		return withProc(programs, mount3.Program, mount3.ProcMnt, func(_ func(*transport.Call) error, c *transport.Call) error {
			res.EncodeXDR(c.Res)
			return nil
		})
	}
	for _, c := range []struct {
		programs []*transport.Program
		export   string
		want     wanted
	}{
		{mnt(mount3.MntRes{Status: mount3.ErrAcces}), "", wanted{Fail, "is among the clients"}},
		{mnt(mount3.MntRes{Handle: make([]byte, 16), Flavors: []uint32{390003}}), "", wanted{Fail, "krb5"}},
		{mnt(mount3.MntRes{Handle: make([]byte, 0)}), "", wanted{Fail, "no handle"}},
		{programs, "/nothing", wanted{Fail, "the list begins with /m"}},
		{withProc(programs, mount3.Program, mount3.ProcMnt, func(func(*transport.Call) error, *transport.Call) error {
			return &transport.AuthError{Stat: 5}
		}), "", wanted{Fail, "AUTH_SYS from this host: see its log"}},
	} {
		rdma, tcp := serve(t, c.programs...)
		examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Export: c.export}, false, map[string]wanted{mntCheck: c.want, fsinfoCheck: {Skip, mntCheck}})
	}
	// Without a list and without a named export, no export can be tried. This is no failure.
	hidden := withProc(programs, mount3.Program, mount3.ProcExport, func(func(*transport.Call) error, *transport.Call) error {
		return transport.ErrProcUnavail
	})
	rdma, tcp := serve(t, hidden...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp}, true, map[string]wanted{exportsCheck: {Warn, "name the export"}, mntCheck: {Skip, ":/export"}})
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Export: "/m"}, true, map[string]wanted{mntCheck: {OK, "/m"}})
}

// MOUNT on a separate port is found through rpcbind, as on Linux.
func TestMountByRpcbind(t *testing.T) {
	programs, _ := tree(t, me(), false)
	var nfs, mount []*transport.Program
	for _, p := range programs {
		if p.Number == mount3.Program {
			mount = append(mount, p)
		} else {
			nfs = append(nfs, p)
		}
	}
	rdma, tcp := serve(t, nfs...)
	_, mountd := serve(t, mount...)
	dump := rpcbind.DumpRes{Mappings: []rpcbind.Mapping{
		{Prog: nfs3.Program, Vers: 3, Prot: rpcbind.TCP, Port: uint32(tcp)}, {Prog: mount3.Program, Vers: 3, Prot: rpcbind.UDP, Port: 1},
		{Prog: mount3.Program, Vers: 3, Prot: rpcbind.TCP, Port: uint32(mountd)}, {Prog: progNLM, Vers: 4, Prot: rpcbind.TCP, Port: 4045}}}
	procs := make([]transport.Procedure, rpcbind.ProcDump+1)
	procs[rpcbind.ProcDump] = transport.Procedure{Name: "DUMP", Idempotent: true, Run: func(c *transport.Call) error { dump.EncodeXDR(c.Res); return nil }}
	_, bind := serve(t, &transport.Program{Name: "PMAP", Number: rpcbind.Program, Version: rpcbind.Version, Procs: procs})
	r := examine(t, Options{RDMAPort: rdma, TCPPort: tcp, BindPort: bind}, true, map[string]wanted{
		programsRDMA: {OK, "NFS 3"}, bindCheck: {OK, "NLM 4 at 4045"}, mountCheck: {OK, "at TCP port"}, mntCheck: {OK, "/m"},
	})
	if len(r.Mount) != 4 || strings.Contains(strings.Join(r.Mount, " "), "nolock") {
		t.Errorf("mount commands %q, though there is NLM", r.Mount)
	}
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp}, false, map[string]wanted{mountCheck: {Fail, "--mount-port"}})
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, MountPort: mountd}, true, map[string]wanted{mountCheck: {OK, "at TCP port"}})
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, MountPort: machine.Port(t)}, false, map[string]wanted{mountCheck: {Fail, "mountd runs"}})
}

// Servers with other NFS versions than 3, or without NFS, get their own results.
func TestOtherPrograms(t *testing.T) {
	null := []transport.Procedure{{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }}}
	rdma, tcp := serve(t, &transport.Program{Name: "NFS", Number: nfs3.Program, Version: 4, Procs: null})
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp}, false, map[string]wanted{
		programsRDMA: {Fail, "NFS versions 4 to 4 only"}, programsTCP: {Warn, "vers3=y"}, mountCheck: {Fail, ""},
	})
	rdma, tcp = serve(t, &transport.Program{Name: "X", Number: 0x20001234, Version: 1, Procs: null})
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, TCP: true}, false, map[string]wanted{programsRDMA: {Warn, "another RPC program"}, programsTCP: {Fail, "another RPC program"}})
}
