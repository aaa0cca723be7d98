// Bounds of the mount list.

package nfsserver

import (
	"fmt"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
)

func TestMountTableIsBounded(t *testing.T) {
	var m mountTable
	for i := range maxMounts + 3 {
		m.add("h", fmt.Sprint("/", i))
		m.add("h", fmt.Sprint("/", i)) // a client that mounts a path twice is listed once
	}
	rows := m.list()
	if len(rows) != maxMounts {
		t.Fatalf("%d rows, want %d", len(rows), maxMounts)
	}
	if got, want := [2]string{rows[0].Dir, rows[maxMounts-1].Dir}, [2]string{"/3", fmt.Sprint("/", maxMounts+2)}; got != want {
		t.Errorf("first and last row %v, want %v", got, want)
	}
}

func TestReservedPorts(t *testing.T) {
	s := &Server{squash: Squash{ReservedPort: true}}
	for port, believed := range map[int]bool{1: true, 1023: true, 1024: false, 40000: false} {
		c := &transport.Call{Remote: &net.TCPAddr{Port: port}, Owner: transport.Owner{Kind: transport.OwnerRemote}}
		if why := s.distrust(c); (why == "") != believed {
			t.Errorf("port %d: %q", port, why)
		}
		c.RDMA = true
		if why := s.distrust(c); why != "" {
			t.Errorf("port %d over RDMA: %q", port, why)
		}
	}
}
