// The server's end of one RPC-over-RDMA connection.

package transport

import (
	"github.com/nfsrdma/nfsrdma/rnic"
)

// ServeRDMA accepts connections of l until Shutdown, then returns ErrClosed.
func (s *Server) ServeRDMA(dev *rnic.Device, l *rnic.Listener) error { panic("stub") }
