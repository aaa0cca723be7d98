// The guest in the role of a server: Linux's own NFS server over RDMA and TCP.

package guest

import (
	"context"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/test/linux/image"
)

// Server is a guest whose kernel exports the directory /export, a tmpfs that everyone
// may write. Its ports are at 127.0.0.1.
type Server struct {
	*Guest
	RDMA, TCP, Mount int
}

// Siw says which build of the soft-iWARP driver a server guest loads.
type Siw string

// The stock driver can lose the wake-up for a first FPDU that arrives right after the
// MPA reply; Fixed closes that race.
const (
	Stock Siw = "stock"
	Fixed Siw = "fixed"
)

// BootServer starts knfsd in a fresh guest that cannot reach the host by itself.
func BootServer(ctx context.Context, img *image.Image, siw Siw) (*Server, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	s := &Server{RDMA: ports[0], TCP: ports[1], Mount: ports[2]}
	s.Guest, err = Boot(ctx, Config{
		Image: img, MemoryMB: 1024, Isolated: true,
		Forwards: map[int]int{s.RDMA: 20049, s.TCP: 2049, s.Mount: 20048},
	})
	if err != nil {
		return nil, err
	}
	script := fmt.Sprintf("siw_up %s && mount -t tmpfs -o size=600m tmpfs /export && chmod 777 /export && "+
		"echo 'hello from knfsd' > /export/hello.txt && knfsd_up /export", siw)
	if _, err := s.Run(ctx, script); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting knfsd: %w", err)
	}
	return s, nil
}

// FreePorts returns n TCP ports of 127.0.0.1 on which nobody listens now.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
