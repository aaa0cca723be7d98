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
	m, err := dialLocal(ctx, r.socket)
	if err != nil {
		return err
	}
	defer m.Close()
	there, err := dump(ctx, m)
	errs := []error{err}
	for i := range r.list {
		if b := &r.list[i]; there[serviceOf(b)] == b.Addr {
			_, err := m.change(ctx, rpcbind.ProcUnset, b)
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
	m, err := dialLocal(ctx, r.socket)
	if err != nil {
		return err
	}
	defer m.Close()
	there, err := dump(ctx, m)
	if err != nil {
		return err
	}
	var errs []error
	for i := range r.list {
		if b := &r.list[i]; there[serviceOf(b)] != b.Addr {
			errs = append(errs, set(ctx, m, b, there[serviceOf(b)]))
		}
	}
	return errors.Join(errs...)
}

// set registers b. If other, another server's address, is registered instead, set first removes
// that address. It removes nothing while the other server answers: rpcbind keeps a killed server's
// registration.
func set(ctx context.Context, m *Mapper, b *rpcbind.Binding, other string) error {
	if other != "" {
		if served(ctx, b, other) {
			return &ConflictError{*b, other}
		}
		if _, err := m.change(ctx, rpcbind.ProcUnset, b); err != nil {
			return err
		}
	}
	ok, err := m.change(ctx, rpcbind.ProcSet, b)
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

// dump returns all registrations, as universal addresses.
func dump(ctx context.Context, m *Mapper) (map[service]string, error) {
	list, err := m.Dump(ctx)
	there := make(map[service]string, len(list))
	for i := range list {
		there[serviceOf(&list[i])] = list[i].Addr
	}
	return there, err
}

type nothing struct{}

func (nothing) EncodeXDR(*xdr.Encoder) {}
