// The server's address: one of its name's addresses, and another one after it has moved.

package nfsclient

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// resolve maps names to addresses; tests replace it.
var resolve = net.DefaultResolver.LookupNetIP

// lookUpTimeout bounds a reconnecting client's wait for the name service.
const lookUpTimeout = 5 * time.Second

// lookUp returns a name's addresses.
func lookUp(ctx context.Context, name string) (hosts []string, err error) {
	addrs, err := resolve(ctx, "ip", name)
	for _, a := range addrs {
		hosts = append(hosts, a.Unmap().String())
	}
	return hosts, err
}

// A namedServer is the address of a named server, shared by all connections of a Client. The
// connections keep a responding address as long as the name has this address. The hosts of one name
// may be different servers, which do not understand each other's handles. It implements
// transport.Moves.
type namedServer struct {
	name string // set once

	mu      sync.Mutex // guards all below
	host    string
	settled bool // host has answered
}

// address returns the server's present address.
func (h *namedServer) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host
}

// settle sets host, which has answered, as the server's address.
func (h *namedServer) settle(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host, h.settled = host, true
}

// Connected notes that the server accepted a connection at addr.
func (h *namedServer) Connected(_ context.Context, addr string, _ transport.Try) error {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		h.settle(host)
	}
	return nil
}

// Here keeps existing connections: the server may still answer at its old address.
func (h *namedServer) Here(string) bool { return true }

// Next resolves the name again if addr does not answer. Another connection may have moved already.
func (h *namedServer) Next(ctx context.Context, addr string) string {
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
