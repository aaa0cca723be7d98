// Being known to the rpcbind of this machine.

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

// ErrNone is that no rpcbind runs on this machine.
var ErrNone = errors.New("no rpcbind runs on this machine")

// A ConflictError is a program that somebody else has registered, and serves.
type ConflictError struct {
	Binding rpcbind.Binding // the one of ours that is not registered
	Other   string          // where the other one is: a universal address
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
	// lookEvery is how often it is looked whether rpcbind still knows us: one that was started anew
	// knows nobody.
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

// Register registers bindings and keeps them registered until Close. The error is ErrNone, another
// one of rpcbind as a whole, or, for each program that another server has, a ConflictError
// (errors.Join), and then the others are registered. The Registrar is never nil, and goes on
// trying.
func Register(ctx context.Context, list []rpcbind.Binding) (*Registrar, error) {
	return register(ctx, list, rpcbindSocket, lookEvery)
}

func register(ctx context.Context, list []rpcbind.Binding, socket string, every time.Duration) (*Registrar, error) {
	r := &Registrar{list: list, socket: socket, every: every}
	err := r.all(ctx)
	life, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.done.Go(func() { r.keep(life) })
	return r, err
}

// Close takes the bindings out again.
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

// keep looks now and then whether rpcbind knows us.
func (r *Registrar) keep(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.all(ctx) // what is in the way was told when it was first met
		}
	}
}

// all registers what is not registered.
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

// dial connects to rpcbind: by its socket, where the kernel tells it who we are, or else over
// loopback from a reserved port, by which it knows root.
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

// set registers b, which is not registered, but other may be. That is taken out where nobody serves
// it any more: rpcbind knows a server that was killed until it is told otherwise.
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

// served reports whether what is registered at other answers: over TCP, as iWARP's port does, too.
// Of UDP it is not known, so what is registered there stays.
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

// change calls SET or UNSET. false: rpcbind did not do it.
func change(ctx context.Context, c *transport.Client, proc uint32, b *rpcbind.Binding) (bool, error) {
	var res rpcbind.BoolRes
	err := call(ctx, c, proc, b, &res)
	return res.OK, err
}

// dump returns all that is registered, as universal addresses. Where one service is rpcbind says by
// this alone, whatever the transport that it is asked over.
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

func call(ctx context.Context, c *transport.Client, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	p := transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version4, Proc: proc, Name: "RPCBPROC", MaxReply: rpcbind.MaxList}
	return c.Call(ctx, &p, args, res, nil, 0)
}
