// A probe of the kernel, before there are sessions.

package ktls

import (
	"crypto/tls"
	"fmt"
	"net"
)

// Probe returns nil if this kernel can take over connections, and an error that wraps
// ErrUnsupported if not. rekeys reports whether it can follow a peer's key change (Linux 6.14).
// Probe makes a loopback connection. For root it may load the kernel's module.
func Probe() (rekeys bool, err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String()) // nothing accepts it
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	defer c.Close()
	k, err := newKernelSocket(c.(*net.TCPConn))
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return probe(k)
}

// probe is Probe on a connected socket, which is unusable afterwards.
func probe(s socket) (rekeys bool, err error) {
	suite := suites[tls.TLS_AES_128_GCM_SHA256]
	info := suite.info(make([]byte, suite.size))
	if err := s.enable(); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for _, d := range []direction{receiving, sending} {
		if err := s.setKey(d, info); err != nil {
			return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	return s.setKey(sending, info) == nil && s.setKey(receiving, info) == nil, nil
}
