// The seam below the verbs: a wire protocol's implementation of Device, QP and listener.

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

// A Provider implements one wire protocol for the QPs of one Device. It stands between the verbs,
// which know no protocol, and a network. Any goroutine may call its methods.
type Provider interface {
	// Caps returns the features of this provider's QPs; it does not change.
	Caps() Caps

	// NewEndpoint makes the provider's half of an unconnected QP. The Endpoint holds q for life,
	// and starts no goroutine before it is connected.
	NewEndpoint(q *ProviderQP, cfg QPConfig) (Endpoint, error)

	// Connect connects ep, from NewEndpoint, and calls ProviderQP.Established when it is ready.
	// After an error ep is unchanged, unless it has ended.
	Connect(ctx context.Context, ep Endpoint, addr string, p ConnParams) error

	// Listen takes connection requests at an address of the provider's network, for QPs of service
	// s, one of Caps.Services. Accepting a request for datagrams returns the number and the Q_Key
	// of a QP to the peer; another request may have established that QP already.
	Listen(s Service, network, addr string) (Listener, error)
}

// A StreamProvider is a Provider with byte streams as connections, one for each QP. The streams can
// be made elsewhere: over TLS, in a simulation. Datagram providers do not implement StreamProvider.
type StreamProvider interface {
	Provider

	// ConnectOver is Connect over an existing stream; ep owns it, also after an error.
	ConnectOver(ctx context.Context, ep Endpoint, c net.Conn, p ConnParams) error

	// ListenOn is Listen on a net.Listener, owned by the result.
	ListenOn(nl net.Listener) Listener
}

// An Endpoint is the provider's half of one QP: it turns posted work into wire messages, and
// received messages into completions. Any goroutine may call its methods.
type Endpoint interface {
	// PostSend queues the work requests, all or none, in order, and never waits for the network. It
	// copies wrs. The QP has made all checks that need no protocol.
	PostSend(wrs []Posted) error

	// Release returns once no pending transmission points into the memory that mr had.
	Release(mr *MR)

	// Disconnect refuses new posts, sends the posted ones, and notifies the peer of the end. It
	// returns when the QP has ended; if ctx ends first, the QP ends at once.
	Disconnect(ctx context.Context) error

	// Abort begins to end the QP, with err as its cause unless the QP has a cause already. It does
	// not wait. A CQ handler may call it.
	Abort(err error)

	// Wait returns when all goroutines of the endpoint have ended.
	Wait()

	// ReceivesPosted is called after receives were posted to an empty queue, for providers with a
	// peer that waits for receives. It never waits for the network.
	ReceivesPosted()

	// Join and Leave attach a UD endpoint to multicast groups; see QP.Join. They are never called
	// for other endpoints or providers.
	Join(group netip.Addr) (AddressHandle, error)
	Leave(group netip.Addr)

	// Moved returns the payload progress described at QP.Moved.
	Moved() uint64

	// LocalAddr and RemoteAddr return nil before there is a connection.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// A Scheduler is an Endpoint that shares its receive loop's work with other goroutines. It is an
// Endpoint's only optional interface; without it, the loop alone receives.
type Scheduler interface {
	Endpoint

	// PollUntil runs the receive side of the QP, and the CQ handlers, on the caller's goroutine
	// until done returns true. It does so only if no other goroutine receives. It may return early:
	// the caller checks done.
	PollUntil(done func() bool)

	// EnsureReceiver makes the provider run the receive side if no goroutine does.
	EnsureReceiver()

	// RecallReceiver makes a goroutine in PollUntil return early, at once.
	RecallReceiver()

	// FlushDeferred notifies CQ handlers of completions of deferred work requests.
	FlushDeferred()

	// Uncork sends the posts that CQ handlers on the receive loop have collected, and ends the
	// collection. A handler calls it.
	Uncork()

	// InputWaits reports whether input has come that the receive loop has not read yet.
	InputWaits() bool
}

// A Listener takes peers' connection requests.
type Listener interface {
	// Accept returns the next connection request. It fails with ctx's error when ctx ends, with
	// ErrClosed after Close, and with the cause when the listener has ended by itself.
	Accept(ctx context.Context) (ConnRequest, error)

	// Addr returns the listener's address for peers.
	Addr() net.Addr

	// Close stops listening and ends connections in start-up; it does not affect requests returned
	// by Accept.
	Close() error
}

// A StreamListener is a Listener for connections over streams.
type StreamListener interface {
	Listener
	// Inbound sets a function that replaces each inbound stream before its connection set-up, for
	// example by a TLS session on it. f runs within the deadline of the set-up, on several
	// goroutines concurrently. After an error the stream is closed. Streams that came before
	// Inbound are not replaced.
	Inbound(f func(net.Conn) (net.Conn, error))
}

// A ConnRequest is a peer's request to connect. It ends in exactly one call of Accept or Reject.
type ConnRequest interface {
	// PrivateData returns the private data of the peer's ULP.
	PrivateData() []byte

	// RemoteAddr returns the peer's address for exports, locks, limits and the reply cache.
	RemoteAddr() net.Addr

	// NetConn returns the request's connection of the operating system, for queries to the system;
	// nil if the request has no connection for itself alone. The connection MUST NOT be read,
	// written or closed.
	NetConn() net.Conn

	// IRD returns the number of our concurrent RDMA Reads accepted by the peer; 0 also if not
	// stated.
	IRD() int

	// ORD returns the number of concurrent RDMA Reads wanted by the peer; 0 also if not stated.
	ORD() int

	// Accept accepts the request and brings qp to RTS. Receives that the peer may use at once must
	// be posted before. A UD qp in RTS, on the request's address, stays unchanged: the peer learns
	// its number, as earlier peers have. The peer's first message identifies the peer's QP.
	Accept(qp *QP, p ConnParams) error

	// Reject refuses the request, with bytes for the peer's ULP.
	Reject(privateData []byte) error
}

// A DatagramRequest is a ConnRequest from a datagram socket shared by many connections.
type DatagramRequest interface {
	ConnRequest

	// Sockets returns the addresses of our socket and of the request's sender, for queries to the
	// system.
	Sockets() (local, remote netip.AddrPort)

	// Abandon makes an Accept that waits for the peer fail, now or when it begins to wait. It does
	// not wait, and may be called more than once.
	Abandon()
}

// NewDevice returns a Device with QPs of provider p. Providers use it; programs call Open, or the
// provider's Open.
func NewDevice(p Provider) *Device { return &Device{provider: p, caps: p.Caps()} }

var (
	openersMu sync.Mutex
	openers   = map[string]func(DeviceConfig) *Device{} // guarded by openersMu
)

// Register makes a provider known to Open. Providers call it when they are initialized; a duplicate
// name is a bug of the program.
func Register(name string, open func(DeviceConfig) *Device) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if openers[name] != nil {
		panic("rnic: two providers of the name " + name)
	}
	openers[name] = open
}

// Open returns a Device of the named provider; Providers lists the names. Importing a provider's
// package makes it available:
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

// Providers returns the names for Open, sorted.
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

// ListenFor is Listen for QPs of service s: a listener takes requests for QPs of one service.
// ConnRequest describes Accept for a UD QP.
func (d *Device) ListenFor(s Service, network, addr string) (Listener, error) {
	if !d.serves(s) {
		return nil, d.noService(s)
	}
	return d.provider.Listen(s, network, addr)
}

// serves reports whether the device can make QPs of service s.
func (d *Device) serves(s Service) bool { return d.caps.Services&(1<<s) != 0 }

func (d *Device) noService(s Service) error {
	return fmt.Errorf("%w: %s and %v", errService, d.caps.Provider, s)
}

// ListenOn is Listen on a net.Listener, and closes it in the end. The provider must be a
// StreamProvider; with any other, Accept fails.
func (d *Device) ListenOn(nl net.Listener) Listener {
	if p, ok := d.provider.(StreamProvider); ok {
		return p.ListenOn(nl)
	}
	nl.Close()
	return noListener{nl.Addr()}
}

// noListener is ListenOn's result for a provider without streams.
type noListener struct{ addr net.Addr }

func (noListener) Accept(context.Context) (ConnRequest, error) { return nil, errNoStream }
func (l noListener) Addr() net.Addr                            { return l.addr }
func (noListener) Close() error                                { return nil }

// Connect connects qp to a Listener at addr ("host:port") and brings it to RTS. ctx bounds all of
// it. A refusal by the peer's ULP is a *RejectError. After an error the QP is unchanged and may be
// tried again, unless its Err says that it has ended.
//
// A UD QP has no connection: Connect requests a QP from the listener, and QP.Peer returns it.
func (d *Device) Connect(ctx context.Context, qp *QP, addr string, p ConnParams) error {
	if err := qp.idleOrErr(); err != nil {
		return err
	}
	return d.provider.Connect(ctx, qp.ep, addr, p)
}

// ConnectOver is Connect over an existing stream; its caller is the initiator, regardless of the
// side that dialed. The stream belongs to the QP afterwards, and is closed after an error.
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
