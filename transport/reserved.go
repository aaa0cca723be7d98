// A source port below 1024, which servers that are told to (secure of exports(5)) ask of TCP
// clients.

package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
)

// Reserved ports are taken from those where other RPC clients take theirs.
const (
	reservedFirst = 600
	reservedLast  = 1023
	// reservedTries bounds the ports that are tried for one connection. One that was used
	// within the last minute cannot be had again (TIME_WAIT), so who connects hundreds of
	// times a minute gets ordinary ports, and leaves some of the others to other programs.
	reservedTries = 16
)

// wellKnown are ports in that range at which services listen that people run: a
// service that is started while we have its port would fail.
var wellKnown = []int{623, 631, 636, 646, 664, 749, 750, 783, 853, 860, 873, 902, 989, 990, 992, 993, 994, 995}

// dialReserved connects from a reserved port, or where this process is not allowed to have one,
// or none is free, from an ordinary one.
func dialReserved(ctx context.Context, network, addr string) (net.Conn, error) {
tries:
	for range reservedTries {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: reservedPort()}}
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

// dialReservedOnly connects from a reserved port, whichever of them can be had, or not at all.
func dialReservedOnly(ctx context.Context, network, addr string) (net.Conn, error) {
	const n = reservedLast - reservedFirst + 1
	var taken error
	for i, first := 0, rand.IntN(n); i < n; i++ {
		port := reservedFirst + (first+i)%n
		if slices.Contains(wellKnown, port) {
			continue
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		c, err := d.DialContext(ctx, network, addr)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return c, err
		}
		taken = err
	}
	return nil, fmt.Errorf("no port below 1024 is free: %w", taken)
}

// reservedPort is one of them by chance, so that programs seldom try the same.
func reservedPort() int {
	for {
		if p := reservedFirst + rand.IntN(reservedLast-reservedFirst+1); !slices.Contains(wellKnown, p) {
			return p
		}
	}
}
