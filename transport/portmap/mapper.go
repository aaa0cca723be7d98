// Asking a port mapper for addresses, and changing its registrations.

package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Errors of a Mapper.
var (
	ErrNotRegistered = errors.New("program not registered")
	// ErrRefused: the port mapper does not make this change. The program is registered with another
	// address, or this process has no right to change it.
	ErrRefused = errors.New("rpcbind refuses the change")
)

// A Mapper is a connection to a machine's port mapper. It uses rpcbind version 4, or the newest
// older one of version 3 and the port mapper's version 2 that the machine has. A Mapper is safe for
// concurrent use.
type Mapper struct {
	c    *transport.Client
	net  string        // "tcp", "udp" or "unix"
	host netip.Addr    // the port mapper's; invalid for "unix", and if only its name is known
	vers atomic.Uint32 // to use
}

// Dial connects to the port mapper at addr, "host" or "host:port" (111 without a port), over
// network, "tcp" or "udp". Over "udp" the first call shows whether one is there.
func Dial(ctx context.Context, network, addr string, cfg transport.ClientConfig) (*Mapper, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = strings.Trim(addr, "[]"), strconv.Itoa(rpcbind.Port)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	dial := transport.DialTCP
	if network == "udp" {
		dial = transport.DialUDP
	}
	if cfg.Service == "" {
		cfg.Service = "rpcbind"
	}
	c, err := dial(ctx, net.JoinHostPort(ips[0].Unmap().String(), port), cfg)
	if err != nil {
		return nil, err
	}
	return New(c, network), nil
}

// DialLocal connects to this machine's port mapper: by rpcbind's socket, which identifies this
// process's user, or else over loopback from a reserved port, which identifies root. Only these
// may Set and Unset. The error is ErrNone if there is no port mapper.
func DialLocal(ctx context.Context) (*Mapper, error) { return dialLocal(ctx, rpcbindSocket) }

func dialLocal(ctx context.Context, socket string) (*Mapper, error) {
	cfg := transport.ClientConfig{Service: "rpcbind", CallTimeout: askTimeout, MaxRetries: -1, ReservedPort: true}
	bySocket := cfg
	bySocket.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if c, err := transport.DialTCP(ctx, socket, bySocket); err == nil {
		return New(c, "unix"), nil
	}
	m, err := Dial(ctx, "tcp", "127.0.0.1", cfg)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	return m, nil
}

// New returns a Mapper that calls by c, which is connected to a port mapper over network, "tcp" or
// "udp". Close of the Mapper closes c.
func New(c *transport.Client, network string) *Mapper {
	m := &Mapper{c: c, net: network}
	if at, err := netip.ParseAddrPort(c.Addr()); err == nil {
		m.host = at.Addr()
	}
	m.vers.Store(rpcbind.Version4)
	return m
}

// Close ends the connection.
func (m *Mapper) Close() error { return m.c.Close() }

// Addr returns the address of a program over a transport, such as rpcbind.NetUDP. A program at all
// addresses is at the port mapper's. The error is ErrNotRegistered if there is none.
func (m *Mapper) Addr(ctx context.Context, prog, vers uint32, netid string) (at netip.AddrPort, err error) {
	b := rpcbind.Binding{Prog: prog, Vers: vers, Netid: netid}
	if m.host.IsValid() {
		b.Addr = rpcbind.UniversalAddr(netip.AddrPortFrom(m.host, rpcbind.Port))
	}
	err = m.versions(func(v uint32) (err error) {
		switch {
		case v == rpcbind.Version:
			at, err = m.getport(ctx, &b)
		case netid == m.netid():
			at, err = m.getaddr(ctx, v, &b)
		default: // GETADDR returns the address over the transport of its own call
			at, err = m.fromDump(ctx, serviceOf(&b))
		}
		return err
	})
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case at.Port() == 0:
		return netip.AddrPort{}, fmt.Errorf("program %d version %d over %s: %w", prog, vers, netid, ErrNotRegistered)
	case at.Addr().IsUnspecified() && m.host.IsValid() && at.Addr().Is4() == m.host.Is4():
		at = netip.AddrPortFrom(m.host, at.Port())
	case at.Addr().IsLinkLocalUnicast():
		at = netip.AddrPortFrom(at.Addr().WithZone(m.host.Zone()), at.Port())
	}
	return at, nil
}

// Port returns the port of a program over the transport of the Mapper's own calls, at the same
// host. The error is ErrNotRegistered if there is none. Over IPv6, that of a program which is
// registered for IPv4 alone is better than none.
func (m *Mapper) Port(ctx context.Context, prog, vers uint32) (uint16, error) {
	at, err := m.Addr(ctx, prog, vers, m.netid())
	if !errors.Is(err, ErrNotRegistered) {
		return at.Port(), err
	}
	// GETPORT's transports have no address family.
	if at, failed := m.getport(ctx, &rpcbind.Binding{Prog: prog, Vers: vers, Netid: m.net}); failed == nil && at.Port() != 0 {
		return at.Port(), nil
	}
	return 0, err
}

// netid returns the transport of the Mapper's own calls. Without the host's address it can be wrong
// by the 6 at its end, which GETADDR ignores.
func (m *Mapper) netid() string {
	if m.host.Is6() {
		return m.net + "6"
	}
	return m.net
}

// versions runs f with the version to use, and again with an older one if the port mapper has only
// that.
func (m *Mapper) versions(f func(vers uint32) error) error {
	for {
		vers := m.vers.Load()
		err := f(vers)
		var other *transport.MismatchError
		if !errors.As(err, &other) || other.Prog != rpcbind.Program || other.High >= vers || other.High < rpcbind.Version {
			return err
		}
		m.vers.CompareAndSwap(vers, other.High)
	}
}

func (m *Mapper) call(ctx context.Context, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	p := transport.Proc{Prog: rpcbind.Program, Vers: vers, Proc: proc, Name: "RPCBPROC", MaxReply: rpcbind.MaxList}
	return m.c.Call(ctx, &p, args, res, nil, 0)
}

// getport does GETPORT of version 2. Port 0: not registered.
func (m *Mapper) getport(ctx context.Context, b *rpcbind.Binding) (netip.AddrPort, error) {
	ask, ok := mappingOf(b)
	if !ok {
		return netip.AddrPort{}, nil // version 2 has TCP and UDP over IPv4 only
	}
	var res rpcbind.PortRes
	err := m.call(ctx, rpcbind.Version, rpcbind.ProcGetport, &ask, &res)
	if res.Port > 0xffff {
		return netip.AddrPort{}, transport.ErrBadReply
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(res.Port)), err
}

// mappingOf returns b for version 2; ok is false for transports that version 2 lacks.
func mappingOf(b *rpcbind.Binding) (_ rpcbind.Mapping, ok bool) {
	at, _ := rpcbind.ParseUniversalAddr(b.Addr)
	for prot, netid := range pmapNetids {
		if netid == b.Netid {
			return rpcbind.Mapping{Prog: b.Prog, Vers: b.Vers, Prot: prot, Port: uint32(at.Port())}, true
		}
	}
	return rpcbind.Mapping{}, false
}

// getaddr does GETADDR of versions 3 and 4.
func (m *Mapper) getaddr(ctx context.Context, vers uint32, b *rpcbind.Binding) (netip.AddrPort, error) {
	var res rpcbind.AddrRes
	if err := m.call(ctx, vers, rpcbind.ProcGetaddr, b, &res); err != nil || res.Addr == "" {
		return netip.AddrPort{}, err
	}
	return rpcbind.ParseUniversalAddr(res.Addr)
}

// fromDump finds a service in the list of all.
func (m *Mapper) fromDump(ctx context.Context, s service) (netip.AddrPort, error) {
	all, err := m.Dump(ctx)
	for i := range all {
		if serviceOf(&all[i]) == s {
			return rpcbind.ParseUniversalAddr(all[i].Addr)
		}
	}
	return netip.AddrPort{}, err
}

// Dump returns all registrations.
func (m *Mapper) Dump(ctx context.Context) (all []rpcbind.Binding, err error) {
	err = m.versions(func(v uint32) error {
		if v != rpcbind.Version {
			var list rpcbind.ListRes
			err := m.call(ctx, v, rpcbind.ProcDump, nothing{}, &list)
			all = list.Bindings
			return err
		}
		var list rpcbind.DumpRes
		err := m.call(ctx, v, rpcbind.ProcDump, nothing{}, &list)
		all = nil
		for _, x := range list.Mappings {
			if netid := pmapNetids[x.Prot]; netid != "" && x.Port <= 0xffff {
				at := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(x.Port))
				all = append(all, rpcbind.Binding{Prog: x.Prog, Vers: x.Vers, Netid: netid, Addr: rpcbind.UniversalAddr(at)})
			}
		}
		return err
	})
	return all, err
}

// Set registers a binding, once; a Registrar keeps it registered. Bindings makes bindings.
func (m *Mapper) Set(ctx context.Context, b *rpcbind.Binding) error {
	return m.mustChange(ctx, rpcbind.ProcSet, b)
}

// Unset removes a binding; its address is ignored. A port mapper with version 2 alone removes the
// program over all its transports (RFC 1833 §3.2).
func (m *Mapper) Unset(ctx context.Context, b *rpcbind.Binding) error {
	return m.mustChange(ctx, rpcbind.ProcUnset, b)
}

func (m *Mapper) mustChange(ctx context.Context, proc uint32, b *rpcbind.Binding) error {
	ok, err := m.change(ctx, proc, b)
	if !ok && err == nil {
		err = fmt.Errorf("program %d version %d over %s: %w", b.Prog, b.Vers, b.Netid, ErrRefused)
	}
	return err
}

// change calls SET or UNSET; false: the port mapper refused.
func (m *Mapper) change(ctx context.Context, proc uint32, b *rpcbind.Binding) (bool, error) {
	var res rpcbind.BoolRes
	err := m.versions(func(v uint32) error {
		if v != rpcbind.Version {
			return m.call(ctx, v, proc, b, &res)
		}
		old, ok := mappingOf(b)
		if !ok {
			return nil // refused
		}
		return m.call(ctx, v, proc, &old, &res)
	})
	return res.OK, err
}
