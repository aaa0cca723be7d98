// Registering with this machine's rpcbind.

package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// ErrNone: no rpcbind runs on this machine.
var ErrNone = errors.New("no rpcbind runs on this machine")

// A ConflictError reports a program that another server has registered, and serves.
type ConflictError struct {
	Binding rpcbind.Binding // this server's binding, which is not registered
	Other   string          // the other server's universal address
}

func (e *ConflictError) Error() string {
	b := &e.Binding
	where := e.Other
	if at, err := rpcbind.ParseUniversalAddr(where); err == nil {
		where = "port " + strconv.Itoa(int(at.Port()))
	}
	return fmt.Sprintf("program %d version %d over %s is another server's, at %s", b.Prog, b.Vers, b.Netid, where)
}

const (
	rpcbindSocket = "/run/rpcbind.sock"
	askTimeout    = 5 * time.Second
	// lookEvery is the interval between checks for registrations lost in a restart of rpcbind.
	lookEvery = 15 * time.Second
)

// A Registrar keeps bindings registered.
type Registrar struct {
	// Set once.
	list   []rpcbind.Binding
	socket string
	every  time.Duration
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Register registers bindings and keeps them registered until Close. The error is ErrNone, or
// another error of rpcbind as a whole. If other servers hold some programs, it joins a
// ConflictError for each (errors.Join) and registers the remaining programs. The Registrar is never
// nil, and keeps trying.
func Register(ctx context.Context, list []rpcbind.Binding) (*Registrar, error) {
	return register(ctx, list, rpcbindSocket, lookEvery)
}

// register is Register with the socket and the interval as arguments, for tests.
func register(ctx context.Context, list []rpcbind.Binding, socket string, every time.Duration) (*Registrar, error) {
	r := &Registrar{list: list, socket: socket, every: every}
	err := r.all(ctx)
	life, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.done.Go(func() { r.keep(life) })
	return r, err
}

// Close removes the bindings.
func (r *Registrar) Close(ctx context.Context) error {
	r.cancel()
	r.done.Wait()
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	there, err := dump(ctx, c)
	errs := []error{err}
	for i := range r.list {
		if b := &r.list[i]; there[serviceOf(b)] == b.Addr {
			_, err := change(ctx, c, rpcbind.ProcUnset, b)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keep checks the registrations at intervals.
func (r *Registrar) keep(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.all(ctx) // Register has returned the conflicts
		}
	}
}

// all registers the missing bindings.
func (r *Registrar) all(ctx context.Context) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	there, err := dump(ctx, c)
	if err != nil {
		return err
	}
	var errs []error
	for i := range r.list {
		if b := &r.list[i]; there[serviceOf(b)] != b.Addr {
			errs = append(errs, set(ctx, c, b, there[serviceOf(b)]))
		}
	}
	return errors.Join(errs...)
}

// dial connects to rpcbind: by its socket, which identifies this process's user, or else over
// loopback from a reserved port, which identifies root.
func (r *Registrar) dial(ctx context.Context) (*transport.Client, error) {
	cfg := transport.ClientConfig{Service: "rpcbind", CallTimeout: askTimeout, MaxRetries: -1, ReservedPort: true}
	bySocket := cfg
	bySocket.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.socket)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if c, err := transport.DialTCP(ctx, r.socket, bySocket); err == nil {
		return c, nil
	}
	c, err := transport.DialTCP(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(rpcbind.Port)), cfg)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	return c, nil
}

// set registers b. If other, another server's address, is registered instead, set first removes
// that address. It removes nothing while the other server answers: rpcbind keeps a killed server's
// registration.
func set(ctx context.Context, c *transport.Client, b *rpcbind.Binding, other string) error {
	if other != "" {
		if served(ctx, b, other) {
			return &ConflictError{*b, other}
		}
		if _, err := change(ctx, c, rpcbind.ProcUnset, b); err != nil {
			return err
		}
	}
	ok, err := change(ctx, c, rpcbind.ProcSet, b)
	if !ok && err == nil {
		return fmt.Errorf("rpcbind refuses program %d over %s: root may register it", b.Prog, b.Netid)
	}
	return err
}

// served reports whether a server answers at other, over TCP, which also shows iWARP's port. UDP
// has no such test, so UDP registrations count as served.
func served(ctx context.Context, b *rpcbind.Binding, other string) bool {
	at, err := rpcbind.ParseUniversalAddr(other)
	if err != nil {
		return false
	}
	if b.Netid == rpcbind.NetUDP || b.Netid == rpcbind.NetUDP6 {
		return true
	}
	host := at.Addr()
	if host.IsUnspecified() {
		host = loopback(host)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(host, at.Port()).String())
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

func loopback(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// change calls SET or UNSET; false: rpcbind refused.
func change(ctx context.Context, c *transport.Client, proc uint32, b *rpcbind.Binding) (bool, error) {
	var res rpcbind.BoolRes
	err := call(ctx, c, proc, b, &res)
	return res.OK, err
}

// dump returns all registrations, as universal addresses. Only DUMP returns a service's address
// independently of the transport of the query.
func dump(ctx context.Context, c *transport.Client) (map[service]string, error) {
	var list rpcbind.ListRes
	if err := call(ctx, c, rpcbind.ProcDump, nothing{}, &list); err != nil {
		return nil, err
	}
	there := make(map[service]string, len(list.Bindings))
	for i := range list.Bindings {
		there[serviceOf(&list.Bindings[i])] = list.Bindings[i].Addr
	}
	return there, nil
}

type nothing struct{}

func (nothing) EncodeXDR(*xdr.Encoder) {}

// call makes one rpcbind version 4 call.
func call(ctx context.Context, c *transport.Client, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	p := transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version4, Proc: proc, Name: "RPCBPROC", MaxReply: rpcbind.MaxList}
	return c.Call(ctx, &p, args, res, nil, 0)
}
