// Listeners take one path: multipath TCP has neither one MSS nor one pair of ports.

package iwarp

import (
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"golang.org/x/sys/unix"
)

func TestListenHasOnePath(t *testing.T) {
	l, err := Open(rnic.DeviceConfig{}).Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.(*listener).nl.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	protocol := 0
	control := raw.Control(func(fd uintptr) {
		protocol, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	})
	if control != nil || err != nil || protocol != unix.IPPROTO_TCP {
		t.Errorf("protocol %d: %v, %v", protocol, control, err)
	}
}
