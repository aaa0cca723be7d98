// Which connections the kernel does not pace.

package iwarp

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSameMachine(t *testing.T) {
	for _, c := range []struct {
		local, remote string
		same          bool
	}{
		{"127.0.0.1:1", "127.0.0.1:2", true},
		{"127.0.0.1:1", "127.0.0.2:2", true},
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:2", false},
		{"[::1]:1", "[::1]:2", true},
		{"[2001:db8::1]:1", "[2001:db8::1]:2", true},
		{"[2001:db8::1]:1", "[2001:db8::2]:2", false},
	} {
		addr := func(s string) net.Addr {
			a, err := net.ResolveTCPAddr("tcp", s)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if same := sameMachine(addr(c.local), addr(c.remote)); same != c.same {
			t.Errorf("%s and %s: on one machine %v, want %v", c.local, c.remote, same, c.same)
		}
	}
	if sameMachine(&net.UnixAddr{Name: "x"}, &net.UnixAddr{Name: "x"}) {
		t.Error("addresses that are not of TCP")
	}
}

func TestLinkOfThisMachineIsNotPaced(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := newTCPLink(c.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	err = l.rc.Control(func(fd uintptr) {
		got, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err != nil || got != plainControl {
			t.Errorf("congestion control %q, %v, want %q", got, err, plainControl)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
