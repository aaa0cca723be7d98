// Socket owners: other users' processes connect in all ways.

package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary a client: "WAY ADDRESS".
const childEnv = "NFSRDMA_TEST_OWNER"

// ownerProgram returns a program that answers with the Owner of the call's connection.
func ownerProgram() *Program {
	return &Program{Name: "OWNER", Number: testProg, Version: testVers, Procs: []Procedure{
		{Name: "NULL", Run: func(*Call) error { return nil }},
		{Name: "OWNER", Inline: true, Run: func(c *Call) error {
			c.Res.String(c.Owner.String())
			return nil
		}},
	}}
}

type ownerRes struct{ text string }

func (r *ownerRes) DecodeXDR(d *xdr.Decoder) { r.text = string(d.Opaque(100)) }

// askOwner makes the call, and returns its result or error as text.
func askOwner(c *Client) string {
	var res ownerRes
	if err := c.Call(context.Background(), testProc(1), nil, &res, nil, 200); err != nil {
		return err.Error()
	}
	return res.text
}

// ownerChild runs the client in another process, and prints the server's answer.
func ownerChild(spec string) {
	way, addr, _ := strings.Cut(spec, " ")
	cfg := ClientConfig{MaxRetries: -1}
	var c *Client
	var err error
	switch way {
	case "tcp", "reserved":
		cfg.ReservedPort = way == "reserved"
		c, err = DialTCP(context.Background(), addr, cfg)
	case "rdma":
		c, err = DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{}), addr, cfg)
	case "mapped", "bound":
		c = newClient(cfg, addr)
		c.dial = func(context.Context) (clientConn, error) {
			nc, err := dialRaw(way, netip.MustParseAddrPort(addr))
			if err != nil {
				return nil, err
			}
			return newTCPClientConn(nc, &c.cfg), nil
		}
		c, err = c.connectFirst(context.Background())
	case "gone": // its process has exited before the lookup
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Write([]byte{0})
			fmt.Print(nc.LocalAddr())
		}
		return
	}
	if err != nil {
		fmt.Print(err)
		return
	}
	fmt.Print(askOwner(c))
	c.Close()
}

// dialRaw connects an IPv6 socket to an IPv4 address, or one bound to a device.
func dialRaw(way string, a netip.AddrPort) (net.Conn, error) {
	family := unix.AF_INET6
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if way == "bound" && a.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if way == "bound" {
		if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo"); err != nil {
			return nil, err
		}
	}
	if err := unix.Connect(fd, to); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	return net.FileConn(f)
}

// asUser runs the child as a local user and returns its output.
func asUser(t *testing.T, uid uint32, way string, addr net.Addr) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), childEnv+"="+way+" "+addr.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s as %d: %v", way, uid, err)
	}
	return string(out)
}

// serveOwners serves ownerProgram until the test ends.
func serveOwners(t *testing.T, cfg ServerConfig, addr string) (tcp, rdma net.Addr) {
	t.Helper()
	s := NewServer(cfg, ownerProgram())
	tl, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var loops sync.WaitGroup
	loops.Go(func() { s.ServeTCP(tl) })
	loops.Go(func() { s.ServeRDMA(dev, rl) })
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		loops.Wait()
	})
	return tl.Addr(), rl.Addr()
}

// TestOwnerOfPeer: each local peer is identified by its user.
func TestOwnerOfPeer(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	tcp4, rdma4 := serveOwners(t, ServerConfig{}, "127.0.0.1:0")
	tcp6, rdma6 := serveOwners(t, ServerConfig{}, "[::1]:0")
	anyTCP, anyRDMA := serveOwners(t, ServerConfig{}, "[::]:0") // sees IPv4 as mapped addresses
	at := func(ip string, a net.Addr) net.Addr {
		return &net.TCPAddr{IP: net.ParseIP(ip), Port: a.(*net.TCPAddr).Port}
	}
	for _, c := range []struct {
		way  string
		addr net.Addr
	}{
		{"tcp", tcp4}, {"rdma", rdma4}, {"tcp", tcp6}, {"rdma", rdma6}, {"tcp", anyTCP}, {"rdma", anyRDMA},
		{"tcp", at("127.0.0.1", anyTCP)}, {"rdma", at("127.0.0.1", anyRDMA)}, {"tcp", at("127.9.9.9", anyTCP)},
		{"mapped", tcp4}, {"mapped", at("127.0.0.1", anyTCP)},
		{"bound", tcp4}, {"bound", tcp6}, {"bound", at("127.0.0.1", anyTCP)},
	} {
		for _, uid := range []uint32{0, 1000, 4_000_000_000} {
			if got, want := asUser(t, uid, c.way, c.addr), fmt.Sprintf("uid %d of this machine", uid); got != want {
				t.Errorf("%s to %s as %d: %q", c.way, c.addr, uid, got)
			}
		}
	}
}

// TestOwnerAtEveryAddress: all of the machine's addresses count as local.
func TestOwnerAtEveryAddress(t *testing.T) {
	if !machine.Apart(t, "sh") { // without address changes meanwhile
		return
	}
	const setUp = `ip link add own type veth peer name other
ip link set own addrgenmode none
for a in 192.0.2.7/24 198.51.100.7/32 169.254.7.7/16; do ip address add $a dev own; done
for a in 2001:db8::7/64 fd00::7/128 fe80::7/64; do ip address add $a dev own nodad; done
ip link set own up
ip link set other up`
	if out, err := exec.Command("sh", "-euc", setUp).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tcp, _ := serveOwners(t, ServerConfig{}, "[::]:0")
	all, err := net.Interfaces()
	if err != nil {
		t.Fatalf("Interfaces: %v", err)
	}
	n := 0
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatalf("Addrs: %v", err)
		}
		for _, a := range addrs {
			to := &net.TCPAddr{IP: a.(*net.IPNet).IP, Port: tcp.(*net.TCPAddr).Port}
			if to.IP.IsLinkLocalUnicast() && to.IP.To4() == nil {
				if i.Name != "own" {
					continue // the kernel's, possibly tentative
				}
				to.Zone = i.Name
			}
			if got := asUser(t, 1000, "tcp", to); got != "uid 1000 of this machine" {
				t.Errorf("%s: %q", to, got)
			}
			n++
		}
	}
	if n != 8 { // with those of loopback
		t.Errorf("there are %d addresses", n)
	}
}

// TestOwnerOfClosedSocket: a socket closed by its process has no owner: above all not root, nor
// another machine.
func TestOwnerOfClosedSocket(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	var o owners
	o.init(nil)
	defer o.close()
	asUser(t, 1000, "gone", l.Addr())
	c, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	defer c.Close()
	if owner, err := o.of(c); err != nil || owner != (Owner{}) {
		t.Errorf("%v, %v", owner, err)
	}
}

// TestOwnerOfResetConnection: a reset connection's ports are free for another one, opened by root
// here. Bytes from the first one still have no owner.
func TestOwnerOfResetConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	var o owners
	o.init(nil)
	defer o.close()
	dial := func(from net.Addr) (there, here net.Conn, err error) {
		d := net.Dialer{LocalAddr: from}
		if there, err = d.Dial("tcp", l.Addr().String()); err != nil {
			return nil, nil, err
		}
		here, err = l.Accept()
		return there, here, err
	}
	var first, again, second net.Conn
	for try := 0; ; try++ {
		var there net.Conn
		if there, first, err = dial(nil); err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer first.Close()
		there.(*net.TCPConn).SetLinger(0)
		there.Close()
		first.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := first.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Fatalf("not reset: %v", err)
		}
		if again, second, err = dial(there.LocalAddr()); err == nil {
			break
		}
		if try == 100 { // another process took the port, each time
			t.Fatal(err)
		}
	}
	defer again.Close()
	defer second.Close()
	if owner, err := o.of(second); err != nil || owner != (Owner{OwnerLocal, uint32(os.Geteuid())}) {
		t.Errorf("the second: %v, %v", owner, err)
	}
	if owner, err := o.of(first); err != nil || owner != (Owner{}) {
		t.Errorf("the first: %v, %v", owner, err)
	}
	if owner, err := o.of(&tlsConn{raw: first}); err != nil || owner != (Owner{}) {
		t.Errorf("the first, in a TLS session: %v, %v, want no owner", owner, err)
	}
}

// TestOwnerIsNotTheListener: without a connected socket the kernel returns a listener on the
// port, with any owner.
func TestOwnerIsNotTheListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	var d sockDiag
	defer d.close()
	at := netip.MustParseAddrPort(l.Addr().String())
	if got := d.owner(netip.MustParseAddrPort("127.0.0.1:9"), at); got != (Owner{}) {
		t.Errorf("%v", got)
	}
}

// TestOwnerElsewhere: this kernel knows nothing about other machines.
func TestOwnerElsewhere(t *testing.T) {
	var d sockDiag
	defer d.close()
	for _, c := range []struct{ local, remote string }{
		{"192.0.2.2:2049", "198.51.100.7:700"}, {"[2001:db8::1]:2049", "[2001:db8::2]:700"},
		{"[::ffff:192.0.2.2]:2049", "[::ffff:198.51.100.7]:700"},
	} {
		if got := d.owner(netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote)); got.Kind != OwnerRemote {
			t.Errorf("%s: %v", c.remote, got)
		}
	}
}
