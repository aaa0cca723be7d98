// The guest as a server: Linux's NFS server over RDMA and TCP.

package guest

import (
	"context"
	"fmt"
)

// Server is a guest with an exported directory /export, a tmpfs writable for all users. Its
// addresses are in Network.Address's form.
type Server struct {
	*Guest
	RDMA, TCP, Mount string
}

// Siw selects the build of the soft-iWARP driver in a server guest, or soft RoCE.
type Siw string

// The stock driver can lose the wake-up for a first FPDU that arrives right after the MPA reply.
// Fixed closes that race.
const (
	Stock Siw = "stock"
	Fixed Siw = "fixed"
	Rxe   Siw = "rxe"
)

// BootServer starts knfsd in a new guest that cannot connect to the host. It uses the image and the
// MTU of cfg.
func BootServer(ctx context.Context, cfg Config, siw Siw) (*Server, error) {
	const rdma, tcp, mount = 20049, 2049, 20048
	g, err := Boot(ctx, Config{Image: cfg.Image, MTU: cfg.MTU, MemoryMB: 1024, Isolated: true, Ports: []int{rdma, tcp, mount}})
	if err != nil {
		return nil, err
	}
	s := &Server{Guest: g, RDMA: g.Address(rdma), TCP: g.Address(tcp), Mount: g.Address(mount)}
	up := "siw_up " + string(siw)
	if siw == Rxe {
		up = "rxe_up"
	}
	script := fmt.Sprintf("%s && mount -t tmpfs -o size=600m tmpfs /export && chmod 777 /export && "+
		"echo 'hello from knfsd' > /export/hello.txt && knfsd_up /export 8", up)
	if _, err := s.Run(ctx, script); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting knfsd: %w", err)
	}
	return s, nil
}
