// Connections requested by datagrams and never completed.

package transport

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// An endless is a connection request with a peer that never confirms, and also the request's
// listener.
type endless struct {
	rnic.ConnRequest
	asked, waits, abandoned, closed chan struct{}
}

func (e *endless) RemoteAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (e *endless) Sockets() (local, remote netip.AddrPort) {
	return netip.MustParseAddrPort("192.0.2.2:4791"), netip.MustParseAddrPort("192.0.2.1:4791")
}
func (e *endless) Abandon() { close(e.abandoned) }

func (e *endless) listener() rnic.Listener { return endlessListener{e} }

type endlessListener struct{ e *endless }

func (l endlessListener) Accept(context.Context) (rnic.ConnRequest, error) {
	select {
	case l.e.asked <- struct{}{}:
		return l.e, nil
	case <-l.e.closed:
		return nil, rnic.ErrClosed
	}
}
func (l endlessListener) Addr() net.Addr { return l.e.RemoteAddr() }
func (l endlessListener) Close() error {
	close(l.e.closed)
	return nil
}

func (e *endless) Accept(*rnic.QP, rnic.ConnParams) error {
	close(e.waits)
	<-e.abandoned
	return rnic.ErrClosed
}

// TestShutdownAbandons: Shutdown does not wait for a peer that has requested a connection and
// fallen silent.
func TestShutdownAbandons(t *testing.T) {
	e := &endless{asked: make(chan struct{}, 1), waits: make(chan struct{}), abandoned: make(chan struct{}), closed: make(chan struct{})}
	s := NewServer(ServerConfig{})
	served := make(chan error)
	go func() { served <- s.ServeRDMA(iwarp.Open(rnic.DeviceConfig{}), e.listener()) }()
	<-e.waits
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	<-served
}
