// Source ports below 1024, which some servers require (secure in exports(5)).

package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
)

// The range for reserved ports, as used by other RPC clients.
const (
	reservedFirst = 600
	reservedLast  = 1023
)

// wellKnown are ports in that range with common services: a service could not start while a client
// uses its port.
var wellKnown = []int{623, 631, 636, 646, 664, 749, 750, 783, 853, 860, 873, 902, 989, 990, 992, 993, 994, 995}

// dialReserved connects from a reserved port; if this process lacks the right, or reservedTries
// random ports are in use, from an ordinary one.
func dialReserved(ctx context.Context, network, addr string) (net.Conn, error) {
tries:
	for range reservedTries {
		d := net.Dialer{LocalAddr: localPort(network, reservedPort())}
		c, err := d.DialContext(ctx, network, addr)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
			continue
		case !errors.Is(err, syscall.EACCES):
			return nil, err
		default:
			break tries
		}
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// dialReservedOnly connects from any available reserved port, or fails.
func dialReservedOnly(ctx context.Context, network, addr string) (net.Conn, error) {
	const n = reservedLast - reservedFirst + 1
	var taken error
	for i, first := 0, rand.IntN(n); i < n; i++ {
		port := reservedFirst + (first+i)%n
		if slices.Contains(wellKnown, port) {
			continue
		}
		d := net.Dialer{LocalAddr: localPort(network, port)}
		c, err := d.DialContext(ctx, network, addr)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return c, err
		}
		taken = err
	}
	return nil, fmt.Errorf("no port below 1024 is free: %w", taken)
}

// localPort returns a port of a network, TCP or UDP, at any address.
func localPort(network string, port int) net.Addr {
	if strings.HasPrefix(network, "udp") {
		return &net.UDPAddr{Port: port}
	}
	return &net.TCPAddr{Port: port}
}

// reservedPort returns a random reserved port, so that programs seldom try the same port.
func reservedPort() int {
	for {
		if p := reservedFirst + rand.IntN(reservedLast-reservedFirst+1); !slices.Contains(wellKnown, p) {
			return p
		}
	}
}
