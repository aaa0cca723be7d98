// Owners of UDP sockets: many RoCE connection requests share a socket.

package transport

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// TestOwnerUDP: the owner is the user with a socket bound to the peer's address and port. Without
// one at a local address the owner is unknown; a socket bound to all addresses does not count.
func TestOwnerUDP(t *testing.T) {
	var d sockDiag
	defer d.close()
	local := netip.MustParseAddrPort("127.0.0.1:4791")
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		at := fmt.Sprint(host, ":", machine.Port(t)) // unused afterwards, too
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatalf("ListenPacket: %v", err)
		}
		remote := c.LocalAddr().(*net.UDPAddr).AddrPort()
		if remote.Addr().Is6() {
			local = netip.MustParseAddrPort("[::1]:4791")
		}
		want := Owner{OwnerLocal, uint32(os.Geteuid())}
		if os.Geteuid() == 0 {
			want.UID = 12345
			raw, _ := c.(*net.UDPConn).SyscallConn()
			raw.Control(func(fd uintptr) { err = unix.Fchown(int(fd), 12345, 12345) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := d.ownerUDP(local, remote); got != want {
			t.Errorf("%v: %v, want %v", remote, got, want)
		}
		c.Close()
		if got := d.ownerUDP(local, remote); got != (Owner{}) {
			t.Errorf("%v, when it is closed: %v", remote, got)
		}
	}
	all, err := net.ListenPacket("udp4", "0.0.0.0:0")
	if err != nil {
		t.Fatalf("ListenPacket: %v", err)
	}
	defer all.Close()
	port := all.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	local = netip.MustParseAddrPort("127.0.0.1:4791")
	if got := d.ownerUDP(local, netip.AddrPortFrom(local.Addr(), port)); got != (Owner{}) {
		t.Errorf("bound to all addresses: %v", got)
	}
	if got := d.ownerUDP(netip.MustParseAddrPort("192.0.2.2:4791"), netip.MustParseAddrPort("198.51.100.7:4791")); got.Kind != OwnerRemote {
		t.Errorf("another machine: %v", got)
	}
}
