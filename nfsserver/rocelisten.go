// Listening over RoCE at addresses that are not available yet.

package nfsserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A lateListener opens its listener while it is in use, and retries until that succeeds.
type lateListener struct {
	// Set once.
	open func() (rnic.Listener, error)
	at   netip.AddrPort
	note func(at netip.Addr, err error) // reports success after an earlier failure; may be nil
	done chan struct{}                  // closed by Close

	mu     sync.Mutex    // guards all below
	l      rnic.Listener // nil: not open yet
	closed bool
}

// listenRoCE returns the listener for l.RoCE, and the error from the first attempt to open that
// listener.
func listenRoCE(dev *rnic.Device, l *Listen) (*lateListener, error) {
	at, _ := net.ResolveUDPAddr("udp", l.RoCE) // open fails with the same error
	late := &lateListener{at: at.AddrPort(), note: l.RoCEUnserved, done: make(chan struct{}),
		open: func() (rnic.Listener, error) { return dev.Listen("udp", l.RoCE) }}
	return late, late.try()
}

// try opens the listener, unless Close was called.
func (l *lateListener) try() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rnic.ErrClosed
	}
	opened, err := l.open()
	if err != nil {
		return err
	}
	l.l = opened
	return nil
}

// opened returns the listener; nil: not open yet.
func (l *lateListener) opened() rnic.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l
}

func (l *lateListener) isOpen() bool { return l.opened() != nil }

// Accept waits for the listener, and returns its next connection request.
func (l *lateListener) Accept(ctx context.Context) (rnic.ConnRequest, error) {
	for l.opened() == nil {
		select {
		case <-l.done:
			return nil, rnic.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(reopenEvery):
		}
		if l.try() == nil && l.note != nil {
			l.note(l.at.Addr().Unmap(), nil)
		}
	}
	return l.opened().Accept(ctx)
}

// Addr returns the address, with the service's port.
func (l *lateListener) Addr() net.Addr {
	if opened := l.opened(); opened != nil {
		return opened.Addr()
	}
	return net.UDPAddrFromAddrPort(l.at)
}

// Close ends Accept.
func (l *lateListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	if l.l == nil {
		return nil
	}
	return l.l.Close()
}
