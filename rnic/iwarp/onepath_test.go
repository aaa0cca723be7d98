// Listeners take one path: multipath TCP has neither one MSS nor one pair of ports.

package iwarp

import (
	"errors"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"golang.org/x/sys/unix"
)

func TestListenHasOnePath(t *testing.T) {
	l, err := Open(rnic.DeviceConfig{}).Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	raw, err := l.(*listener).nl.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	protocol := 0
	control := raw.Control(func(fd uintptr) {
		protocol, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	})
	if err := errors.Join(control, err); err != nil {
		t.Fatalf("SO_PROTOCOL: %v", err)
	}
	if protocol != unix.IPPROTO_TCP {
		t.Errorf("protocol %d, want %d", protocol, unix.IPPROTO_TCP)
	}
}
