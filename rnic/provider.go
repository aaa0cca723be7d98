// The seam below the verbs: what a wire protocol does for a Device, a QP and a listener.

package rnic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// A Provider speaks one wire protocol for the QPs of one Device. It is what stands between
// the verbs, which know no protocol, and a network. Its methods may be called from any goroutine.
type Provider interface {
	// Caps is what QPs of this provider can do; it does not change.
	Caps() Caps

	// NewEndpoint makes the provider's half of a QP, not connected. The Endpoint holds q for as
	// long as it lives, and starts no goroutine before it is connected.
	NewEndpoint(q *ProviderQP, cfg QPConfig) (Endpoint, error)

	// Connect connects ep, one of NewEndpoint, and calls ProviderQP.Established when it may
	// be used. An ep that could not be connected is as it was, unless it has ended.
	Connect(ctx context.Context, ep Endpoint, addr string, p ConnParams) error

	// Listen takes connection requests at an address of the provider's network, for QPs of service
	// s, which is one of Caps.Services. To Accept a request for datagrams is to tell the peer the
	// number and the Q_Key of a QP, which may have been established by another request already.
	Listen(s Service, network, addr string) (Listener, error)
}

// A StreamProvider is a Provider whose connections are byte streams, one for each QP, that may be
// made elsewhere: over TLS, in a simulation. A provider of datagrams is none.
type StreamProvider interface {
	Provider

	// ConnectOver is Connect on a stream that is there already; ep owns it, also after an error.
	ConnectOver(ctx context.Context, ep Endpoint, c net.Conn, p ConnParams) error

	// ListenOn is Listen on a net.Listener, which the Listener owns.
	ListenOn(nl net.Listener) Listener
}

// An Endpoint is the provider's half of one QP: it turns posted work into what goes over the wire,
// and what comes into completions. Its methods may be called from any goroutine.
type Endpoint interface {
	// PostSend queues the work requests, all or none, in order, and never waits for the
	// network. It copies wrs, which the QP has checked as far as that needs no protocol.
	PostSend(wrs []Posted) error

	// Release returns once nothing that waits to be sent points into the memory that mr had.
	Release(mr *MR)

	// Disconnect takes no more posts, sends what was posted, and tells the peer that nothing
	// more comes. It returns when the QP has ended; a ctx that ends first ends it at once.
	Disconnect(ctx context.Context) error

	// Abort begins the end of the QP with err as its cause, unless it has one. It does not
	// wait, and may be called from a CQ handler.
	Abort(err error)

	// Wait returns when no goroutine of the endpoint runs any more.
	Wait()

	// ReceivesPosted is called after receives have been posted where there were none, for
	// providers with a peer that waits for receives. It never waits for the network.
	ReceivesPosted()

	// Join and Leave attach an endpoint of UD to multicast groups; see QP.Join. Other endpoints,
	// and providers without UD, are never asked.
	Join(group netip.Addr) (AddressHandle, error)
	Leave(group netip.Addr)

	// Moved is the payload progress that QP.Moved promises.
	Moved() uint64

	// LocalAddr and RemoteAddr are nil before there is a connection.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// A Scheduler is an Endpoint whose receive loop shares its work with other goroutines. It is the
// only optional interface of an Endpoint; without it, the loop alone receives.
type Scheduler interface {
	Endpoint

	// Drive runs the receive side of the QP, and the CQ handlers, on the caller's goroutine until
	// done reports true, if no other goroutine runs it and for as long as that can last. It may
	// return earlier: the caller asks done.
	Drive(done func() bool)

	// Rouse has the provider run the receive side if no goroutine does.
	Rouse()

	// Prompt notifies CQ handlers of completions of deferred work requests.
	Prompt()

	// Lend has f run once, by the goroutine of the receive loop after what has come is done, or by
	// another one. Where f takes long another goroutine receives meanwhile, and the end of the QP
	// does not wait for f. It is for CQ handlers; false: not now.
	Lend(f func()) bool
}

// A Listener takes connection requests of peers.
type Listener interface {
	// Accept returns the next connection request. It fails with the error of ctx when that ends,
	// with ErrClosed after Close, and with the cause when the listener has ended by itself.
	Accept(ctx context.Context) (ConnRequest, error)

	// Addr is where peers reach the listener.
	Addr() net.Addr

	// Close stops listening and ends connections in start-up; requests that Accept has
	// returned are not touched.
	Close() error
}

// A ConnRequest is a peer that wants to connect. It ends in exactly one of Accept and Reject.
type ConnRequest interface {
	// PrivateData is what the peer's ULP sent along.
	PrivateData() []byte

	// RemoteAddr is the peer's address for exports, locks, limits and the reply cache.
	RemoteAddr() net.Addr

	// NetConn is the connection of the operating system that the request came by, to ask the system
	// about it; nil if it has none of its own. It MUST NOT be read from, written to or closed.
	NetConn() net.Conn

	// IRD is how many of our RDMA Reads the peer takes at once; 0 also when it did not say.
	IRD() int

	// ORD is how many RDMA Reads the peer wants to have outstanding; 0 also when it did not say.
	ORD() int

	// Accept accepts the request and brings qp to RTS. Receives that the peer may use at once have
	// to be posted before. A qp of UD that is in RTS, on the address that the request came to,
	// stays as it is: the peer is told of it, as were others. Who the peer's QP is, its first
	// message says.
	Accept(qp *QP, p ConnParams) error

	// Reject refuses the request, with bytes for the peer's ULP.
	Reject(privateData []byte) error
}

// A DatagramRequest is a ConnRequest that came by a datagram socket, which many connections share.
type DatagramRequest interface {
	ConnRequest

	// Sockets is the addresses of our socket and of the one that has sent the request, to ask the
	// system about them.
	Sockets() (local, remote netip.AddrPort)

	// Abandon has an Accept that waits for the peer fail, now or when it comes to that. It does not
	// wait, and may be called more than once.
	Abandon()
}

// NewDevice returns a Device whose QPs are of provider p. It is for providers; programs call
// Open, or the provider's own Open.
func NewDevice(p Provider) *Device { return &Device{provider: p, caps: p.Caps()} }

var (
	openersMu sync.Mutex
	openers   = map[string]func(DeviceConfig) *Device{} // guarded by openersMu
)

// Register makes a provider known to Open. Providers call it when they are initialized; a
// name that is taken is a bug of the program.
func Register(name string, open func(DeviceConfig) *Device) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if openers[name] != nil {
		panic("rnic: two providers of the name " + name)
	}
	openers[name] = open
}

// Open returns a Device of the provider that has the name; Providers lists them. A
// provider is there when its package is imported:
//
//	import _ "github.com/nfsrdma/nfsrdma/rnic/iwarp"
//
//	dev, err := rnic.Open("iwarp", rnic.DeviceConfig{})
func Open(provider string, cfg DeviceConfig) (*Device, error) {
	openersMu.Lock()
	open := openers[provider]
	openersMu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("rnic: no provider %q; there are %q", provider, Providers())
	}
	return open(cfg), nil
}

// Providers is the names that Open takes, sorted.
func Providers() []string {
	openersMu.Lock()
	defer openersMu.Unlock()
	var names []string
	for name := range openers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var (
	errService  = errors.New("rnic: the provider does not have the service")
	errNoStream = errors.New("rnic: the provider does not run over a stream")
)

// Listen takes connection requests at an address of the provider's network; for iWARP, TCP.
func (d *Device) Listen(network, addr string) (Listener, error) {
	return d.ListenFor(RC, network, addr)
}

// ListenFor is Listen for QPs of service s: a listener takes requests for QPs of one service. What
// Accept does with a QP of UD is said at ConnRequest.
func (d *Device) ListenFor(s Service, network, addr string) (Listener, error) {
	if !d.serves(s) {
		return nil, d.noService(s)
	}
	return d.provider.Listen(s, network, addr)
}

// serves reports whether QPs of a service can be made.
func (d *Device) serves(s Service) bool { return d.caps.Services&(1<<s) != 0 }

func (d *Device) noService(s Service) error {
	return fmt.Errorf("%w: %s and %v", errService, d.caps.Provider, s)
}

// ListenOn is Listen on a net.Listener, which it closes in the end. The provider has to be a
// StreamProvider; with any other, Accept fails.
func (d *Device) ListenOn(nl net.Listener) Listener {
	if p, ok := d.provider.(StreamProvider); ok {
		return p.ListenOn(nl)
	}
	nl.Close()
	return noListener{nl.Addr()}
}

// noListener is what ListenOn makes where there are no streams.
type noListener struct{ addr net.Addr }

func (noListener) Accept(context.Context) (ConnRequest, error) { return nil, errNoStream }
func (l noListener) Addr() net.Addr                            { return l.addr }
func (noListener) Close() error                                { return nil }

// Connect connects qp to a Listener at addr ("host:port") and brings it to RTS. ctx bounds all of
// it. A refusal of the peer's ULP is a *RejectError. A QP whose Connect fails is as it was and may
// be tried again, unless its Err says that it has ended.
//
// A QP of UD is connected to nobody: Connect has the listener name a QP, which QP.Peer returns.
func (d *Device) Connect(ctx context.Context, qp *QP, addr string, p ConnParams) error {
	if err := qp.idleOrErr(); err != nil {
		return err
	}
	return d.provider.Connect(ctx, qp.ep, addr, p)
}

// ConnectOver is Connect on a stream that is there already; who calls it is the initiator,
// whoever dialed. The stream belongs to the QP afterwards, and is closed when there is an error.
func (d *Device) ConnectOver(ctx context.Context, qp *QP, c net.Conn, p ConnParams) error {
	sp, ok := d.provider.(StreamProvider)
	err := qp.idleOrErr()
	if !ok {
		err = errNoStream
	}
	if err != nil {
		c.Close()
		return err
	}
	return sp.ConnectOver(ctx, qp.ep, c, p)
}
