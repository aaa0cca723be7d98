// Where the server is: one of the addresses of its name, and another one when it has moved.

package nfsclient

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// resolve is how names become addresses; tests put others in its place.
var resolve = net.DefaultResolver.LookupNetIP

// lookUpTimeout bounds how long a reconnecting client waits for the name service.
const lookUpTimeout = 5 * time.Second

// lookUp returns the addresses of a name.
func lookUp(ctx context.Context, name string) (hosts []string, err error) {
	addrs, err := resolve(ctx, "ip", name)
	for _, a := range addrs {
		hosts = append(hosts, a.Unmap().String())
	}
	return hosts, err
}

// A home is the address of a server that has a name. All connections of a Client share it, and stay
// with an address that has answered for as long as the name has it: the hosts of one name need not
// be one server, and the handles of one mean nothing to another. It is a transport.Moves.
type home struct {
	name string // set once

	mu      sync.Mutex // guards all below
	host    string
	settled bool // host has answered
}

func (h *home) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host
}

// settle has the server be at host, which has answered.
func (h *home) settle(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host, h.settled = host, true
}

// Connected notes that the server has taken a connection at addr.
func (h *home) Connected(_ context.Context, addr string, _ transport.Try) error {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		h.settle(host)
	}
	return nil
}

// Here lets a connection be that has been made: the server may answer at its old address as well.
func (h *home) Here(string) bool { return true }

// Next looks the name up again when nobody answers at addr. Another connection may have moved
// already.
func (h *home) Next(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if now := h.address(); now != host {
		return net.JoinHostPort(now, port)
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	hosts, err := lookUp(ctx, h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(hosts, host)
	if err == nil && len(hosts) > 0 && h.host == host && (at < 0 || !h.settled) {
		h.host, h.settled = hosts[(at+1)%len(hosts)], false
	}
	return net.JoinHostPort(h.host, port)
}
