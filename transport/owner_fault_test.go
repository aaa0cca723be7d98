// Socket owners with a slow, silent or faulty kernel, and across namespaces.

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// TestOwnerLookupTimeout: an unresponsive kernel costs the connection, and one goroutine.
func TestOwnerLookupTimeout(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{}, 10)
	var o owners
	o.init(func(local, remote netip.AddrPort) Owner {
		asked <- struct{}{}
		<-release
		return Owner{OwnerLocal, 7}
	})
	o.wait = time.Millisecond
	for range 5 {
		if owner, err := o.within(netip.AddrPort{}, netip.AddrPort{}); err != errOwnerWait || owner != (Owner{}) {
			t.Errorf("%v, %v", owner, err)
		}
	}
	<-asked
	if close(release); len(asked) != 0 {
		t.Errorf("%d questions at once", 1+len(asked))
	}
	o.wait = time.Minute
	if owner, err := o.within(netip.AddrPort{}, netip.AddrPort{}); err != nil || owner != (Owner{OwnerLocal, 7}) {
		t.Errorf("afterwards: %v, %v", owner, err)
	}
	o.close()
}

// TestOwnerWaitEndsConnection: a peer without a timely owner makes no call.
func TestOwnerWaitEndsConnection(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p := newTestProgram()
		s := NewServer(ServerConfig{}, p.program())
		s.owners.wait = time.Millisecond
		s.owners.turn <- struct{}{} // the kernel is stuck in another lookup
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		c, err := n.dial(ctx, addr, ClientConfig{MaxRetries: -1})
		if err == nil {
			err = c.Call(ctx, testProc(tNull), nil, nil, nil, 0)
			c.Close()
		}
		if err == nil || ctx.Err() != nil {
			t.Errorf("%v, %v", err, ctx.Err())
		}
		<-s.owners.turn
		shutdown(t, s, done)
	})
}

// TestOwnerOfOtherNetworks: a network without addresses has no owners.
func TestOwnerOfOtherNetworks(t *testing.T) {
	var o owners
	o.init(func(local, remote netip.AddrPort) Owner { return Owner{OwnerLocal, 7} })
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if owner, err := o.of(a); err != nil || owner.Kind != OwnerRemote {
		t.Errorf("pipe: %v, %v", owner, err)
	}
	l, err := net.Listen("unix", "@"+t.Name())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	c, err := net.Dial("unix", "@"+t.Name())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	if owner, err := o.of(c); err != nil || owner != (Owner{}) {
		t.Errorf("unix socket: %v, %v", owner, err)
	}
}

// TestSockDiagWithoutKernel: without an answer, local peers do not count as remote.
func TestSockDiagWithoutKernel(t *testing.T) {
	local, remote := netip.MustParseAddrPort("192.0.2.2:2049"), netip.MustParseAddrPort("198.51.100.7:700")
	for name, breakIt := range map[string]func(n *netlink){
		"closed descriptor": func(n *netlink) { n.fd = 1 << 20 },
		"another protocol":  func(n *netlink) { n.open(unix.NETLINK_SOCK_DIAG) },
	} {
		var d sockDiag
		breakIt(&d.route)
		if got := d.owner(local, remote); got != (Owner{}) {
			t.Errorf("%s: whose address it is is not known, but: %v", name, got)
		}
		d.close()
	}
	var d sockDiag
	defer d.close()
	if got := d.owner(remote, netip.AddrPortFrom(remote.Addr(), 701)); got != (Owner{}) {
		t.Errorf("a connection's own address is not this machine's: %v", got)
	}
	for name, breakIt := range map[string]func(d *sockDiag){
		"another protocol":  func(d *sockDiag) { d.tcp.open(unix.NETLINK_ROUTE) },
		"closed descriptor": func(d *sockDiag) { d.tcp.fd = 1 << 20 },
		"no routes":         func(d *sockDiag) { d.tcp.fd, d.route.fd = 1<<20, 1<<20 },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		var d sockDiag
		breakIt(&d)
		at := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
		for _, remote := range []netip.AddrPort{at(c.LocalAddr()), netip.MustParseAddrPort("[::1]:700"), netip.MustParseAddrPort("127.1.2.3:700")} {
			if got := d.owner(at(c.RemoteAddr()), remote); got.Kind == OwnerRemote || got.Kind == OwnerLocal && name == "another protocol" {
				t.Errorf("%s: %s: %v", name, remote, got)
			}
		}
		d.close()
		c.Close()
		l.Close()
	}
}

// TestNetlinkMessages: wrong lengths are rejected.
func TestNetlinkMessages(t *testing.T) {
	msg := func(size uint32, rest int) []byte {
		b := binary.NativeEndian.AppendUint32(nil, size)
		b = binary.NativeEndian.AppendUint16(b, 20)
		b = binary.NativeEndian.AppendUint16(b, 0)
		b = binary.NativeEndian.AppendUint32(b, 7)
		b = binary.NativeEndian.AppendUint32(b, 0)
		return append(b, make([]byte, rest)...)
	}
	for _, c := range []struct {
		b    []byte
		body int
		ok   bool
	}{
		{nil, 0, false}, {msg(16, 0)[:15], 0, false}, {msg(15, 0), 0, false}, {msg(17, 0), 0, false}, {msg(0xffffffff, 0), 0, false},
		{msg(16, 0), 0, true}, {msg(16, 9), 0, true}, {msg(20, 4), 4, true}, {msg(20, 8), 4, true},
	} {
		typ, seq, body, ok := parseNetlink(c.b)
		if ok != c.ok || len(body) != c.body || ok && (typ != 20 || seq != 7) {
			t.Errorf("% x: %d, %d, % x, %t", c.b, typ, seq, body, ok)
		}
	}
}

// TestOwnerInOtherNamespace: processes in another network namespace are as unknown to this kernel's
// tables as another machine's.
func TestOwnerInOtherNamespace(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	if _, err := exec.LookPath("ip"); err != nil {
		machine.Skip(t, "ip of iproute2 is needed")
	}
	ns := fmt.Sprintf("nfsrdma%d", time.Now().UnixNano()%1e6)
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", args, err, out)
		}
	}
	host, there := "v"+ns, "w"+ns
	ip("netns add " + ns)
	t.Cleanup(func() { ip("netns del " + ns) })
	ip("link add " + host + " type veth peer name " + there + " netns " + ns)
	ip("addr add 198.18.77.1/30 dev " + host)
	ip("link set " + host + " up")
	ip("-n " + ns + " addr add 198.18.77.2/30 dev " + there)
	ip("-n " + ns + " link set " + there + " up")
	tcp, _ := serveOwners(t, ServerConfig{}, "198.18.77.1:0")
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("Executable: %v", err)
	}
	cmd := exec.Command("ip", "netns", "exec", ns, exe)
	cmd.Env = append(cmd.Environ(), childEnv+"=tcp "+tcp.String())
	out, err := cmd.Output()
	if err != nil || string(out) != "another machine" {
		t.Errorf("%q, %v", out, err)
	}
	if got := asUser(t, 1000, "tcp", tcp); got != "uid 1000 of this machine" {
		t.Errorf("from this namespace: %q", got)
	}
}
