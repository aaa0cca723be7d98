// Sockets passed by a service manager. They outlive the server, so clients that connect during its
// restart are not refused.

package program

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// sockets has the passed sockets (sd_listen_fds(3)) by purpose; for a nil field the server opens a
// socket. A function that takes a socket sets the field to nil; close closes the rest.
type sockets struct {
	nfs, rdma, rpcbind net.Listener // over TCP: NFS, NFS over iWARP, rpcbind
	rpcbindUDP, statd  *net.UDPConn
}

// passedFiles returns the service manager's descriptors; a test replaces it.
var passedFiles = func() []*os.File { return activation.Files(true) }

// takeSockets takes the passed sockets and stores their addresses in the options. A socket's name
// decides its purpose (FileDescriptorName= of systemd.socket(5): nfs, nfs-rdma, rpcbind), otherwise
// its port. If --addr is not given, the sockets' address is used, so that sockets opened later
// share it.
func takeSockets(o *options, f *pflag.FlagSet) (s *sockets, err error) {
	s = &sockets{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, file := range passedFiles() {
		if err == nil {
			err = s.take(o, f, file)
		}
		file.Close() // taken sockets have duplicated descriptors
	}
	return s, err
}

// take stores the passed socket file in the field for its purpose.
func (s *sockets) take(o *options, f *pflag.FlagSet, file *os.File) error {
	protocol, err := unix.GetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		return fmt.Errorf("what the service manager passes as %q is no socket: %w", file.Name(), err)
	}
	var at netip.AddrPort
	switch protocol {
	case unix.IPPROTO_TCP:
		l, err := net.FileListener(file)
		if err != nil {
			return fmt.Errorf("socket %q of the service manager: %w", file.Name(), err)
		}
		at = l.Addr().(*net.TCPAddr).AddrPort()
		err = s.assign(&l, o, file.Name(), at.Port())
		if err != nil {
			l.Close()
			return err
		}
	case unix.IPPROTO_UDP:
		c, err := net.FilePacketConn(file)
		if err != nil {
			return fmt.Errorf("socket %q of the service manager: %w", file.Name(), err)
		}
		at = c.LocalAddr().(*net.UDPAddr).AddrPort()
		if err := s.assignUDP(c.(*net.UDPConn), o, file.Name(), at.Port()); err != nil {
			c.Close()
			return err
		}
	default:
		return fmt.Errorf("socket %q of the service manager is neither of TCP nor of UDP (MPTCP is not served: leave SocketProtocol= out)", file.Name())
	}
	if !f.Changed("addr") {
		o.addr = at.Addr().Unmap().String()
	}
	return nil
}

// assign stores a listener by its purpose.
func (s *sockets) assign(l *net.Listener, o *options, name string, port uint16) error {
	to, flag := &s.nfs, &o.tcpPort
	switch {
	case name == "nfs":
	case name == "nfs-rdma":
		to, flag = &s.rdma, &o.rdmaPort
	case name == "rpcbind" || port == rpcbind.Port:
		to, flag = &s.rpcbind, nil
	case port == o.tcpPort:
	case port == o.rdmaPort:
		to, flag = &s.rdma, &o.rdmaPort
	default:
		return fmt.Errorf("the service manager passes a socket on port %d, which is neither --tcp-port nor --rdma-port: say which it is, or name it nfs or nfs-rdma (FileDescriptorName=)", port)
	}
	if *to != nil {
		return fmt.Errorf("the service manager passes two sockets for one service, on %s and %s: one on [::], with BindIPv6Only=both, serves IPv4 and IPv6", (*to).Addr(), (*l).Addr())
	}
	*to = transport.ListenConfig{Logger: logto.Standard}.ListenOn(*l)
	if flag != nil {
		*flag = port
	}
	return nil
}

// assignUDP stores a UDP socket by its purpose.
func (s *sockets) assignUDP(c *net.UDPConn, o *options, name string, port uint16) error {
	to := &s.statd
	switch {
	case name == "rpcbind" || port == rpcbind.Port:
		to = &s.rpcbindUDP
	case port == o.tcpPort || port == o.locks.statd || strings.HasPrefix(name, "nfs"):
	default:
		return fmt.Errorf("the service manager passes a UDP socket on port %d: only those of rpcbind and of --statd-port are taken (RoCE opens its own)", port)
	}
	if *to != nil {
		return fmt.Errorf("the service manager passes two UDP sockets for one service, on %s and %s", (*to).LocalAddr(), c.LocalAddr())
	}
	*to = c
	return nil
}

// listen assigns the NFS sockets to l. After an error the caller must still close them.
func (s *sockets) listen(l *nfsserver.Listen) error {
	if s.rdma != nil && l.RDMA == "" {
		return fmt.Errorf("the service manager passes a socket for iWARP (%s), which --rdma does not name", s.rdma.Addr())
	}
	l.TCPOn, l.RDMAOn = s.nfs, s.rdma
	s.nfs, s.rdma = nil, nil
	return nil
}

// close closes the sockets that were not taken.
func (s *sockets) close() {
	for _, l := range []net.Listener{s.nfs, s.rdma, s.rpcbind} {
		if l != nil {
			l.Close()
		}
	}
	for _, c := range []*net.UDPConn{s.rpcbindUDP, s.statd} {
		if c != nil {
			c.Close()
		}
	}
}
