// TLS on the connections (RFC 9289).

package nfsclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"

	"github.com/nfsrdma/nfsrdma/transport"
)

// tlsOf returns the TLS configuration for connections to the server, or nil without TLS.
func (o *Options) tlsOf(t Target) (*tls.Config, error) {
	if o.TLS == nil {
		return nil, nil
	}
	cfg := o.TLS(t.Host)
	if t.Others != "" && cfg.ServerName == t.Host {
		return nil, errors.New("TLS with several servers needs one name that all their certificates have: give it in the TLS configuration (tlsname=)")
	}
	return cfg, nil
}

// dialOther connects over TCP to the port mapper, MOUNT or the status monitor on a host. With TLS
// it tries TLS first. Linux's have no TLS, so such a service gets calls in clear, as from the Linux
// client. An attacker can choose the port and remove the offer of TLS. These calls give away names
// and handles, and their results choose only a handle of the server that TLS has proved. The NFS
// port is no such service: there TLS is required. Locks never use dialOther.
func (c *Client) dialOther(ctx context.Context, host string, port int, cfg transport.ClientConfig) (*transport.Client, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	conn, err := transport.DialTCP(ctx, addr, cfg)
	if cfg.TLS == nil || !isNoTLS(err) || c.isNFSPort(port) {
		return conn, err
	}
	cfg.TLS = nil
	return transport.DialTCP(ctx, addr, cfg)
}

// isNFSPort reports whether the NFS connections use a TCP port.
func (c *Client) isNFSPort(port int) bool {
	_, nfs, err := net.SplitHostPort(c.conns[0].Addr())
	return err == nil && nfs == strconv.Itoa(port)
}

// isNoTLS reports whether a server has no TLS.
func isNoTLS(err error) bool {
	var e *transport.TLSError
	return errors.As(err, &e) && e.Failure == transport.TLSNotOffered
}
